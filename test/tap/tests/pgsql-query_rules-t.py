#!/usr/bin/python3
"""pgsql_query_rules: matching by digest text, pattern, user, database; chaining; destinations."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error  # noqa: E402
from cluster import READER, WRITER, Cluster, Proxy, eventually  # noqa: E402

CLUSTER = PROXY = None
OTHER = 30


def setup():
	"""No pair: only rules decide. Replica 1 is hostgroup 20, replica 2 is hostgroup 30."""
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 2)
	CLUSTER.primary.sql('create table kv as select 1 as k, 2 as v; grant all on kv to public',
		'app')
	CLUSTER.wait_caught_up()
	ports = [n.port for n in CLUSTER.nodes]
	PROXY = Proxy(CLUSTER, pair=None, wait_roles=False, servers=[
		{'address': '127.0.0.1', 'port': ports[0], 'hostgroup': WRITER},
		{'address': '127.0.0.1', 'port': ports[1], 'hostgroup': READER},
		{'address': '127.0.0.1', 'port': ports[2], 'hostgroup': OTHER}])


def teardown():
	PROXY.stop()
	CLUSTER.close()


def _load(*rules):
	PROXY.admin('delete from pgsql_query_rules')
	for number, rule in enumerate(rules, 1):
		row = dict({'rule_id': number, 'active': 1}, **rule)
		values = ', '.join(str(v) if isinstance(v, int) else "'%s'" % v.replace("'", "''")
			for v in row.values())
		PROXY.admin('insert into pgsql_query_rules (%s) values (%s)' % (', '.join(row), values))
	PROXY.admin('load pgsql query rules to runtime')


def _group(text, user='app', password='app-secret', database='app'):
	with PROXY.session(user, password, database) as session:
		port = int(session.sql(text).rows[0][0])
	return {CLUSTER.nodes[0].port: WRITER, CLUSTER.nodes[1].port: READER,
		CLUSTER.nodes[2].port: OTHER}[port]


def test_without_rules_everything_goes_to_the_users_hostgroup():
	_load()
	equal(_group('select inet_server_port() from kv'), WRITER)


def test_match_digest_and_destination():
	_load({'match_digest': '^SELECT inet_server_port', 'destination_hostgroup': READER, 'apply': 1})
	equal(_group('select inet_server_port() from kv where k = 1'), READER)
	equal(_group('select 0 + inet_server_port() from kv where k = 1'), WRITER)


def test_match_pattern_sees_literals():
	_load({'match_pattern': "'special'", 'destination_hostgroup': OTHER, 'apply': 1})
	equal(_group("select inet_server_port(), 'special'"), OTHER)
	equal(_group("select inet_server_port(), 'ordinary'"), WRITER)


def test_case_and_modifiers():
	_load({'match_pattern': 'INET_SERVER', 'destination_hostgroup': READER, 'apply': 1})
	equal(_group('select inet_server_port()'), READER)
	_load({'match_pattern': 'INET_SERVER', 're_modifiers': '', 'destination_hostgroup': READER,
		'apply': 1})
	equal(_group('select inet_server_port()'), WRITER)


def test_exact_digest():
	with PROXY.session() as session:
		session.sql('select inet_server_port(), 31337')
	digest = eventually(lambda: [r[0] for r in PROXY.admin(
		"select digest from stats_pgsql_query_digest where"
		" digest_text like '%inet_server_port(), ?%'"
		' or digest_text like \'%inet_server_port(),?%\'').rows], what='the digest')[0]
	assert digest.startswith('0x') and len(digest) == 18, digest
	_load({'digest': digest, 'destination_hostgroup': OTHER, 'apply': 1})
	equal(_group('select inet_server_port(), 5'), OTHER)
	equal(_group('select inet_server_port()'), WRITER)


def test_user_and_database():
	_load({'username': 'app2', 'destination_hostgroup': READER, 'apply': 1},
		{'database': 'postgres', 'destination_hostgroup': OTHER, 'apply': 1})
	equal(_group('select inet_server_port()', 'app2', 'app2-secret'), READER)
	equal(_group('select inet_server_port()', database='postgres'), OTHER)
	equal(_group('select inet_server_port()'), WRITER)


def test_order_apply_and_negation():
	_load({'match_digest': 'inet_server_port', 'destination_hostgroup': READER, 'apply': 0},
		{'match_digest': 'kv', 'destination_hostgroup': OTHER, 'apply': 1})
	equal(_group('select inet_server_port() from kv'), OTHER)
	equal(_group('select inet_server_port()'), READER)
	_load({'match_digest': 'kv', 'negate_match_pattern': 1, 'destination_hostgroup': READER,
		'apply': 1})
	equal(_group('select inet_server_port()'), READER)
	equal(_group('select inet_server_port() from kv'), WRITER)


def test_flags_chain_rules():
	_load({'match_digest': 'inet_server_port', 'flagOUT': 5},
		{'flagIN': 5, 'match_digest': 'kv', 'destination_hostgroup': OTHER, 'apply': 1},
		{'match_digest': 'kv', 'destination_hostgroup': READER, 'apply': 1})
	equal(_group('select inet_server_port() from kv'), OTHER)
	equal(_group('select inet_server_port()'), WRITER)


def test_inactive_rule_is_ignored():
	_load({'active': 0, 'match_digest': '.', 'destination_hostgroup': READER, 'apply': 1})
	equal(_group('select inet_server_port()'), WRITER)


def test_error_rule_answers_and_keeps_the_session():
	_load({'match_digest': 'forbidden_thing', 'error_msg': 'not allowed here', 'apply': 1})
	with PROXY.session() as session:
		try:
			session.sql('select forbidden_thing()')
			raise AssertionError('no error')
		except Exception as e:  # pylint: disable=broad-except
			assert 'not allowed here' in str(e), e
		equal(session.scalar('select 1'), '1')


def test_hits_are_counted():
	_load({'match_digest': 'inet_server_port', 'destination_hostgroup': READER, 'apply': 1})
	before = int(PROXY.admin_scalar('select hits from stats_pgsql_query_rules where rule_id = 1'))
	for _ in range(7):
		_group('select inet_server_port()')
	eventually(lambda: int(PROXY.admin_scalar(
		'select hits from stats_pgsql_query_rules where rule_id = 1')) == before + 7,
		what='seven hits')


def test_rule_change_reaches_open_sessions_and_needs_load():
	_load()
	with PROXY.session() as session:
		where = 'select inet_server_port() from kv'
		equal(int(session.scalar(where)), CLUSTER.nodes[0].port)
		PROXY.admin(
			"insert into pgsql_query_rules (rule_id, active, match_digest, destination_hostgroup,"
			" apply) values (1, 1, 'kv', %d, 1)" % READER)
		equal(int(session.scalar(where)), CLUSTER.nodes[0].port)
		PROXY.admin('load pgsql query rules to runtime')
		eventually(lambda: int(session.scalar(where)) == CLUSTER.nodes[1].port, what='the new rule')


def test_rule_does_not_move_a_transaction():
	_load({'match_digest': 'inet_server_port', 'destination_hostgroup': READER, 'apply': 1})
	with PROXY.session() as session:
		session.sql('begin')
		session.sql('create temp table here (i int)')
		equal(int(session.scalar('select inet_server_port()')), CLUSTER.nodes[0].port)
		session.sql('rollback')


def test_broken_regular_expression_is_refused_and_the_old_rules_stay():
	_load({'match_digest': 'inet_server_port', 'destination_hostgroup': READER, 'apply': 1})
	PROXY.admin(
		"insert into pgsql_query_rules (rule_id, active, match_digest, destination_hostgroup,"
		" apply) values (9, 1, '(((', 10, 1)")
	error = expect_error('P0001', PROXY.admin, 'load pgsql query rules to runtime')
	assert '9' in error.message, error
	equal(_group('select inet_server_port()'), READER)


def test_multiplex_keeps_and_frees_the_connection():
	_load({'match_pattern': 'keep me', 'multiplex': 0, 'apply': 1},
		{'match_pattern': 'let go', 'multiplex': 1, 'apply': 1})
	with PROXY.session() as session:
		reasons = "select pin_reasons from stats_pgsql_processlist where SessionID = %d" % session.pid
		session.sql("select 'keep me'")
		equal(PROXY.admin(reasons).rows, [('rule',)])
		session.sql('select 1')
		equal(PROXY.admin(reasons).rows, [('rule',)])
		session.sql("select 'let go'")
		equal(PROXY.admin(reasons).rows, [(None,)])


if __name__ == '__main__':
	runner.main(globals())
