#!/usr/bin/python3
"""PROXY protocol: the client's address as a load balancer states it."""
import os
import socket
import ssl
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error  # noqa: E402
from cluster import Cluster, Proxy, Wire, eventually, wire  # noqa: E402

CLUSTER = PROXY = None
_SIGNATURE = b'\r\n\r\n\0\r\nQUIT\n'
_V1 = b'PROXY TCP4 192.0.2.7 198.51.100.1 4711 6133\r\n'


def _v2(command=0x21, family=0x11, addresses=None, tlvs=b''):
	if addresses is None:
		addresses = socket.inet_aton('192.0.2.8') + socket.inet_aton('198.51.100.1') + struct.pack(
			'!HH', 4712, 6133)
	body = addresses + tlvs
	return _SIGNATURE + bytes([command, family]) + struct.pack('!H', len(body)) + body


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0)
	rules = [{'rule_id': 1, 'active': 1, 'apply': 1, 'client_addr': '192.0.2.0/24',
		'match_digest': 'where_from', 'error_msg': 'from the stated network'},
		{'rule_id': 2, 'active': 1, 'apply': 1, 'client_addr': '127.0.0.1',
		'match_digest': 'where_from', 'error_msg': 'from the balancer'}]
	# Started without, as the kit looks for a listener that answers.
	PROXY = Proxy(CLUSTER, pair=None, rules=rules, variables={'connect_timeout_client': 2000})
	PROXY.admin("set pgsql-proxy_protocol_networks = '10.0.0.0/8, 127.0.0.0/8'")
	PROXY.admin('load pgsql variables to runtime')


def teardown():
	PROXY.stop()
	CLUSTER.close()


def _connect(header, tls=False):
	session = Wire(PROXY.address)
	session.send(header)
	if tls:
		session.start_tls()
	return session


def _login(header, **keywords):
	session = _connect(header, **keywords)
	session.login('app', 'app-secret', 'app')
	return session


def _shown(session):
	return PROXY.admin('select cli_host, cli_port from stats_pgsql_processlist where SessionID = %d'
		% session.pid).rows[0]


def _where_from(session):
	try:
		session.sql('select 1 as where_from')
	except wire.WireError as e:
		return e.message
	return None


def test_the_stated_address_is_the_clients():
	v6 = socket.inet_pton(socket.AF_INET6, '2001:db8::9') * 2 + struct.pack('!HH', 4713, 1)
	for header, address in (
			(_V1, ('192.0.2.7', '4711')),
			(b'PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n', ('2001:db8::1', '1')),
			(_v2(), ('192.0.2.8', '4712')),
			(_v2(family=0x21, addresses=v6), ('2001:db8::9', '4713')),
			(_v2(tlvs=b'\x20\x00\x40' + b't' * 64), ('192.0.2.8', '4712'))):
		with _login(header) as session:
			equal(_shown(session), address, repr(header))
			stated = 'from the stated network' if address[0].startswith('192.') else None
			equal(_where_from(session), stated)


def test_headers_without_an_address_leave_the_connections_own():
	for header in (b'PROXY UNKNOWN\r\n', b'PROXY UNKNOWN some words\r\n', _v2(command=0x20),
			_v2(command=0x20, family=0, addresses=b''), _v2(family=0, addresses=b'')):
		with _login(header) as session:
			equal(_shown(session), ('127.0.0.1', str(session.sock.getsockname()[1])))
			equal(_where_from(session), 'from the balancer')


def test_tls_of_both_kinds_follows_the_header():
	for header in (_V1, _v2()):
		with _login(header, tls=True) as session:
			equal(session.scalar('select 1'), '1')
		context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
		context.check_hostname = False
		context.verify_mode = ssl.CERT_NONE
		context.set_alpn_protocols(['postgresql'])
		# The header and the ClientHello in one segment.
		incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
		tls = context.wrap_bio(incoming, outgoing)
		try:
			tls.do_handshake()
		except ssl.SSLWantReadError:
			pass
		session = Wire(PROXY.address)
		session.send(header + outgoing.read())
		while True:
			try:
				tls.do_handshake()
				break
			except ssl.SSLWantReadError:
				incoming.write(session.sock.recv(65536))
		equal(tls.selected_alpn_protocol(), 'postgresql')
		session.sock.close()


def test_a_header_cut_anywhere_and_together_with_what_follows():
	packet = wire.startup({'user': 'app', 'database': 'app'})
	for header in (_V1, _v2(tlvs=b'\x04\x00\x03abc')):
		for cut in range(1, len(header) + 4):
			with Wire(PROXY.address) as session:
				session.send((header + packet)[:cut])
				session.send((header + packet)[cut:])
				equal(session.read_message()[0], 'R', 'cut at %d' % cut)
		with Wire(PROXY.address) as session:
			for i in range(len(header)):
				session.send(header[i:i + 1])
				time.sleep(0.0005)
			session.send(packet)
			equal(session.read_message()[0], 'R')


