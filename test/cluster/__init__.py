"""Test clusters: PostgreSQL primaries with hot standbys, the proxy in front, and a raw wire
client."""
from .proxy import READER, WRITER, Proxy
from .server import Cluster, Node, eventually, lsn_number
from .wire import Closed, Timeout, Wire, WireError, connect, transcript

__all__ = ['READER', 'WRITER', 'Closed', 'Cluster', 'Node', 'Proxy', 'Timeout', 'Wire', 'WireError',
	'connect', 'eventually', 'lsn_number', 'transcript']
