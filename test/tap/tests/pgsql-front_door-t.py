#!/usr/bin/python3
"""The front door: protocol versions, long cancel keys, TLS in every order, packets in pieces."""
import itertools
import os
import socket
import ssl
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error  # noqa: E402
from cluster import Closed, Cluster, Proxy, Wire, eventually, wire  # noqa: E402

CLUSTER = PROXY = None
_SSL = struct.pack('!II', 8, wire.SSL_REQUEST)
_GSS = struct.pack('!II', 8, wire.GSS_REQUEST)


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0)
	PROXY = Proxy(CLUSTER, pair=None)


def teardown():
	PROXY.stop()
	CLUSTER.close()


def _login(version, **params):
	"""A session and what came in front of its authentication."""
	session = Wire(PROXY.address)
	session.version = version
	messages = session.login('app', 'app-secret', 'app', **params)
	return session, [m for m in messages if m[0] == 'v']


def _negotiation(version, *options):
	body = struct.pack('!II', version, len(options))
	return [('v', body + b''.join(wire.cstr(o) for o in options))]


def _error(session):
	kind, body = session.read_message()
	equal(kind, 'E')
	assert session.closed_by_peer(), 'stays open after a FATAL error'
	return wire.error_fields(body)


def _direct(alpn=('postgresql',)):
	context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
	context.check_hostname = False
	context.verify_mode = ssl.CERT_NONE
	if alpn:
		context.set_alpn_protocols(list(alpn))
	session = Wire(PROXY.address)
	session.sock = context.wrap_socket(session.sock)
	return session


# ---- versions ----

def test_each_minor_version_gets_its_negotiation_and_its_cancel_key():
	for version, options, wanted, key_bytes in (
			(wire.PROTOCOL_3_0, {}, [], 4),
			(196609, {}, [], 4),  # 3.1 was never used; PostgreSQL 18 takes it as 3.0
			(wire.PROTOCOL_3_2, {}, [], 32),
			(196611, {}, _negotiation(196610), 32),
			((3 << 16) + 9999, {}, _negotiation(196610), 32),
			(wire.PROTOCOL_3_0, {'_pq_.foo': '1'}, _negotiation(196608, '_pq_.foo'), 4),
			(wire.PROTOCOL_3_2, {'_pq_.foo': '1', '_pq_.bar': ''},
				_negotiation(196610, '_pq_.foo', '_pq_.bar'), 32),
			((3 << 16) + 9999, {'_pq_.test_protocol_negotiation': ''},
				_negotiation(196610, '_pq_.test_protocol_negotiation'), 32)):
		session, negotiation = _login(version, **options)
		equal(negotiation, wanted, 'version %d, options %s' % (version & 0xffff, options))
		equal(len(session.secret), key_bytes, 'cancel key of 3.%d' % (version & 0xffff))
		equal(session.scalar('select 1'), '1')
		session.close()


def test_long_cancel_keys_cancel_and_only_whole_ones():
	running = ("select count(*) from pg_stat_activity where query like '%mark-long%' and state ="
		" 'active' and pid <> pg_backend_pid()")
	session, _ = _login(wire.PROTOCOL_3_2)
	equal(len(set(session.secret)) > 8, True, 'a random key')
	session.send(wire.query("select 'mark-long', pg_sleep(30)"))
	eventually(lambda: CLUSTER.primary.scalar(running) == '1', what='query running')
	for wrong in (session.secret[:4], session.secret[:31], session.secret + b'x',
			session.secret[:31] + bytes([session.secret[31] ^ 1]), bytes(32), b'x' * 256):
		with Wire(PROXY.address) as other:
			other.send(wire.cancel_request(session.pid, wrong))
			assert other.closed_by_peer()
	equal(CLUSTER.primary.scalar(running), '1')
	session.cancel()
	errors = [wire.error_fields(b)['C'] for k, b in session.read_ready() if k == 'E']
	equal(errors, ['57014'])
	equal(session.scalar('select 1'), '1')
	session.close()