def test_without_a_header_nothing_is_answered():
	request = struct.pack('!II', 8, wire.SSL_REQUEST)
	for data in (wire.startup({'user': 'app'}), request, struct.pack('!II', 8, wire.GSS_REQUEST),
			b'\x16\x03\x01', b'PROXY TCP4 a b c d\r\n', b'PROXY UNKNOWN\n', _SIGNATURE + b'\x31\x11\0\0',
			_SIGNATURE + b'\x21\x11\0\x04abcd', _SIGNATURE + b'\x21\x11\xff\xff', b'x' * 5000,
			b'PROXY UNKNOWN ' + b'x' * 200, wire.cancel_request(1, 2)):
		with Wire(PROXY.address) as session:
			session.send(data)
			try:
				answer = session.sock.recv(100)
			except ConnectionResetError:
				answer = b''
			equal(answer, b'', repr(data[:20]))
	assert 'PROXY header' in PROXY.log(), 'the log names no cause'


def test_a_second_header_is_no_startup_packet():
	with _connect(_V1 + _V1) as session:
		kind, body = session.read_message()
		equal((kind, wire.error_fields(body)['C']), ('E', '08P01'))


def test_half_a_header_is_ended_by_the_login_timeout():
	for part in (b'', b'P', _V1[:-1], _SIGNATURE, _v2()[:-1]):
		start = time.monotonic()
		cpu = PROXY.cpu_seconds()
		with _connect(part) as session:
			assert session.closed_by_peer(10), part
		assert time.monotonic() - start > 1, part
		assert PROXY.cpu_seconds() - cpu < 0.7, 'the worker spins on half a header'


def test_other_networks_speak_as_ever():
	PROXY.admin("set pgsql-proxy_protocol_networks = '10.0.0.0/8,::1'")
	PROXY.admin('load pgsql variables to runtime')
	try:
		with PROXY.session() as session:
			equal(session.scalar('select 1'), '1')
		# A header from elsewhere is not believed.
		with _connect(_V1) as session:
			equal(session.read_message()[0], 'E')
	finally:
		PROXY.admin("set pgsql-proxy_protocol_networks = '10.0.0.0/8, 127.0.0.0/8'")
		PROXY.admin('load pgsql variables to runtime')


def test_all_addresses_and_bad_lists():
	PROXY.admin("set pgsql-proxy_protocol_networks = '*'")
	PROXY.admin('load pgsql variables to runtime')
	with _login(_V1) as session:
		equal(_shown(session)[0], '192.0.2.7')
	with _connect(wire.startup({'user': 'app'})) as session:
		assert session.closed_by_peer()
	for bad in ('10.0.0.0/33', 'balancer.example', '10.0.0.0/8;10.1.0.0/16', '1.2.3'):
		PROXY.admin("set pgsql-proxy_protocol_networks = '%s'" % bad)
		expect_error('P0001', PROXY.admin, 'load pgsql variables to runtime')
	PROXY.admin("set pgsql-proxy_protocol_networks = '10.0.0.0/8, 127.0.0.0/8'")
	PROXY.admin('load pgsql variables to runtime')


def test_nobody_is_local_by_what_a_header_says():
	"""The monitor's user may log in only from this machine; so it may, with its right address."""
	users = [{'username': 'monitor', 'password': 'monitor', 'default_hostgroup': 10},
		{'username': 'app', 'password': 'app-secret', 'default_hostgroup': 10}]
	with Proxy(CLUSTER, pair=None, users=users, name='local') as proxy:
		with wire.connect(proxy.address, 'monitor', 'monitor', 'app'):
			pass
		proxy.admin("set pgsql-proxy_protocol_networks = '127.0.0.1'")
		proxy.admin('load pgsql variables to runtime')
		for header in (b'PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n', b'PROXY TCP6 ::1 ::1 1 2\r\n',
				_V1, b'PROXY UNKNOWN\r\n', _v2(command=0x20)):
			with Wire(proxy.address) as session:
				session.send(header)
				expect_error('08004', session.login, 'monitor', 'monitor', 'app')


def test_cancel_comes_with_a_header_too():
	running = ("select count(*) from pg_stat_activity where query like '%mark-pp%' and state ="
		" 'active' and pid <> pg_backend_pid()")
	with _login(_V1) as session:
		session.send(wire.query("select 'mark-pp', pg_sleep(30)"))
		eventually(lambda: CLUSTER.primary.scalar(running) == '1', what='query running')
		with _connect(_v2() + wire.cancel_request(session.pid, session.secret)) as canceller:
			assert canceller.closed_by_peer()
		errors = [wire.error_fields(b)['C'] for k, b in session.read_ready() if k == 'E']
		equal(errors, ['57014'])


def test_the_stated_address_is_logged():
	with _connect(_V1) as session:
		error = expect_error('28P01', session.login, 'app', 'wrong', 'app')
		assert "'app'@'192.0.2.7'" in error.message, error
	assert "'app'@'192.0.2.7'" in PROXY.log()
	session = _login(_V1)
	session.abort()
	eventually(lambda: 'client 192.0.2.7:4711 user app' in PROXY.log(), 10, 'the end logged')


if __name__ == '__main__':
	runner.main(globals())
