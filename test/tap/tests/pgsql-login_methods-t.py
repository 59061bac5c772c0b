#!/usr/bin/python3
"""Passwords in every form, on both sides: SCRAM with channel binding, SASLprep, verifiers that are
passed through, and what a changed password does."""
import base64
import hashlib
import hmac
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error, in_threads, psql  # noqa: E402
from cluster import WRITER, Cluster, Proxy, Wire, WireError, eventually, wire  # noqa: E402

CLUSTER = PROXY = None


def _row(username, password, **more):
	return dict({'username': username, 'password': password, 'default_hostgroup': WRITER}, **more)


def _md5(password, user):
	return 'md5' + hashlib.md5((password + user).encode()).hexdigest()


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0)
	for user in ('passed', 'prepared', 'hashed', 'rotated', 'other_verifier'):
		CLUSTER.primary.sql("create role %s login password 'start-secret'" % user)
	PROXY = Proxy(CLUSTER, pair=None, workers=1, users=[
		_row('app', 'app-secret'), _row('app2', 'app2-secret'),
		_row('rotated', 'start-secret'), _row('prepared', 'start-secret'),
		_row('hashed', _md5('start-secret', 'hashed'))])


def teardown():
	PROXY.stop()
	CLUSTER.close()


def _store(user, secret, more=''):
	PROXY.admin("delete from pgsql_users where username = '%s'" % user)
	PROXY.admin("insert into pgsql_users (username, password, default_hostgroup) values"
		" ('%s', '%s', %d)" % (user, secret.replace("'", "''"), WRITER))
	PROXY.admin('load pgsql users to runtime')


def _stored_on_server(user):
	return CLUSTER.primary.scalar("select rolpassword from pg_authid where rolname = '%s'" % user)


def _query(user, password, tls=False):
	with wire.connect(PROXY.address, user, password, 'app', tls=tls) as session:
		return session.scalar('select current_user')


# ---- client side: SCRAM flags -----------------------------------------------------------------

class _Exchange:
	"""One SCRAM login with any gs2 header, over TLS or not."""

	def __init__(self, tls, mechanism, header, binding=b'', password=b'app-secret'):
		self.session = Wire(PROXY.address)
		if tls:
			self.session.start_tls()
		self.session.send(wire.startup({'user': 'app', 'database': 'app'}))
		_, body = self.session.read_message()
		self.offered = body[4:].rstrip(b'\0').split(b'\0')
		self.mechanism, self.header, self.binding = mechanism, header, binding
		self.password = password

	def run(self):
		bare = b'n=,r=' + base64.b64encode(os.urandom(18))
		first = self.header + bare
		self.session.send(wire.frame('p', self.mechanism + b'\0' + struct.pack('!I', len(first)) +
			first))
		kind, body = self.session.read_message()
		if kind == 'E':
			raise WireError(wire.error_fields(body))
		server_first = body[4:]
		parts = dict(part.split(b'=', 1) for part in server_first.split(b','))
		salted = hashlib.pbkdf2_hmac('sha256', self.password, base64.b64decode(parts[b's']),
			int(parts[b'i']))
		client_key = hmac.new(salted, b'Client Key', 'sha256').digest()
		stored = hashlib.sha256(client_key).digest()
		without = b'c=' + base64.b64encode(self.header + self.binding) + b',r=' + parts[b'r']
		signature = hmac.new(stored, bare + b',' + server_first + b',' + without, 'sha256').digest()
		proof = bytes(a ^ b for a, b in zip(client_key, signature))
		self.session.send(wire.frame('p', without + b',p=' + base64.b64encode(proof)))
		kind, body = self.session.read_message()
		if kind == 'E':
			raise WireError(wire.error_fields(body))
		self.session.read_ready()
		self.session.close()

	def certificate_hash(self):
		return hashlib.sha256(self.session.sock.getpeercert(True)).digest()


PLUS, PLAIN = b'SCRAM-SHA-256-PLUS', b'SCRAM-SHA-256'
BOUND = b'p=tls-server-end-point,,'


def test_channel_binding_is_offered_over_tls_only_and_first():
	equal(_Exchange(False, PLAIN, b'n,,').offered, [PLAIN])
	equal(_Exchange(True, PLAIN, b'n,,').offered, [PLUS, PLAIN])


def test_every_flag_where_it_is_right():
	_Exchange(False, PLAIN, b'n,,').run()
	_Exchange(False, PLAIN, b'y,,').run()  # could bind, nothing was offered: right
	_Exchange(True, PLAIN, b'n,,').run()
	bound = _Exchange(True, PLUS, BOUND)
	bound.binding = bound.certificate_hash()
	bound.run()