def test_unknown_major_versions_are_told_as_the_server_tells_them():
	def answer(address, version):
		with Wire(address) as session:
			session.send(wire.startup({'user': 'app'}, version))
			data = b''
			try:
				while True:
					data += session.read_bytes(1)
			except Closed:
				return data
	for version in (1 << 16, 2 << 16, (2 << 16) + 7):
		proxy, server = (answer(a, version) for a in (PROXY.address, CLUSTER.primary.address))
		equal(proxy.replace(b'3.0 to 3.2', b'3.0 to 3.0'), server, 'version %x' % version)
		equal(proxy[:9], b'EFATAL:  ')
	for version in (0, 4 << 16, 99 << 16, (1234 << 16) + 5681):
		with Wire(PROXY.address) as session:
			session.send(wire.startup({'user': 'app'}, version))
			if version == 0:
				assert session.read_bytes(1) == b'E'
			else:
				equal(_error(session)['C'], '0A000')


# ---- TLS and GSS requests ----

def test_encryption_requests_in_every_order():
	for order in itertools.permutations((_SSL, _GSS)):
		session = Wire(PROXY.address)
		for request in order:
			session.send(request)
			if request is _GSS:
				equal(session.read_bytes(1), b'N')
				continue
			equal(session.read_bytes(1), b'S')
			break
		context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
		context.check_hostname = False
		context.verify_mode = ssl.CERT_NONE
		session.sock = context.wrap_socket(session.sock)
		if order[-1] is _GSS:
			# Inside TLS the request is an odd version number, as to the server.
			session.send(_GSS)
			equal(_error(session)['C'], '0A000')
			continue
		session.login('app', 'app-secret', 'app')
		equal(session.scalar('select 1'), '1')
		session.close()


def test_a_request_is_answered_once():
	with Wire(PROXY.address) as session:
		session.send(_GSS)
		equal(session.read_bytes(1), b'N')
		session.send(_GSS)
		fields = _error(session)
		equal((fields['C'], '1234.5680' in fields['M']), ('0A000', True))


def test_without_tls_every_order_is_declined_and_the_login_goes_on():
	with Proxy(CLUSTER, pair=None, variables={'have_ssl': False}, name='plain') as proxy:
		for order in itertools.permutations((_SSL, _GSS)):
			with Wire(proxy.address) as session:
				for request in order:
					session.send(request)
					equal(session.read_bytes(1), b'N')
				session.login('app', 'app-secret', 'app')
				equal(session.scalar('select 1'), '1')
		with Wire(proxy.address) as session:
			session.send(b'\x16\x03\x01\x00\x05hello')
			assert session.closed_by_peer()
		# A declined SSLRequest is not followed by TLS.
		with Wire(proxy.address) as session:
			session.send(_SSL)
			equal(session.read_bytes(1), b'N')
			session.send(b'\x16\x03\x01\x00\x05hello')
			assert session.closed_by_peer()


def test_data_stuffed_behind_a_request_is_refused():
	for request in (_SSL, _GSS):
		for stuffed in (wire.startup({'user': 'app'}), b'\0', _GSS, _SSL, b'\x16'):
			with Wire(PROXY.address) as session:
				session.send(request + stuffed)
				fields = _error(session)
				equal(fields['C'], '08P01')
				assert 'unencrypted data after' in fields['M'], fields


def test_direct_tls_logs_in_and_needs_its_alpn():
	session = _direct()
	equal(session.sock.selected_alpn_protocol(), 'postgresql')
	session.login('app', 'app-secret', 'app')
	equal(session.scalar('select 1'), '1')
	session.close()
	several = _direct(('http/1.1', 'postgresql'))
	several.login('app', 'app-secret', 'app')
	several.close()
	nameless = _direct(())
	nameless.send(wire.startup({'user': 'app', 'database': 'app'}))
	fields = _error(nameless)
	assert 'ALPN' in fields['M'], fields
	try:
		_direct(('http/1.1',))
	except ssl.SSLError:
		pass
	else:
		raise AssertionError('a handshake for another protocol went through')


def test_a_second_layer_of_tls_is_refused_inside_direct_tls():
	session = _direct()
	session.send(_SSL)
	equal(_error(session)['C'], '0A000')


