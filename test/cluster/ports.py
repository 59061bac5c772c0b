"""Free loopback ports that stay free.

A port got by binding port 0 lies in the kernel's ephemeral range, where any outgoing connection may
take it between two starts of the same server (and the tests open thousands of connections). So
ports are taken below that range; the kernel still has the last word (a test bind), and a lock file
keeps two test runs on one machine from choosing the same port at the same moment.
"""
import fcntl
import os
import random
import socket
import tempfile

_LOWEST = 10240
_held = {}


def _ephemeral_start():
	try:
		with open('/proc/sys/net/ipv4/ip_local_port_range', encoding='ascii') as f:
			return int(f.read().split()[0])
	except OSError:
		return 32768


def _lock_dir():
	path = os.path.join(tempfile.gettempdir(), 'polar-test-ports.%d' % os.getuid())
	os.makedirs(path, mode=0o700, exist_ok=True)
	return path


def bindable(port):
	with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
		s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		try:
			s.bind(('0.0.0.0', port))
			s.listen(1)
		except OSError:
			return False
	return True


def reserve(preferred=None):
	"""A port nobody listens on, kept for this process until release() or its end."""
	top = max(_ephemeral_start(), _LOWEST + 1000)
	chance = random.SystemRandom()
	candidates = list(preferred or ())
	for _ in range(2000):
		port = candidates.pop(0) if candidates else chance.randrange(_LOWEST, top)
		if port in _held:
			continue
		fd = os.open(os.path.join(_lock_dir(), str(port)), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC,
			0o600)
		try:
			fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
		except OSError:
			os.close(fd)
			continue
		if bindable(port):
			_held[port] = fd
			return port
		os.close(fd)
	raise RuntimeError('no free port between %d and %d' % (_LOWEST, top))


def release(port):
	fd = _held.pop(port, None)
	if fd is not None:
		os.close(fd)
