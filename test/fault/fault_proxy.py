#!/usr/bin/python3
"""A TCP relay that can be told to misbehave: cut, delay, half-close, throttle, swallow.

	relay = FaultProxy(('127.0.0.1', 5432))     # relay.port is where clients connect
	relay.delay_ms = 50                         # each chunk waits, both directions
	relay.delay_end_ms = 500                    # the end of a stream waits, bytes do not
	relay.rate_bytes = 10000                    # at most so many bytes a second and direction
	relay.swallow = True                        # accept bytes, deliver nothing
	relay.refuse = True                         # new connections are reset at once
	relay.cut()                                 # all connections end with a reset
	relay.cut_after(to_client=100)              # connections end after so many more bytes
	relay.half_close()                          # the server side's FIN only; the client may still
	send relay.close()

One thread and one selector; settings may be changed from any thread at any time.
"""
import argparse
import selectors
import socket
import struct
import threading
import time

_CHUNK = 16384
_MAX_QUEUED = 1 << 20


class _Way:
	"""One direction of one connection: bytes wait in a queue of (due time, data)."""

	def __init__(self, source, sink, to_client):
		self.source = source
		self.sink = sink
		self.to_client = to_client
		self.queue = []
		self.queued = 0
		self.eof = False
		self.eof_due = 0.0
		self.done = False  # the end of the stream has been passed on
		self.next_send = 0.0
		self.bytes_left = None


class _Pair:
	def __init__(self, client, server):
		self.client = client
		self.server = server
		self.ways = (_Way(client, server, False), _Way(server, client, True))
		self.dead = False