def test_cancel_over_direct_tls_and_over_requested_tls():
	running = ("select count(*) from pg_stat_activity where query like '%mark-tls%' and state ="
		" 'active' and pid <> pg_backend_pid()")
	for direct in (True, False):
		session, _ = _login(wire.PROTOCOL_3_2)
		session.send(wire.query("select 'mark-tls', pg_sleep(30)"))
		eventually(lambda: CLUSTER.primary.scalar(running) == '1', what='query running')
		nameless = _direct(())  # without ALPN a cancel is refused too
		nameless.send(wire.cancel_request(session.pid, session.secret))
		assert nameless.closed_by_peer()
		equal(CLUSTER.primary.scalar(running), '1')
		canceller = _direct() if direct else Wire(PROXY.address)
		if not direct:
			canceller.start_tls()
		canceller.send(wire.cancel_request(session.pid, session.secret))
		assert canceller.closed_by_peer()
		errors = [wire.error_fields(b)['C'] for k, b in session.read_ready() if k == 'E']
		equal(errors, ['57014'])
		session.close()


# ---- the startup packet ----

def test_whole_logins_one_byte_at_a_time():
	for encrypted in (False, True):
		session = _direct() if encrypted else Wire(PROXY.address)
		sock, send = session.sock, session.send

		def bytewise(data, send=send):
			for i in range(len(data)):
				send(data[i:i + 1])
		session.send = bytewise
		session.login('app', 'app-secret', 'app', application_name='slow')
		equal(session.scalar('show application_name'), 'slow')
		session.send = send
		session.close()
		sock.close()


def test_startup_packets_up_to_the_servers_limit():
	"""PostgreSQL takes 10,000 bytes behind the length."""
	base = len(wire.startup({'user': 'app', 'database': 'app', 'application_name': ''}))
	for total, served in ((9000, True), (10004, True), (10005, False), (70000, False)):
		settings = {'user': 'app', 'database': 'app', 'application_name': 'x' * (total - base)}
		packet = wire.startup(settings)
		equal(len(packet), total)
		for address in (PROXY.address, CLUSTER.primary.address):
			with Wire(address) as session:
				try:
					session.send(packet)
					kind, _ = session.read_message()
				except (Closed, OSError):
					kind = 'closed'
				equal(kind == 'R', served, '%d bytes at %s' % (total, address))
	with PROXY.session(application_name='y' * 9000) as session:
		equal(session.scalar('select length(current_setting(\'application_name\'))'), '63')


def test_options_in_every_spelling():
	for options, name, wanted in (
			('-c work_mem=9MB', 'work_mem', '9MB'),
			('-cwork_mem=9MB', 'work_mem', '9MB'),
			('--work_mem=9MB', 'work_mem', '9MB'),
			('--work-mem=9MB', 'work_mem', '9MB'),
			('-c work-mem=9MB', 'work_mem', '9MB'),
			('  -c\twork_mem=7MB   --search-path=a,b  ', 'search_path', 'a,b'),
			('-c work_mem=7MB -c work_mem=9MB', 'work_mem', '9MB'),
			('-c my.text=a\\ b', 'my.text', 'a b'),
			('-c my.text=a\\\\b', 'my.text', 'a\\b'),
			('--my.text=', 'my.text', ''),
			('-c my.text=x=y', 'my.text', 'x=y'),
			('-c my.text=a+b', 'my.text', 'a+b'),
			('-c search_path="s\\ p",q', 'search_path', '"s p",q')):
		results = []
		for address in (CLUSTER.primary.address, PROXY.address):
			with wire.connect(address, 'app', 'app-secret', 'app', options=options) as session:
				results.append(session.scalar("select current_setting('%s')" % name))
		equal(results, [wanted, wanted], options)


def test_a_plus_between_options_is_no_blank():
	"""URL encoders write blanks as +: the server takes it for a part of the value."""
	for address in (CLUSTER.primary.address, PROXY.address):
		def use(address=address):
			with wire.connect(address, 'app', 'app-secret', 'app',
					options='-c+work_mem=9MB') as session:
				session.sql('select 1')
		expect_error(('42704', '42601', '42602', '22023'), use)


