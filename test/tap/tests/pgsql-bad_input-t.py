#!/usr/bin/python3
"""Bytes that are no proper client: errors where one is possible, bounded memory, nobody else
harmed."""
import random
import resource
import socket
import struct
import time
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal  # noqa: E402
from cluster import Closed, Cluster, Proxy, Timeout, Wire, eventually, wire  # noqa: E402

TIMEOUT = 120
CLUSTER = PROXY = GOOD = None


def setup():
	global CLUSTER, PROXY, GOOD
	soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
	resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 30000)), hard))
	CLUSTER = Cluster('stock', 0)
	PROXY = Proxy(CLUSTER, pair=None, variables={
		'connect_timeout_client': 2000, 'max_allowed_packet': 1 << 20, 'max_connections': 20000})
	GOOD = PROXY.session()


def teardown():
	GOOD.close()
	PROXY.stop()
	CLUSTER.close()


def _others_are_fine():
	start = time.monotonic()
	equal(GOOD.scalar('select 42', timeout=5), '42')
	with PROXY.session() as fresh:
		equal(fresh.scalar('select 43', timeout=5), '43')
	assert time.monotonic() - start < 5, 'others wait'
	assert PROXY.running(), PROXY.log()[-3000:]


def _outcome(session, timeout=5):
	"""What came back before the close: the SQLSTATEs of the errors. The close itself is
	required."""
	try:
		messages = session.read_all(timeout)
	except Timeout as e:
		raise AssertionError('the connection stays open') from e
	finally:
		session.sock.close()
	return [wire.error_fields(b).get('C') for k, b in messages if k == 'E']


def test_random_bytes_at_start():
	chance = random.Random(1)
	for _ in range(200):
		session = Wire(PROXY.address)
		data = bytes(chance.randrange(256) for _ in range(chance.choice([1, 4, 7, 8, 9, 100,
			5000])))
		try:
			session.send(data)
			session.sock.shutdown(socket.SHUT_WR)
		except OSError:
			pass
		assert session.closed_by_peer(5), data[:20]
		session.sock.close()
	_others_are_fine()


def test_startup_lengths():
	for length in (0, 1, 3, 4, 7, 10001, 65536, 1 << 24, 0x7fffffff, 0x80000000, 0xffffffff):
		session = Wire(PROXY.address)
		session.send(struct.pack('!II', length, wire.PROTOCOL_3_0))
		states = _outcome(session)
		assert all(s == '08P01' for s in states), (length, states)
	_others_are_fine()


def test_startup_packet_without_terminators():
	for body in (b'user', b'user\0', b'user\0app', b'user\0app\0', b'\0', b'\0\0\0\0',
			b'user\0app\0database\0',
			b'u' * 9000 + b'\0', b'user\0app\0' + b'x\0y\0' * 2000):
		session = Wire(PROXY.address)
		session.send(struct.pack('!II', 8 + len(body), wire.PROTOCOL_3_0) + body)
		session.sock.shutdown(socket.SHUT_WR)
		assert session.closed_by_peer(5), body[:30]
		session.sock.close()
	_others_are_fine()


def test_half_a_startup_packet_and_silence_is_ended():
	session = Wire(PROXY.address)
	session.send(wire.startup({'user': 'app', 'database': 'app'})[:11])
	start = time.monotonic()
	assert session.closed_by_peer(10), 'half a startup packet may stay for ever'
	took = time.monotonic() - start
	assert 1 < took < 6, 'connect_timeout_client is 2 s, it took %.1f' % took


def test_silence_in_the_password_exchange_is_ended():
	session = Wire(PROXY.address)
	session.send(wire.startup({'user': 'app', 'database': 'app'}))
	session.read_message()
	assert session.closed_by_peer(10)


def test_endless_drip_of_startup_bytes_is_ended():
	session = Wire(PROXY.address)
	packet = wire.startup({'user': 'app', 'x': 'y' * 4000})
	start = time.monotonic()
	try:
		for i in range(len(packet)):
			session.send(packet[i:i + 1])
			time.sleep(0.05)
			if time.monotonic() - start > 10:
				break
	except OSError:
		pass
	assert time.monotonic() - start < 8, 'each byte starts the time limit anew'
	session.sock.close()


def test_wrong_messages_instead_of_a_password():
	for data in (wire.query('select 1'), wire.sync(), wire.frame('p', b''),
			wire.frame('p', b'x' * 70000),
			wire.frame('p', b'SCRAM-SHA-1\0\0\0\0\1n'),
			wire.frame('p', b'SCRAM-SHA-256\0\x7f\xff\xff\xffn,,n=,r=a'), wire.frame('\0', b'')):
		session = Wire(PROXY.address)
		session.send(wire.startup({'user': 'app', 'database': 'app'}))
		session.read_message()
		session.send(data)
		states = _outcome(session)
		assert states and states[0] in ('08P01', '28P01', '28000'), (data[:30], states)
	_others_are_fine()


def test_sasl_without_initial_response_is_asked_for_it():
	# Length -1 is legal (manual, "SASLInitialResponse"): the server answers an empty challenge.
	session = Wire(PROXY.address)
	session.send(wire.startup({'user': 'app', 'database': 'app'}))
	session.read_message()
	session.send(wire.frame('p', b'SCRAM-SHA-256\0\xff\xff\xff\xff'))
	kind, body = session.read_message()
	assert kind == 'R' and body == struct.pack('!I', 11), (kind, body)