def test_every_flag_where_it_is_wrong():
	# BB-137: "y" where binding was offered means that somebody took the offer away.
	expect_error('08P01', _Exchange(True, PLAIN, b'y,,').run)
	expect_error('08P01', _Exchange(True, PLUS, b'n,,').run)
	expect_error('08P01', _Exchange(True, PLAIN, BOUND).run)
	expect_error('08P01', _Exchange(False, PLUS, BOUND).run)
	expect_error('08P01', _Exchange(True, PLUS, b'p=tls-unique,,').run)
	expect_error('08P01', _Exchange(True, PLUS, BOUND, b'another certificate').run)


def test_libpq_binds_and_insists_on_it():
	for mode, tls in (('require', 'require'), ('prefer', 'require'), ('disable', 'require'),
			('prefer', 'disable')):
		dsn = "dbname=app channel_binding=%s sslmode=%s" % (mode, tls)
		equal(psql(PROXY.address, 'select 42', database=dsn), (0, '42'), (mode, tls))
	status, text = psql(PROXY.address, 'select 42',
		database='dbname=app channel_binding=require sslmode=disable')
	assert status != 0 and 'channel binding' in text, text


# ---- passwords beyond ASCII -------------------------------------------------------------------

# What is set as the password, and what is typed; equal ones after preparation.
PREPARED = (
	('caf\u00e9', 'cafe\u0301'),
	('a\u00a0b', 'a b'),
	('soft\u00adhyphen', 'softhyphen'),
	('\ufb01sh', 'fish'),
	('\u2168', 'IX'),
	('\u00aa\u00b5', 'a\u03bc'),
	('\u1100\u1161\u11a8', '\uac01'),
	('zero\u200bwidth', 'zero width'),
	('\u0627\u0628', '\u0627\u0628'),
	('mixed \u0627 b', 'mixed \u0627 b'),
	('\U0001f418 elephant', '\U0001f418 elephant'),
	('a\u0378\u00a0', 'a\u0378\u00a0'),
)


def test_password_beyond_ascii_works_where_the_server_takes_it():
	for stored, typed in PREPARED:
		CLUSTER.primary.sql("alter role prepared password '%s'" % stored)
		for password in (stored, typed, typed + '\u00ad', 'x' + typed):
			direct = psql(CLUSTER.primary.address, 'select 1', 'prepared', password)
			_store('prepared', stored)
			equal(psql(PROXY.address, 'select 1', 'prepared', password)[0], direct[0],
				'%r typed as %r' % (stored, password))


# ---- server side: verifiers, hashes -----------------------------------------------------------

def test_verifier_alone_lets_a_client_in_and_through_to_the_server():
	_store('passed', _stored_on_server('passed'))
	for tls in (False, True):
		equal(_query('passed', 'start-secret', tls), 'passed')
	expect_error('28P01', _query, 'passed', 'wrong')
	# More connections than one are opened with the keys of one login.
	sessions = [wire.connect(PROXY.address, 'passed', 'start-secret', 'app') for _ in range(4)]
	for session in sessions:
		session.sql('begin')
	equal([session.scalar('select current_user') for session in sessions], ['passed'] * 4)
	for session in sessions:
		session.sql('commit')
		session.close()
	assert 'start-secret' not in PROXY.log()


def test_verifier_of_another_salt_is_named():
	_store('other_verifier', _stored_on_server('other_verifier'))
	CLUSTER.primary.sql("alter role other_verifier password 'start-secret'")  # a new salt
	error = expect_error('28P01', _query, 'other_verifier', 'start-secret')
	assert 'verifier' in error.message and 'other_verifier' in error.message, error.fields
	_store('other_verifier', _stored_on_server('other_verifier'))
	equal(_query('other_verifier', 'start-secret'), 'other_verifier')


def test_startup_parameters_of_a_verifier_user_are_checked():
	_store('passed', _stored_on_server('passed'))
	with wire.connect(PROXY.address, 'passed', 'start-secret', 'app',
			options='-c work_mem=77MB') as session:
		equal(session.scalar('show work_mem'), '77MB')
	expect_error('42704', wire.connect, PROXY.address, 'passed', 'start-secret', 'app',
		options='-c no_such_parameter=1')


