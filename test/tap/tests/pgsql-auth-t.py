#!/usr/bin/python3
"""Startup and authentication of clients: every method, every refusal, TLS."""
import base64
import hashlib
import hmac
import socket
import struct
import time
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error, psql  # noqa: E402
from cluster import WRITER, Cluster, Proxy, Wire, WireError, wire  # noqa: E402

CLUSTER = PROXY = None


def _verifier(password, salt=b'0123456789abcdef', rounds=4096):
	salted = hashlib.pbkdf2_hmac('sha256', password.encode(), salt, rounds)
	stored = hashlib.sha256(hmac.new(salted, b'Client Key', 'sha256').digest()).digest()
	server = hmac.new(salted, b'Server Key', 'sha256').digest()
	return 'SCRAM-SHA-256$%d:%s$%s:%s' % (rounds, base64.b64encode(salt).decode(),
		base64.b64encode(stored).decode(), base64.b64encode(server).decode())


def _md5(password, user):
	return 'md5' + hashlib.md5((password + user).encode()).hexdigest()


def _row(username, password, **more):
	return dict({'username': username, 'password': password, 'default_hostgroup': WRITER}, **more)


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0)
	# The server knows these users by the same names, so that a login can be followed by a query.
	for user in ('inactive', 'limited', 'tls_only'):
		CLUSTER.primary.sql("create role %s login password 'app-secret'" % user)
	PROXY = Proxy(CLUSTER, pair=None, users=[
		_row('app', 'app-secret'), _row('app2', 'app2-secret'),
		_row('app_md5', _md5('app-secret', 'app_md5')),
		_row('inactive', 'app-secret', active=0),
		_row('limited', 'app-secret', max_connections=2),
		_row('tls_only', 'app-secret', use_ssl=1),
	])


def teardown():
	PROXY.stop()
	CLUSTER.close()


def _login(user, password, tls=False, database='app'):
	session = wire.connect(PROXY.address, user, password, database, tls=tls)
	equal(session.scalar('select current_user'), user)
	session.close()


def _challenge(user):
	"""The first authentication request the proxy sends to a user: its code."""
	with Wire(PROXY.address) as session:
		session.send(wire.startup({'user': user, 'database': 'app'}))
		kind, body = session.read_message()
		assert kind == 'R', (kind, body)
		return struct.unpack('!I', body[:4])[0]


def _method(number):
	PROXY.admin("update global_variables set variable_value='%d'"
		" where variable_name='pgsql-authentication_method'" % number)
	PROXY.admin('load pgsql variables to runtime')


def test_scram_is_the_default_and_logs_in():
	equal(_challenge('app'), 10)
	_login('app', 'app-secret')
	_login('app2', 'app2-secret')


def test_wrong_password_is_refused_with_28p01_and_closed():
	session = Wire(PROXY.address)
	error = expect_error('28P01', session.login, 'app', 'wrong', 'app')
	equal(error.severity, 'FATAL')
	assert session.closed_by_peer()


def test_unknown_user_cannot_be_told_from_a_wrong_password():
	equal(_challenge('nobody'), _challenge('app'))
	unknown = expect_error('28P01', _login, 'nobody', 'x')
	known = expect_error('28P01', _login, 'app', 'x')
	equal(unknown.message.replace('nobody', 'USER'), known.message.replace("'app'", "'USER'"))


def test_unknown_user_keeps_the_same_salt():
	def salt():
		with Wire(PROXY.address) as session:
			session.send(wire.startup({'user': 'nobody', 'database': 'app'}))
			session.read_message()
			first = b'n,,n=,r=abcdefghijklmnop'
			session.send(wire.frame('p', wire.cstr('SCRAM-SHA-256') +
				struct.pack('!I', len(first)) +
				first))
			_, body = session.read_message()
			return [p for p in body[4:].split(b',') if p.startswith(b's=')][0]
	equal(salt(), salt(), 'a changing salt tells that the user does not exist')


def test_inactive_user_is_refused():
	expect_error('28P01', _login, 'inactive', 'app-secret')


def test_empty_password_is_refused():
	expect_error(('28P01', '08P01'), _login, 'app', '')


def test_md5_method():
	_method(2)
	try:
		equal(_challenge('app'), 5)
		_login('app', 'app-secret')
		expect_error('28P01', _login, 'app', 'wrong')
		expect_error('28P01', _login, 'nobody', 'wrong')
		_login('app_md5', 'app-secret')
		expect_error('28P01', _login, 'app_md5', 'wrong')
	finally:
		_method(3)


def test_clear_text_method():
	_method(1)
	try:
		equal(_challenge('app'), 3)
		_login('app', 'app-secret')
		expect_error('28P01', _login, 'app', 'wrong')
		expect_error('28P01', _login, 'nobody', 'wrong')
	finally:
		_method(3)


def test_stored_scram_verifier_accepts_its_password_only():
	# Only the login at the proxy is tried: the server's own verifier has another salt.
	PROXY.admin("update pgsql_users set password='%s' where username='app2'" %
		_verifier('other-one'))
	PROXY.admin('load pgsql users to runtime')
	try:
		with Wire(PROXY.address) as session:
			session.login('app2', 'other-one', 'app')
		expect_error('28P01', _login, 'app2', 'app2-secret')
	finally:
		PROXY.admin("update pgsql_users set password='app2-secret' where username='app2'")
		PROXY.admin('load pgsql users to runtime')
	_login('app2', 'app2-secret')


