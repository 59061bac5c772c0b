"""Who may send startup parameters, and what they must look like."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from cluster import WireError, eventually, wire  # noqa: E402
from session import IDENTITY, Session, plain, proxied  # noqa: E402

from . import case  # noqa: E402

HOST, PORT = '_polar_proxy_client_host', '_polar_proxy_client_port'


def refused(node, **params):
	"""The FATAL a login with these parameters gets."""
	try:
		plain(node, **params).wire.close()
	except WireError as error:
		assert error.severity == 'FATAL', error.fields
		return error.sqlstate, error.message
	raise AssertionError('accepted: %r' % params)


@case()
def identity_is_needed_for_the_lsn(cluster, flavour):
	"""send_lsn or use_ssl without client address: FATAL 08P01. send_lsn=false and send_xact are fine."""
	text = '[Proxy] Proxy is disabled, unable to use lsn or ssl'
	for name in ('_polar_proxy_send_lsn', '_polar_send_lsn', '_polar_proxy_use_ssl'):
		assert refused(cluster.primary, **{name: 'true'}) == ('08P01', text)
	plain(cluster.primary, _polar_proxy_send_lsn='false').wire.close()
	with plain(cluster.primary, xact=True, _polar_proxy_send_xact='true') as session:
		session.do('begin')
		assert session.do("update items set note = 'i' where id = 1").ready.marker == 'x'


@case()
def half_an_identity_is_refused(cluster, flavour):
	"""Only one of host and port: FATAL."""
	for params in ({HOST: '127.0.0.1'}, {PORT: '5'}, {HOST: '127.0.0.1', '_polar_send_lsn': 'true'}):
		assert refused(cluster.primary, **params) == ('XX000', '[Proxy] proxy info is incomplete.')


@case()
def bad_addresses_are_refused(cluster, flavour):
	"""Numeric address without brackets or mask, port 1 to 65535; never a name look-up."""
	for host, port in (('localhost', '5'), ('127.0.0.1/32', '5'), ('[::1]', '5'), ('', '5'),
			('127.0.0.1', '0'), ('127.0.0.1', '65536'), ('127.0.0.1', 'abc'), ('127.0.0.1', ''),
			('127.0.0.1', '-1'), ('300.0.0.1', '5')):
		state, message = refused(cluster.primary, **{HOST: host, PORT: port})
		assert state == 'XX000', (host, port, state, message)
		assert message == ('[Proxy] Construct client address fail, client_host=%s, client_port=%s' %
			(host, port)), message


@case()
def bad_booleans_and_numbers_are_refused(cluster, flavour):
	"""FATAL 22023 with the name of the parameter."""
	for name, shown in (('_polar_proxy_send_lsn', '_polar_proxy_send_lsn'),
			('_polar_proxy_send_xact', 'polar_proxy_send_xact'),
			('_polar_proxy_use_ssl', '_polar_proxy_use_ssl')):
		assert refused(cluster.primary, **dict(IDENTITY, **{name: 'perhaps'})) == (
			'22023', 'invalid value for parameter "%s": "perhaps"' % shown)
	for number in ('0', 'x', '99999999999', '5x'):
		state, _ = refused(cluster.primary, _polar_proxy_session_id=number, _polar_proxy_cancel_key='1',
			**IDENTITY)
		assert state == '22023', number
	assert refused(cluster.primary, _polar_proxy_session_id='20000001', _polar_proxy_cancel_key='x',
		**IDENTITY)[0] == '22023'


@case()
def session_id_and_tls_facts(cluster, flavour):
	"""Session id and key belong together, TLS in use needs version and cipher; complete ones pass."""
	both = ('XX000', '[Proxy] Should set both session id and cancel key.')
	assert refused(cluster.primary, _polar_proxy_session_id='20000001', **IDENTITY) == both
	assert refused(cluster.primary, _polar_proxy_cancel_key='7', **IDENTITY) == both
	assert refused(cluster.primary, _polar_proxy_session_id='5', _polar_proxy_cancel_key='7',
		**IDENTITY)[0] == 'XX000'
	plain(cluster.primary, _polar_proxy_session_id='20000001', _polar_proxy_cancel_key='-7',
		**IDENTITY).wire.close()
	incomplete = ('XX000', '[Proxy] ssl info is incomplete.')
	assert refused(cluster.primary, _polar_proxy_use_ssl='true', **IDENTITY) == incomplete
	assert refused(cluster.primary, _polar_proxy_use_ssl='true', _polar_proxy_ssl_version='TLSv1.3',
		**IDENTITY) == incomplete
	plain(cluster.primary, _polar_proxy_use_ssl='true', _polar_proxy_ssl_version='TLSv1.3',
		_polar_proxy_ssl_cipher_name='TLS_AES_256_GCM_SHA384', **IDENTITY).wire.close()


@case()
def unknown_parameters(cluster, flavour):
	"""Other _polar_ names are ignored, other spellings are unknown settings."""
	plain(cluster.primary, _polar_proxy_something_new='1').wire.close()
	for params in ({'_POLAR_proxy_send_lsn': 'true'}, {'polar_proxy_send_lsn': 'true'},
			{'options': '-c _polar_proxy_send_lsn=true'}):
		assert refused(cluster.primary, **params)[0] == '42704', params


@case()
def the_client_address_is_shown(cluster, flavour):
	"""pg_stat_activity and inet_client_addr() show the stated client, IPv6 included."""
	cluster.primary.sql("alter system reset polar_proxy.trusted_addresses")
	hba = os.path.join(cluster.primary.datadir, 'pg_hba.conf')
	with open(hba, encoding='ascii') as f:
		before = f.read()
	try:
		with open(hba, 'w', encoding='ascii') as f:
			f.write(before + 'host all postgres 10.9.8.7/32 trust\nhost all postgres 2001:db8::1/128 trust\n'
				'host all postgres 10.9.8.8/32 reject\n')
		cluster.primary.sql('select pg_reload_conf()')
		eventually(lambda: cluster.primary.scalar(
			"select count(*) from pg_hba_file_rules where address = '2001:db8::1'") == '1')

		def accepted():
			try:
				proxied(cluster.primary, **{HOST: '10.9.8.7'}).wire.close()
				return True
			except WireError:
				return False
		eventually(accepted, what='new pg_hba.conf in use')
		for address in ('10.9.8.7', '2001:db8::1'):
			with proxied(cluster.primary, **{HOST: address, PORT: '4711'}) as session:
				assert session.value('select host(inet_client_addr())') == address
				assert session.do('select host(client_addr), client_port from pg_stat_activity '
					'where pid = pg_backend_pid()').rows == [(address, '4711')]
		assert refused(cluster.primary, **{HOST: '10.9.8.8', PORT: '1'})[0] == '28000'
		state, message = refused(cluster.primary, **{HOST: '10.9.8.9', PORT: '1'})
		assert state == '28000' and message.startswith('no pg_hba.conf entry for host "10.9.8.9"'), message
	finally:
		with open(hba, 'w', encoding='ascii') as f:
			f.write(before)
		cluster.primary.sql('select pg_reload_conf()')


@case()
def only_trusted_addresses_may_ask(cluster, flavour):
	"""From elsewhere every known parameter ends the login with 28000, false ones included."""
	node = cluster.primary
	try:
		node.set_conf('polar_proxy.trusted_addresses', '10.0.0.0/8, ::1')
		eventually(lambda: node.scalar('show polar_proxy.trusted_addresses') == '10.0.0.0/8, ::1')

		def state():
			try:
				plain(node, **IDENTITY).wire.close()
				return None
			except WireError as error:
				return error.sqlstate
		eventually(lambda: state() == '28000', what='new list in use')
		for params in (dict(IDENTITY, _polar_proxy_send_lsn='true'), {'_polar_send_lsn': 'false'},
				{'_polar_proxy_send_xact': 'true'}):
			assert refused(node, **params)[0] == '28000'
		plain(node).wire.close()
		plain(node, _polar_something='1').wire.close()
	finally:
		node.set_conf('polar_proxy.trusted_addresses', None)
	eventually(lambda: state() is None, what='old list in use')
	with wire.Wire(node.socket_path) as local:
		local.login('postgres', None, 'postgres', **IDENTITY)


@case()
def bad_trusted_lists_are_refused(cluster, flavour):
	"""Names, bad masks and garbage are no addresses."""
	with plain(cluster.primary) as session:
		for value in ('localhost', '10.0.0.1/40', '10.0.0', '10.0.0.1/', 'local,x', '::1/200', '/8'):
			answer = session.run("alter system set polar_proxy.trusted_addresses = '%s'" % value)
			assert answer.sqlstate == '22023', (value, answer.errors)
		assert session.run("set polar_proxy.trusted_addresses = 'local'").sqlstate == '55P02'
	with plain(cluster.primary, user='app_trust') as session:
		assert session.run('show polar_proxy.trusted_addresses').sqlstate == '42501'


@case()
def works_for_a_password_login(cluster, flavour):
	"""The parameters act after SCRAM as after trust, and a wrong password is just that."""
	with wire.Wire(cluster.primary.address) as session:
		messages = session.login('app', 'app-secret', 'postgres', _polar_proxy_send_lsn='1', **IDENTITY)
		assert len(messages[-1][1]) == 9
	with wire.Wire(cluster.primary.address) as session:
		try:
			session.login('app', 'wrong', 'postgres', **{PORT: '1'})
		except WireError as error:
			assert error.sqlstate == '28P01', error.fields
		else:
			raise AssertionError('wrong password accepted')


@case('extension')
def wait_option_is_unknown_to_an_unpatched_server(cluster, flavour):
	"""The server says so (NegotiateProtocolVersion) and goes on; message W then ends the session."""
	with proxied(cluster.primary, wait=True) as session:
		options = [body for kind, body in session.login if kind == 'v']
		assert options and b'_pq_.polar_proxy_wait_v1' in options[0], session.login
		session.wire.send(wire.frame('W', bytes(16)))
		messages = session.wire.read_all()
		assert wire.error_fields(messages[0][1])['C'] == '08P01'


@case('kernel')
def wait_option_is_known_to_the_kernel(cluster, flavour):
	"""No NegotiateProtocolVersion; other _pq_ options still get one; no identity, no option."""
	with proxied(cluster.primary, wait=True) as session:
		assert 'v' not in ''.join(kind for kind, _ in session.login)
	with plain(cluster.primary, **{'_pq_.other': '1'}) as session:
		assert 'v' in ''.join(kind for kind, _ in session.login)
	assert refused(cluster.primary, **{'_pq_.polar_proxy_wait_v1': '1'})[0] == '08P01'
	with proxied(cluster.primary) as session:
		session.wire.send(wire.frame('W', bytes(16)))
		messages = session.wire.read_all()
		fields = wire.error_fields(messages[0][1])
		assert (fields['C'], fields['V']) == ('08P01', 'FATAL'), fields


@case()
def node_functions(cluster, flavour):
	"""polar_node_type and polar_is_available answer on every node; the latter can be switched."""
	assert cluster.primary.scalar('select polar_node_type()') == 'primary'
	for replica in cluster.replicas:
		assert replica.scalar('select polar_node_type()') == 'replica'
		assert replica.scalar('select polar_is_available()') == 't'
		with Session(replica.address) as session:
			assert session.run('select polar_flush_xact()').sqlstate == '55000'
	node = cluster.replicas[1]
	node.set_conf('polar_proxy.available', 'off')
	eventually(lambda: node.scalar('select polar_is_available()') == 'f')
	node.set_conf('polar_proxy.available', None)
	eventually(lambda: node.scalar('select polar_is_available()') == 't')