def test_listen_works_for_a_verifier_user():
	_store('passed', _stored_on_server('passed'))
	with wire.connect(PROXY.address, 'passed', 'start-secret', 'app') as session:
		session.sql('listen lamp')
		session.sql("notify lamp, 'on'")
		eventually(lambda: session.scalar('select 1') and session.notifications, 10, 'notification')
		assert b'lamp\0on\0' in session.notifications[0], session.notifications


def test_md5_hash_with_a_server_that_wants_scram_is_named():
	PROXY.admin("set pgsql-authentication_method = 2")
	PROXY.admin('load pgsql variables to runtime')
	try:
		error = expect_error('28P01', _query, 'hashed', 'start-secret')
	finally:
		PROXY.admin("set pgsql-authentication_method = 3")
		PROXY.admin('load pgsql variables to runtime')
	assert 'SCRAM-SHA-256' in error.message and 'MD5 hash' in error.message, error.fields


# ---- whose connection is it -------------------------------------------------------------------

def test_pooled_connection_does_not_let_a_wrong_password_in():
	# BB-140: a warm connection of the user is there.
	equal(_query('app', 'app-secret'), 'app')
	expect_error('28P01', _query, 'app', 'app2-secret')
	expect_error('28P01', _query, 'app', '')


def test_changed_password_is_taken_up_by_load():
	# BB-145, in the order in which it is done: first the server, then the proxy.
	old = wire.connect(PROXY.address, 'rotated', 'start-secret', 'app')
	equal(old.scalar('select current_user'), 'rotated')
	CLUSTER.primary.sql("alter role rotated password 'next-secret'")
	equal(old.scalar('select current_user'), 'rotated')  # its server connection stays
	_store('rotated', 'next-secret')
	expect_error('28P01', _query, 'rotated', 'start-secret')
	equal(_query('rotated', 'next-secret'), 'rotated')
	# The session that was there opens new server connections with the new password.
	CLUSTER.primary.terminate_backends(user='rotated')
	eventually(lambda: CLUSTER.primary.backends(user='rotated') == 0, 10, 'no connection')
	equal(old.scalar('select current_user'), 'rotated')
	old.close()


def test_verifier_that_has_changed_forgets_the_keys_of_the_old_one():
	_store('passed', _stored_on_server('passed'))
	equal(_query('passed', 'start-secret'), 'passed')
	CLUSTER.primary.sql("alter role passed password 'second-secret'")
	_store('passed', _stored_on_server('passed'))
	expect_error('28P01', _query, 'passed', 'start-secret')
	equal(_query('passed', 'second-secret'), 'passed')
	CLUSTER.primary.sql("alter role passed password 'start-secret'")


# ---- who does the work ------------------------------------------------------------------------

def _cpu_seconds(name):
	"""Processor time of the proxy's threads of that name."""
	total = 0
	tasks = '/proc/%d/task' % PROXY.proc.pid
	for task in os.listdir(tasks):
		try:
			with open('%s/%s/stat' % (tasks, task), encoding='ascii') as file:
				text = file.read()
		except (FileNotFoundError, ProcessLookupError):
			continue  # the thread has ended meanwhile
		if text[text.index('(') + 1:text.rindex(')')].startswith(name):
			fields = text[text.rindex(')') + 2:].split()
			total += int(fields[11]) + int(fields[12])
	return total / os.sysconf('SC_CLK_TCK')


def _login_only(user, password):
	with Wire(PROXY.address) as session:
		session.login(user, password, 'app')


def test_keys_are_derived_beside_the_worker_and_once():
	# Loading derives the keys of a hundred users at most; these have new passwords and are more.
	users = ['cold_%03d' % i for i in range(240)]
	PROXY.admin('insert into pgsql_users (username, password, default_hostgroup) values ' +
		', '.join("('%s', 'p', %d)" % (user, WRITER) for user in users))
	PROXY.admin('load pgsql users to runtime')
	worker, beside = _cpu_seconds('PgSQLWorker'), _cpu_seconds('Login')
	in_threads([lambda part=part: [_login_only(user, 'p') for user in users[part::8]]
		for part in range(8)], 120)
	worker, beside = _cpu_seconds('PgSQLWorker') - worker, _cpu_seconds('Login') - beside
	assert beside > worker, 'the worker spent %.2f s, the service threads %.2f s' % (worker, beside)
	again = _cpu_seconds('Login')
	for user in users[::4]:
		_login_only(user, 'p')
	assert _cpu_seconds('Login') - again < beside / 3, 'known keys were derived again'
	PROXY.admin("delete from pgsql_users where username like 'cold\\_%' escape '\\'")
	PROXY.admin('load pgsql users to runtime')


if __name__ == '__main__':
	runner.main(globals())
