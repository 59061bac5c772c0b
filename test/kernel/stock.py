"""Debian's PostgreSQL 15 with the companion extension, built without touching the installation."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from cluster import flavours  # noqa: E402

PREFIX = '/usr/lib/postgresql/15'


def extension_flavour():
	"""A flavour for test/cluster; the extension is found through Debian's extension_destdir."""
	build = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'build-extension')
	run = subprocess.run([build], stdout=subprocess.PIPE, text=True, check=True)
	destination = run.stdout.strip().splitlines()[-1]
	return flavours.Flavour('extension', PREFIX, {
		'extension_destdir': "'%s'" % destination,
		'shared_preload_libraries': "'%s%s/lib/polar_proxy'" % (destination, PREFIX),
		'polar_proxy.trusted_addresses': "'local, 127.0.0.0/8'",
	})
