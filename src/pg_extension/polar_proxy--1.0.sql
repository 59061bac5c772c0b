\echo Use "CREATE EXTENSION polar_proxy" to load this file. \quit

CREATE FUNCTION polar_node_type() RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION polar_node_type() IS 'primary, or replica while in recovery';

CREATE FUNCTION polar_is_available() RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION polar_is_available() IS
	'whether proxies should use this server (setting polar_proxy.available)';

CREATE FUNCTION polar_flush_xact() RETURNS pg_lsn
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION polar_flush_xact() IS
	'flushes the WAL of the session''s open transaction, so that replicas receive it';
