"""A temporary folder together with every process started in it.

What keeps the promise "nothing is left behind, however the test ends":
1. Each process is written down in DIR/pids/NAME before anything waits for it.
2. A janitor (a small process of its own session) holds the read end of a pipe. When the test
process ends in any way, kill -9 included, the pipe closes and the janitor ends the processes and
   removes the folder.
3. A process is ended only if its command line or environment names this folder, so a reused pid is
safe.
"""
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

_PREFIX = 'polar-test-'
# Memory that looks like a folder, and the free bytes it must have to be used.
_MEMORY = '/dev/shm'
_MEMORY_WANTED = 4 << 30


def _read(path, mode='r'):
	try:
		with open(path, mode) as f:
			return f.read()
	except OSError:
		return '' if mode == 'r' else b''


def alive(pid):
	"""True while the process exists and is not a zombie."""
	stat = _read('/proc/%d/stat' % pid)
	return bool(stat) and stat.rsplit(')', 1)[1].split()[0] not in 'ZX'


def children(pid):
	"""Process ids whose parent is pid."""
	found = []
	for entry in os.listdir('/proc'):
		if entry.isdigit():
			stat = _read('/proc/%s/stat' % entry)
			if stat and int(stat.rsplit(')', 1)[1].split()[1]) == pid:
				found.append(int(entry))
	return found


def wait_gone(pids, timeout):
	deadline = time.monotonic() + timeout
	while time.monotonic() < deadline:
		if not any(alive(p) for p in pids):
			return True
		time.sleep(0.01)
	return not any(alive(p) for p in pids)


def _signal(pid, number):
	try:
		os.kill(pid, number)
	except OSError:
		pass


def _belongs(pid, path):
	needle = os.fsencode(path)
	return (needle in _read('/proc/%d/cmdline' % pid, 'rb') or
		needle in _read('/proc/%d/environ' % pid, 'rb') or
		os.path.realpath('/proc/%d/cwd' % pid).startswith(path))


def _drop_shared_memory(datadir):
	"""A postmaster killed with -9 leaves its small System V segment; its pid file names it."""
	lines = _read(os.path.join(datadir, 'postmaster.pid')).splitlines()
	if len(lines) >= 7 and len(lines[6].split()) == 2:
		ctypes.CDLL(None).shmctl(int(lines[6].split()[1]), 0, None)  # 0 = IPC_RMID


def sweep(path):
	"""Ends every process written down in path, then removes path."""
	pids_dir = os.path.join(path, 'pids')
	pids = []
	if os.path.isdir(pids_dir):
		for name in os.listdir(pids_dir):
			text = _read(os.path.join(pids_dir, name)).strip()
			if text.isdigit() and alive(int(text)) and _belongs(int(text), path):
				pids.append(int(text))
	# Children first noted, then the parents: a stopped (SIGSTOP) one must be continued to die.
	family = [c for p in pids for c in children(p)]
	for pid in pids + family:
		_signal(pid, signal.SIGKILL)
		_signal(pid, signal.SIGCONT)
	wait_gone(pids + family, 5)
	if os.path.isdir(path):
		for name in os.listdir(path):
			_drop_shared_memory(os.path.join(path, name))
	if not os.environ.get('POLAR_KEEP'):
		shutil.rmtree(path, ignore_errors=True)


def server_identity():
	"""Keyword arguments for Popen: PostgreSQL refuses to run as root."""
	if os.getuid() != 0:
		return {}
	import pwd
	entry = pwd.getpwnam('postgres')
	return {'user': entry.pw_uid, 'group': entry.pw_gid, 'extra_groups': []}


def give_to_server(path):
	"""Makes path and all below it belong to the user the servers run as."""
	who = server_identity()
	if who:
		subprocess.run(['chown', '-R', '%d:%d' % (who['user'], who['group']), path], check=True)


def base_folder():
	"""Where workspaces are made: TMPDIR when given; memory when there is plenty (thousands of
	small files are made and removed, and no test is about a disk); else the temporary folder.
	"""
	if 'TMPDIR' not in os.environ and os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK):
		if shutil.disk_usage(_MEMORY).free >= _MEMORY_WANTED:
			return _MEMORY
	return tempfile.gettempdir()


class Workspace:
	"""persistent=True: the folder and its processes outlive this process (`down` sweeps them)."""

	def __init__(self, path=None, persistent=False):
		if path:
			self.path = os.path.abspath(path)
			os.makedirs(self.path, exist_ok=True)
		else:
			self.path = tempfile.mkdtemp(prefix='%s%d-' % (_PREFIX, os.getpid()), dir=base_folder())
		os.chmod(self.path, 0o755)
		os.makedirs(os.path.join(self.path, 'pids'), exist_ok=True)
		self._procs = {}
		self._janitor = None
		self._pipe = None
		if not persistent:
			self._start_janitor()

	def _start_janitor(self):
		reader, writer = os.pipe()
		self._janitor = subprocess.Popen(
			[sys.executable, os.path.abspath(__file__), self.path], stdin=reader,
			stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd='/')
		os.close(reader)
		self._pipe = writer  # not inheritable: only this process holds it open

	def file(self, *parts):
		return os.path.join(self.path, *parts)

	def spawn(self, name, argv, log, as_server=False, env=None, cwd=None):
		"""Starts a process under a name; its output goes to the file log."""
		who = server_identity() if as_server else {}
		environment = dict(os.environ if env is None else env, POLAR_TEST_DIR=self.path)
		with open(log, 'ab') as out:
			proc = subprocess.Popen(
				argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment,
				cwd=cwd or self.path, start_new_session=True, **who)
		self.note(name, proc.pid)
		self._procs[name] = proc
		return proc

	def note(self, name, pid):
		with open(self.file('pids', name), 'w', encoding='ascii') as f:
			f.write('%d\n' % pid)

	def noted(self, name):
		text = _read(self.file('pids', name)).strip()
		return int(text) if text.isdigit() else 0

	def forget(self, name):
		self._procs.pop(name, None)
		try:
			os.unlink(self.file('pids', name))
		except OSError:
			pass

	def close(self):
		sweep(self.path)
		for proc in self._procs.values():
			proc.poll()
		if self._pipe is not None:
			os.close(self._pipe)
			self._pipe = None
			self._janitor.wait()


def sweep_stale():
	"""Removes folders of earlier runs whose janitor was killed as well (a power cut, an OOM
	kill)."""
	base = base_folder()
	for name in os.listdir(base):
		if name.startswith(_PREFIX):
			owner = name[len(_PREFIX):].split('-')[0]
			path = os.path.join(base, name)
			old = time.time() - os.stat(path).st_mtime > 3600
			if owner.isdigit() and old and not alive(int(owner)):
				sweep(path)


if __name__ == '__main__':
	signal.signal(signal.SIGINT, signal.SIG_IGN)
	signal.signal(signal.SIGTERM, signal.SIG_IGN)
	while os.read(0, 4096):
		pass
	sweep(sys.argv[1])
