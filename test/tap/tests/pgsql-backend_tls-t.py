#!/usr/bin/python3
"""TLS towards the servers: use_ssl of a server, pgsql-ssl_p2s_*, pgsql_servers_ssl_params."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error  # noqa: E402
from cluster import Cluster, Proxy, eventually  # noqa: E402
from cluster.workspace import give_to_server  # noqa: E402

CLUSTER = PROXY = None
_IN_USE = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()'


def _certificate(name):
	"""A self-signed certificate for 127.0.0.1: (certificate file, key file)."""
	cert, key = CLUSTER.work.file(name + '.crt'), CLUSTER.work.file(name + '.key')
	subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj',
		'/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert],
		check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
	os.chmod(key, 0o600)
	give_to_server(key)
	return cert, key


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0)
	cert, key = _certificate('server')
	for name, value in (('ssl_cert_file', cert), ('ssl_key_file', key), ('ssl', 'on')):
		CLUSTER.primary.sql("alter system set %s = '%s'" % (name, value))
	CLUSTER.primary.sql('select pg_reload_conf()')
	eventually(lambda: CLUSTER.primary.scalar('show ssl') == 'on', what='TLS on the server')
	PROXY = Proxy(CLUSTER, pair=None)


def teardown():
	PROXY.stop()
	CLUSTER.close()


def _configure(use_ssl, ca='', row=None):
	PROXY.admin('update pgsql_servers set use_ssl = %d' % use_ssl)
	PROXY.admin('delete from pgsql_servers_ssl_params')
	if row is not None:
		PROXY.admin("insert into pgsql_servers_ssl_params (hostname, port, username, ssl_ca) values"
			" ('127.0.0.1', %d, '%s', '%s')" % (CLUSTER.primary.port, row[0], row[1]))
	PROXY.admin("set pgsql-ssl_p2s_ca = '%s'" % ca)
	PROXY.admin('load pgsql variables to runtime')
	PROXY.admin('load pgsql servers to runtime')
	# Connections of the old settings go: what follows is opened by the new ones.
	CLUSTER.primary.terminate_backends(user='app')
	eventually(lambda: CLUSTER.primary.backends(user='app') == 0, what='no old connection')


def _encrypted():
	with PROXY.session() as session:
		return session.scalar(_IN_USE)


def test_plain_without_use_ssl_and_tls_with_it():
	_configure(0)
	equal(_encrypted(), 'f')
	_configure(1)
	equal(_encrypted(), 't')


def test_server_is_checked_against_the_given_authority():
	right, wrong = CLUSTER.work.file('server.crt'), _certificate('stranger')[0]
	_configure(1, ca=right)
	equal(_encrypted(), 't')
	_configure(1, ca=wrong)
	with PROXY.session() as session:
		error = expect_error(('08001', '08006'), session.sql, _IN_USE, timeout=20)
	assert 'certificate' in error.fields.get('D', ''), error.fields


def test_row_of_the_server_and_user_goes_before_the_variables():
	right, wrong = CLUSTER.work.file('server.crt'), CLUSTER.work.file('stranger.crt')
	_configure(1, ca=wrong, row=('', right))
	equal(_encrypted(), 't')
	_configure(1, ca=right, row=('app', wrong))
	with PROXY.session() as session:
		expect_error(('08001', '08006'), session.sql, _IN_USE, timeout=20)
	with PROXY.session('app2', 'app2-secret') as session:
		equal(session.scalar(_IN_USE), 't')


if __name__ == '__main__':
	runner.main(globals())