def test_unknown_startup_parameters_never_harm():
	for name in ('no_such_parameter', 'TimezOne', 'a', 'x.y', '_polar_proxy_client_host',
			'_polar_send_lsn', '_polar_made_up', 'SSL', 'options ', 'user ', '\'; drop', 'ä', '-'):
		session = Wire(PROXY.address)
		try:
			session.login('app', 'app-secret', 'app', **{name: 'UTC'})
			session.sql('select 1')
		except wire.WireError as e:
			assert e.sqlstate in ('42704', '42602', '22023', '42601', '55P02'), (name, e)
		session.sock.close()
		assert PROXY.running(), name
	with PROXY.session(_polar_made_up='1', _polar_proxy_client_host='1.2.3.4') as session:
		equal(session.scalar('select 1'), '1')  # read by the proxy, never passed on


# ---- bounds ----

def test_long_passwords_are_read_whole():
	secret = 'p' * 30000
	with Proxy(CLUSTER, pair=None, variables={'authentication_method': 1}, name='clear',
			users=[{'username': 'app', 'password': secret, 'default_hostgroup': 10}]) as proxy:
		with Wire(proxy.address) as session:
			session.login('app', secret, 'app')
		expect_error('28P01', wire.connect, proxy.address, 'app', secret + 'x', 'app')


def test_those_who_do_not_log_in_are_bounded():
	with Proxy(CLUSTER, pair=None, variables={'max_connections': 20}, name='few') as proxy:
		session = proxy.session()
		waiting = [Wire(proxy.address) for _ in range(20)]
		try:
			# Two workers accept, each in its own time.
			eventually(lambda: int(proxy.global_stats()['Client_Connections_connected']) >= 21,
				what='all of them accepted')
			with Wire(proxy.address) as late:
				equal(_error(late)['C'], '53300')
			equal(session.scalar('select 1'), '1')
		finally:
			for each in waiting:
				each.sock.close()

		def again():
			with proxy.session() as other:
				return other.scalar('select 1') == '1'

		def tried():
			try:
				return again()
			except wire.WireError:
				return False
		eventually(tried, 10, 'room again after they have left')
		session.close()


def test_a_flood_before_the_login_is_not_stored():
	before = PROXY.rss_kb()
	flooders = []
	for _ in range(30):
		session = Wire(PROXY.address)
		session.send(wire.startup({'user': 'app', 'database': 'app'}))
		session.read_message()
		session.sock.settimeout(0.3)
		try:
			# The header of a message that is allowed, and far more behind it.
			session.sock.sendall(b'p' + struct.pack('!I', 60000) + bytes(8 << 20))
		except (socket.timeout, OSError):
			pass
		flooders.append(session)
	grown = PROXY.rss_kb() - before
	for session in flooders:
		session.sock.close()
	assert grown < PROXY.may_grow_kb(16), grown


def test_keepalive_is_set_towards_clients_and_servers():
	import subprocess
	with PROXY.session() as session:
		session.sql('begin')
		ends = ((':%d' % PROXY.port, ':%d' % session.sock.getsockname()[1]),
			('', ':%d' % CLUSTER.primary.port))

		def timers():
			"""Of the proxy's ends of both connections."""
			listing = subprocess.run(['ss', '-tnoH', 'state', 'established'], text=True, check=True,
				stdout=subprocess.PIPE).stdout.splitlines()
			lines = [l.split() for l in listing]
			return [any(l[2].endswith(here) and l[3].endswith(there) and 'keepalive' in l[-1]
				for l in lines) for here, there in ends]
		eventually(lambda: all(timers()), 5, 'keepalive timers on both sides')
		session.sql('commit')


def test_a_client_that_takes_nothing_is_given_up_after_the_user_timeout():
	with Proxy(CLUSTER, pair=None, variables={'tcp_user_timeout_client': 1500}, name='timeout') as proxy:
		session = proxy.session()
		session.send(wire.query("select repeat('x', 100000) from generate_series(1, 2000)"))
		session.read_message()
		eventually(lambda: 'client vanished' in proxy.log(), 30, 'the stalled client given up', 0.2)
		session.abort()


if __name__ == '__main__':
	runner.main(globals())