def test_message_lengths_after_login():
	for length in (0, 1, 2, 3, 0x7fffffff, 0x80000000, 0xffffffff, (1 << 20) + 5000):
		session = PROXY.session()
		session.send(b'Q' + struct.pack('!I', length) + b'select 1\0')
		states = _outcome(session)
		assert states and states[0] in ('08P01', '54000'), (hex(length), states)
	_others_are_fine()


def test_unknown_message_types_after_login():
	for kind in (0, 1, ord('@'), ord('Z'), ord('R'), ord('z'), 255):
		session = PROXY.session()
		session.send(bytes([kind]) + struct.pack('!I', 4))
		states = _outcome(session)
		equal(states[:1], ['08P01'], 'message type %d' % kind)
	_others_are_fine()


def test_malformed_bodies_after_login():
	bodies = [
		('Q', b''), ('Q', b'select 1'), ('P', b''), ('P', b'x'), ('P', b'\0select 1\0'),
		('P', b'\0select 1\0\xff\xff'), ('P', b'\0select 1\0\0\1\0'), ('B', b''), ('B', b'\0\0\0'),
		('B', b'\0\0\0\0\xff\xff'), ('B', b'\0\0\0\0\0\1\x7f\xff\xff\xff'),
		('B', b'\0\0\0\0\0\1\xff\xff\xff\xf0'),
		('D', b''), ('D', b'X\0'), ('D', b'S'), ('E', b''), ('E', b'\0\0\0'), ('C', b''),
		('C', b'Q\0'),
		('S', b'junk'), ('H', b'junk'), ('F', b'\0\0'), ('f', b''), ('X', b'junk'),
	]
	for kind, body in bodies:
		session = PROXY.session()
		session.send(wire.frame(kind, body) + wire.sync())
		try:
			messages = session.read_ready(5)
			assert any(k == 'E' for k, _ in messages) or kind in 'SHXf', (kind, body, messages)
		except Closed:
			pass
		session.sock.close()
	_others_are_fine()


def test_random_messages_after_login():
	chance = random.Random(2)
	for _ in range(150):
		session = PROXY.session()
		data = b''
		for _ in range(chance.randrange(1, 8)):
			kind = chance.choice('QPBDECSHFdcfXp')
			body = bytes(chance.choice([0, 1, 65, 255, chance.randrange(256)])
				for _ in range(chance.choice([0, 1, 2, 5, 30, 300])))
			data += wire.frame(kind, body)
		try:
			session.send(data)
			session.sock.shutdown(socket.SHUT_WR)
		except OSError:
			pass
		assert session.closed_by_peer(10)
		session.sock.close()
	_others_are_fine()


def test_bits_of_a_good_conversation_flipped():
	chance = random.Random(3)
	good = wire.parse('select $1::int') + wire.bind(['1']) + wire.describe('P') + wire.execute(
		) + wire.sync()
	for _ in range(200):
		data = bytearray(good)
		for _ in range(chance.randrange(1, 4)):
			data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
		session = PROXY.session()
		try:
			session.send(bytes(data))
			session.sock.shutdown(socket.SHUT_WR)
		except OSError:
			pass
		assert session.closed_by_peer(10), bytes(data)
		session.sock.close()
	_others_are_fine()


def test_oversized_packet_is_refused_before_it_is_stored():
	before = PROXY.rss_kb()
	sessions = []
	for _ in range(20):
		session = PROXY.session()
		session.send(b'Q' + struct.pack('!I', 900 << 20))
		try:
			session.send(b'x' * 100000)
		except OSError:
			pass
		sessions.append(session)
	for session in sessions:
		states = _outcome(session)
		assert not states or states[0] in ('08P01', '54000'), states
	assert PROXY.rss_kb() - before < 50 * 1024
	_others_are_fine()


def test_connection_reset_at_every_step():
	whole = wire.startup({'user': 'app', 'database': 'app'})
	for size in list(range(0, len(whole), 5)) + [len(whole)]:
		session = Wire(PROXY.address)
		session.send(whole[:size])
		session.abort()
	for _ in range(50):
		session = PROXY.session()
		session.send(wire.query("select repeat('x', 100000) from generate_series(1, 100)"))
		session.abort()
	_others_are_fine()
	eventually(lambda: int(PROXY.global_stats()['Client_Connections_connected']) == 1, 15,
		'only the good client left')


def test_many_logins_that_fail_do_not_leak():
	def burst():
		for _ in range(150):
			session = Wire(PROXY.address)
			try:
				session.login('app', 'wrong', 'app')
			except wire.WireError:
				pass
			session.sock.close()
	burst()
	files, memory = PROXY.open_files(), PROXY.rss_kb()
	burst()
	burst()
	eventually(lambda: PROXY.open_files() <= files + 2, 10, 'no more open files than before')
	assert PROXY.rss_kb() - memory < 10 * 1024


def test_ten_thousand_silent_connects():
	before_files, before = PROXY.open_files(), PROXY.rss_kb()
	silent = []
	try:
		for i in range(10000):
			sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
			sock.settimeout(10)
			sock.connect(PROXY.address)
			silent.append(sock)
			if i % 2000 == 1999:
				_others_are_fine()
		grown = PROXY.rss_kb() - before
		assert grown < PROXY.may_grow_kb(160), 'the proxy grew by %d kB for silent connections' % grown
		# They are ended by the time limit for logins, not kept.
		eventually(lambda: PROXY.open_files() < before_files + 100, 40, 'silent connections ended',
			0.2)
		_others_are_fine()
	finally:
		for sock in silent:
			sock.close()


if __name__ == '__main__':
	runner.main(globals())