def test_password_change_takes_effect_at_load_only():
	PROXY.admin("update pgsql_users set password='new' where username='app2'")
	_login('app2', 'app2-secret')
	PROXY.admin('load pgsql users to runtime')
	expect_error('28P01', _login, 'app2', 'app2-secret')
	PROXY.admin("update pgsql_users set password='app2-secret' where username='app2'")
	PROXY.admin('load pgsql users to runtime')
	_login('app2', 'app2-secret')


def test_connection_limit_of_a_user():
	held = [wire.connect(PROXY.address, 'limited', 'app-secret', 'app') for _ in range(2)]
	expect_error('53300', _login, 'limited', 'app-secret')
	held.pop().close()
	deadline = time.monotonic() + 5
	while True:
		try:
			_login('limited', 'app-secret')
			break
		except WireError:
			assert time.monotonic() < deadline, 'the place of a closed session is not given back'
			time.sleep(0.05)
	held.pop().close()


def test_tls_with_the_self_made_certificate():
	session = wire.connect(PROXY.address, 'app', 'app-secret', 'app', tls=True)
	assert session.sock.version() in ('TLSv1.2', 'TLSv1.3')
	equal(len(session.scalar("select repeat('x', 2000000)")), 2000000)
	session.close()
	_login('tls_only', 'app-secret', tls=True)


def test_user_that_must_use_tls():
	expect_error('28000', _login, 'tls_only', 'app-secret')


def test_psql_with_and_without_tls():
	for mode in ('disable', 'prefer', 'require'):
		os.environ['PGSSLMODE'] = mode
		equal(psql(PROXY.address, 'select 40 + 2'), (0, '42'), mode)
	os.environ.pop('PGSSLMODE')


def test_gss_request_is_declined_and_login_goes_on():
	with Wire(PROXY.address) as session:
		session.send(struct.pack('!II', 8, wire.GSS_REQUEST))
		equal(session.read_bytes(1), b'N')
		session.login('app', 'app-secret', 'app')


def test_second_tls_request_after_refusal_or_inside_tls_is_an_error():
	session = Wire(PROXY.address)
	session.start_tls()
	session.send(struct.pack('!II', 8, wire.SSL_REQUEST))
	messages = session.read_all(5)
	assert not messages or messages[0][0] == 'E', messages


def test_bytes_sent_together_with_the_tls_request_are_not_trusted():
	# A man in the middle could put clear text in front of the encrypted stream.
	session = Wire(PROXY.address)
	session.send(struct.pack('!II', 8, wire.SSL_REQUEST) + wire.startup({'user': 'app'}))
	answer = session.read_bytes(1)
	if answer == b'S':
		assert session.closed_by_peer(5), 'clear text after the TLS request was accepted'
	else:
		equal(answer, b'E')


def test_startup_split_at_every_byte():
	whole = wire.startup({'user': 'app', 'database': 'app', 'application_name': 'split'})
	for cut in range(1, len(whole)):
		with Wire(PROXY.address) as session:
			session.send(whole[:cut])
			time.sleep(0.001)
			session.send(whole[cut:])
			kind, _ = session.read_message()
			equal(kind, 'R', 'cut at %d' % cut)


def test_newer_minor_protocol_is_negotiated():
	with Wire(PROXY.address) as session:
		session.send(wire.startup({'user': 'app', 'database': 'app', '_pq_.unknown': '1'}, 196610))
		kind, body = session.read_message()
		equal(kind, 'v')
		assert b'_pq_.unknown' in body, body
		equal(session.read_message()[0], 'R')


def test_other_major_protocol_is_refused():
	with Wire(PROXY.address) as session:
		session.send(wire.startup({'user': 'app'}, 4 << 16))
		kind, body = session.read_message()
		equal((kind, wire.error_fields(body)['C']), ('E', '0A000'))
		assert session.closed_by_peer()


def test_missing_user_name_is_refused():
	with Wire(PROXY.address) as session:
		session.send(wire.startup({'database': 'app'}))
		kind, body = session.read_message()
		equal((kind, wire.error_fields(body)['C']), ('E', '28000'))


def test_parameters_are_reported_at_login():
	session = PROXY.session()
	for name in ('server_version', 'client_encoding', 'DateStyle', 'TimeZone', 'integer_datetimes',
			'standard_conforming_strings', 'server_encoding', 'IntervalStyle'):
		assert session.parameters.get(name), 'no ParameterStatus for %s' % name
	assert session.pid and session.key
	session.close()


def test_startup_parameters_reach_the_session():
	session = PROXY.session(application_name='my app', options='-c statement_timeout=12345')
	equal(session.scalar('show application_name'), 'my app')
	equal(session.scalar('show statement_timeout'), '12345ms')
	session.close()


def test_unknown_database_is_the_servers_own_error():
	def use():
		session = PROXY.session(database='no_such_db')
		session.sql('select 1')
	expect_error('3D000', use)


def test_password_is_not_logged():
	log = PROXY.log()
	assert 'app-secret' not in log and 'app2-secret' not in log


def test_login_in_two_packets_per_byte_is_slow_but_served():
	whole = wire.startup({'user': 'app', 'database': 'app'})
	session = Wire(PROXY.address)
	session.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
	for i in range(len(whole)):
		session.send(whole[i:i + 1])
	equal(session.read_message()[0], 'R')
	session.close()


if __name__ == '__main__':
	runner.main(globals())