class FaultProxy:
	def __init__(self, target, port=0, host='127.0.0.1'):
		self.target = target
		self.delay_ms = 0
		self.delay_end_ms = 0
		self.rate_bytes = 0
		self.swallow = False
		self.refuse = False
		self.accepted = 0
		self._pairs = []
		self._orders = []
		self._lock = threading.Lock()
		self._selector = selectors.DefaultSelector()
		self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
		self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		self._listener.bind((host, port))
		self._listener.listen(512)
		self._listener.setblocking(False)
		self.port = self._listener.getsockname()[1]
		self._wake_read, self._wake_write = socket.socketpair()
		self._wake_read.setblocking(False)
		self._selector.register(self._listener, selectors.EVENT_READ, 'listener')
		self._selector.register(self._wake_read, selectors.EVENT_READ, 'wake')
		self._running = True
		self._thread = threading.Thread(target=self._run, daemon=True, name='fault-proxy')
		self._thread.start()

	# -- orders from outside; carried out by the relay thread

	def _order(self, function):
		done = threading.Event()
		with self._lock:
			self._orders.append((function, done))
		self._wake_write.send(b'x')
		done.wait(5)

	def cut(self):
		self._order(lambda: [self._drop(p, reset=True) for p in list(self._pairs)])

	def half_close(self):
		def act():
			for pair in self._pairs:
				pair.ways[1].queue.clear()
				try:
					pair.client.shutdown(socket.SHUT_WR)
				except OSError:
					pass
		self._order(act)

	def cut_after(self, to_client=None, to_server=None):
		def act():
			for pair in self._pairs:
				pair.ways[0].bytes_left = to_server
				pair.ways[1].bytes_left = to_client
		self._order(act)

	def connections(self):
		return len(self._pairs)

	def close(self):
		def act():
			self._running = False
		self._order(act)
		self._thread.join(5)

	# -- the relay thread

	def _run(self):
		while self._running:
			for key, _ in self._selector.select(self._pause()):
				if key.data == 'listener':
					self._accept()
				elif key.data == 'wake':
					self._wake_read.recv(4096)
				elif not key.data.dead:
					self._receive(key.data, key.fileobj)
			with self._lock:
				orders, self._orders = self._orders, []
			for function, done in orders:
				function()
				done.set()
			for pair in list(self._pairs):
				self._pump(pair)
		for pair in list(self._pairs):
			self._drop(pair, reset=True)
		self._selector.close()
		for sock in (self._listener, self._wake_read, self._wake_write):
			sock.close()

	def _pause(self):
		"""Short while bytes wait for their time, long when nothing does."""
		waiting = any(w.queue or w.eof for p in self._pairs for w in p.ways)
		return 0.002 if waiting else 1.0

	def _accept(self):
		try:
			client, _ = self._listener.accept()
		except OSError:
			return
		self.accepted += 1
		server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
		try:
			if self.refuse:
				raise OSError('refused on purpose')
			server.settimeout(2)
			server.connect(self.target)
		except OSError:
			self._reset(client)
			server.close()
			return
		for sock in (client, server):
			sock.setblocking(False)
			sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
		pair = _Pair(client, server)
		self._pairs.append(pair)
		self._selector.register(client, selectors.EVENT_READ, pair)
		self._selector.register(server, selectors.EVENT_READ, pair)

	def _receive(self, pair, sock):
		way = pair.ways[0] if sock is pair.client else pair.ways[1]
		if way.queued > _MAX_QUEUED:
			time.sleep(0.001)  # the source must wait; the selector would only spin on it
			return
		try:
			data = sock.recv(_CHUNK)
		except BlockingIOError:
			return
		except OSError:
			self._drop(pair, reset=True)
			return
		if not data:
			way.eof = True
			way.eof_due = time.monotonic() + self.delay_end_ms / 1000.0
			self._selector.unregister(sock)
			return
		if not self.swallow:
			way.queue.append((time.monotonic() + self.delay_ms / 1000.0, data))
			way.queued += len(data)

	def _pump(self, pair):
		for way in pair.ways:
			while way.queue and not pair.dead:
				now = time.monotonic()
				due, data = way.queue[0]
				if due > now or way.next_send > now:
					break
				piece = data
				if self.rate_bytes:
					piece = data[:max(1, self.rate_bytes // 100)]
				if way.bytes_left is not None:
					piece = piece[:way.bytes_left]
				try:
					sent = way.sink.send(piece) if piece else 0
				except BlockingIOError:
					break
				except OSError:
					self._drop(pair, reset=True)
					return
				way.queued -= sent
				if sent == len(data):
					way.queue.pop(0)
				else:
					way.queue[0] = (due, data[sent:])
				if self.rate_bytes:
					way.next_send = now + sent / self.rate_bytes
				if way.bytes_left is not None:
					way.bytes_left -= sent
					if way.bytes_left <= 0:
						self._drop(pair, reset=True)
						return
			ended = way.eof and not way.queue and time.monotonic() >= way.eof_due
			if ended and not pair.dead:
				way.eof = False
				try:
					way.sink.shutdown(socket.SHUT_WR)
				except OSError:
					pass
				way.done = True
		if all(w.done for w in pair.ways):
			self._drop(pair, reset=False)

	def _drop(self, pair, reset):
		if pair.dead:
			return
		pair.dead = True
		self._pairs.remove(pair)
		for sock in (pair.client, pair.server):
			try:
				self._selector.unregister(sock)
			except (KeyError, ValueError):
				pass
			if reset:
				self._reset(sock)
			else:
				sock.close()

	@staticmethod
	def _reset(sock):
		try:
			sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
		except OSError:
			pass
		sock.close()


def main():
	parser = argparse.ArgumentParser(description='A TCP relay with faults; prints its port.')
	parser.add_argument('target', help='host:port to relay to')
	parser.add_argument('--port', type=int, default=0)
	parser.add_argument('--delay-ms', type=int, default=0)
	parser.add_argument('--rate-bytes', type=int, default=0)
	args = parser.parse_args()
	host, port = args.target.rsplit(':', 1)
	relay = FaultProxy((host, int(port)), args.port)
	relay.delay_ms = args.delay_ms
	relay.rate_bytes = args.rate_bytes
	print(relay.port, flush=True)
	while True:
		time.sleep(3600)


if __name__ == '__main__':
	main()
