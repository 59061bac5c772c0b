/*
 * startup_parameters.c
 *		The _polar_* startup parameters: who may send them, and what they turn on.
 *
 * They are read and removed from the startup packet's list by the ClientAuthentication hook, which
 * runs after authentication and before the list is applied as settings. So they exist only as top-
 * level keys of the packet: inside "options" they are unknown settings and end the login.
 *
 * pg_hba.conf is looked up a second time with the stated client address. Unlike PolarDB, the
 * authentication method is the one of the proxy's own line: it has been run by then. The second
 * look-up can only refuse.
 */
#include "polar_proxy.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "libpq/auth.h"
#include "libpq/hba.h"
#include "libpq/ifaddr.h"
#include "libpq/libpq-be.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#if PG_VERSION_NUM >= 160000
#include "nodes/pg_list.h"
#endif

bool		polar_session_proxied = false;
bool		polar_session_wait_message = false;

/* Everything a startup packet can say; NULL = not said. */
typedef struct
{
	const char *client_host;
	const char *client_port;
	const char *send_lsn;
	const char *send_xact;
	const char *session_id;
	const char *cancel_key;
	const char *use_ssl;
	const char *ssl_version;
	const char *ssl_cipher;
	const char *wait_message;
} PolarStartup;

typedef struct
{
	const char *name;
	size_t		offset;
} PolarStartupName;

#define POLAR_NAME(name, field) {name, offsetof(PolarStartup, field)}

/* New and legacy names may be mixed freely; the last one given counts. */
static const PolarStartupName startup_names[] = {
	POLAR_NAME("_polar_proxy_client_host", client_host),
	POLAR_NAME("_polar_origin_client_ip", client_host),
	POLAR_NAME("_polar_proxy_client_port", client_port),
	POLAR_NAME("_polar_origin_client_port", client_port),
	POLAR_NAME("_polar_proxy_send_lsn", send_lsn),
	POLAR_NAME("_polar_send_lsn", send_lsn),
	POLAR_NAME("_polar_proxy_send_xact", send_xact),
	POLAR_NAME("_polar_send_xact", send_xact),
	POLAR_NAME("_polar_proxy_session_id", session_id),
	POLAR_NAME("_polar_proxy_cancel_key", cancel_key),
	POLAR_NAME("_polar_proxy_use_ssl", use_ssl),
	POLAR_NAME("_polar_proxy_ssl_version", ssl_version),
	POLAR_NAME("_polar_proxy_ssl_cipher_name", ssl_cipher),
	/* The test kernel hands over _pq_.polar_proxy_wait_v1 under this name. */
	POLAR_NAME("_polar_proxy_wait_v1", wait_message),
};

/* One entry of polar_proxy.trusted_addresses, parsed. */
typedef struct
{
	bool		local;			/* any Unix socket; the addresses below are unused */
	struct sockaddr_storage address;
	struct sockaddr_storage mask;
} PolarTrusted;

typedef struct
{
	int			count;
	PolarTrusted entries[FLEXIBLE_ARRAY_MEMBER];
} PolarTrustedList;

static char *trusted_addresses_text = NULL;
static PolarTrustedList *trusted_addresses = NULL;

static ClientAuthentication_hook_type previous_authentication = NULL;

/* Numeric addresses in full only: nothing here may ask a name server. */
static bool
parse_address(const char *host, uint16 port, struct sockaddr_storage *address, socklen_t *length)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *) address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) address;

	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1)
	{
		v4->sin_family = AF_INET;
		v4->sin_port = pg_hton16(port);
		*length = sizeof(*v4);
		return true;
	}
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1)
	{
		v6->sin6_family = AF_INET6;
		v6->sin6_port = pg_hton16(port);
		*length = sizeof(*v6);
		return true;
	}
	return false;
}

/* "local", "ADDRESS" or "ADDRESS/BITS"; the word is written to. */
static bool
parse_trusted(char *word, PolarTrusted *entry)
{
	char	   *bits = strchr(word, '/');
	socklen_t	length;

	memset(entry, 0, sizeof(*entry));
	if (strcmp(word, "local") == 0)
	{
		entry->local = true;
		return true;
	}
	if (bits)
		*bits++ = '\0';
	return parse_address(word, 0, &entry->address, &length) &&
		pg_sockaddr_cidr_mask(&entry->mask, bits, entry->address.ss_family) == 0;
}

static bool
check_trusted_addresses(char **newval, void **extra, GucSource source)
{
	char	   *copy = pstrdup(*newval);
	char	   *rest = copy;
	char	   *word;
	size_t		capacity = strlen(copy) / 2 + 1;
	PolarTrustedList *list;

	list = polar_guc_malloc(offsetof(PolarTrustedList, entries) + capacity * sizeof(PolarTrusted));
	if (list == NULL)
		return false;
	list->count = 0;
	while ((word = strsep(&rest, ", \t")) != NULL)
	{
		if (word[0] == '\0')
			continue;
		if (!parse_trusted(word, &list->entries[list->count]))
		{
			GUC_check_errdetail("\"%s\" is neither \"local\" nor a numeric address.", word);
			polar_guc_free(list);
			pfree(copy);
			return false;
		}
		list->count++;
	}
	pfree(copy);
	*extra = list;
	return true;
}

static void
assign_trusted_addresses(const char *newval, void *extra)
{
	trusted_addresses = extra;
}

static bool
peer_is_trusted(const Port *port)
{
	const struct sockaddr_storage *peer = &port->raddr.addr;

	for (int i = 0; trusted_addresses != NULL && i < trusted_addresses->count; i++)
	{
		const PolarTrusted *entry = &trusted_addresses->entries[i];

		if (entry->local ? peer->ss_family == AF_UNIX :
			peer->ss_family == entry->address.ss_family &&
			pg_range_sockaddr(peer, &entry->address, &entry->mask))
			return true;
	}
	return false;
}

/* Moves the _polar_* entries out of the list of settings; returns whether a known one was there. */
static bool
take_parameters(Port *port, PolarStartup *startup)
{
	List	   *kept = NIL;
	bool		found = false;
	ListCell   *cell = list_head(port->guc_options);

	while (cell != NULL)
	{
		char	   *name = lfirst(cell);
		char	   *value;

		cell = lnext(port->guc_options, cell);
		value = lfirst(cell);
		cell = lnext(port->guc_options, cell);
		/* Other names of this form are ignored, as PolarDB does: newer proxies may send more. */
		if (strncmp(name, "_polar_", strlen("_polar_")) != 0)
		{
			kept = lappend(lappend(kept, name), value);
			continue;
		}
		for (int i = 0; i < lengthof(startup_names); i++)
		{
			if (strcmp(name, startup_names[i].name) == 0)
			{
				*(const char **) ((char *) startup + startup_names[i].offset) = value;
				found = true;
			}
		}
	}
	port->guc_options = kept;
	return found;
}

static bool
parse_flag(const char *name, const char *value)
{
	bool		flag = false;

	if (value != NULL && !parse_bool(value, &flag))
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s\": \"%s\"", name, value)));
	return flag;
}

static int32
parse_number(const char *name, const char *value)
{
	char	   *end;
	long		number;

	errno = 0;
	number = strtol(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || number != (int32) number)
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s\": \"%s\"", name, value)));
	return (int32) number;
}

/*
 * Session ids are checked and otherwise unused: CancelRequest is handled by the postmaster, where
 * no module can step in.
 */
static void
check_session_id(const PolarStartup *startup)
{
	int32		id;

	if ((startup->session_id == NULL) != (startup->cancel_key == NULL))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("[Proxy] Should set both session id and cancel key.")));
	if (startup->session_id == NULL)
		return;
	id = parse_number("_polar_proxy_session_id", startup->session_id);
	(void) parse_number("_polar_proxy_cancel_key", startup->cancel_key);
	if (id == 0)
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s\": \"%s\"", "_polar_proxy_session_id",
						startup->session_id)));
	if (id <= 10000000)
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("POLAR: Invalid proxy sid: %d, should between (10^7, INT_MAX]", id)));
}

/*
 * The stated client's address replaces the proxy's for pg_hba.conf, the log and pg_stat_activity.
 */
static void
take_client_address(Port *port, const PolarStartup *startup, bool use_ssl)
{
	char	   *end;
	long		number;
	struct sockaddr_storage address;
	socklen_t	length;
	HbaLine    *proxy_line = port->hba;
	bool		proxy_ssl = port->ssl_in_use;

	number = strtol(startup->client_port, &end, 10);
	if (end == startup->client_port || *end != '\0' || number < 1 || number > 65535 ||
		!parse_address(startup->client_host, (uint16) number, &address, &length))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("[Proxy] Construct client address fail, client_host=%s, client_port=%s",
						startup->client_host, startup->client_port)));
	port->raddr.addr = address;
	port->raddr.salen = length;
	port->remote_host = MemoryContextStrdup(TopMemoryContext, startup->client_host);
	port->remote_port = MemoryContextStrdup(TopMemoryContext, startup->client_port);
	/* Lines with a host name match no proxied session: -1 is "known not to resolve". */
	port->remote_hostname = NULL;
	port->remote_hostname_resolv = -1;

	port->ssl_in_use = use_ssl;
	hba_getauthmethod(port);
	if (port->hba->auth_method == uaReject || port->hba->auth_method == uaImplicitReject)
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
				 port->hba->auth_method == uaReject ?
				 errmsg("pg_hba.conf rejects connection for host \"%s\", user \"%s\", "
						"database \"%s\"",
						startup->client_host, port->user_name, port->database_name) :
				 errmsg("no pg_hba.conf entry for host \"%s\", user \"%s\", database \"%s\"",
						startup->client_host, port->user_name, port->database_name)));
	port->hba = proxy_line;
	port->ssl_in_use = proxy_ssl;
}

static void
apply_parameters(Port *port, const PolarStartup *startup)
{
	bool		send_lsn = parse_flag("_polar_proxy_send_lsn", startup->send_lsn);
	bool		send_xact = parse_flag("polar_proxy_send_xact", startup->send_xact);
	bool		use_ssl = parse_flag("_polar_proxy_use_ssl", startup->use_ssl);
	bool		wait_message = parse_flag("_pq_.polar_proxy_wait_v1", startup->wait_message);

	if ((startup->client_host == NULL) != (startup->client_port == NULL))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("[Proxy] proxy info is incomplete.")));
	if (startup->client_host == NULL)
	{
		if (send_lsn || use_ssl || wait_message)
			ereport(FATAL,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("[Proxy] Proxy is disabled, unable to use lsn or ssl")));
	}
	else
	{
		if (use_ssl && (startup->ssl_version == NULL || startup->ssl_cipher == NULL))
			ereport(FATAL,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("[Proxy] ssl info is incomplete.")));
		check_session_id(startup);
		take_client_address(port, startup, use_ssl);
		polar_session_proxied = true;
	}
	polar_session_wait_message = wait_message;
	if (send_lsn || send_xact)
		polar_ready_tail_install(send_lsn, send_xact);
}

static void
polar_authentication(Port *port, int status)
{
	PolarStartup startup = {0};
	bool		found = take_parameters(port, &startup);

	if (previous_authentication)
		previous_authentication(port, status);
	if (status != STATUS_OK || !found)
		return;
	if (!peer_is_trusted(port))
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
				 errmsg("proxy startup parameters are not accepted from \"%s\"", port->remote_host),
				 errdetail_log("The address is not in polar_proxy.trusted_addresses.")));
	apply_parameters(port, &startup);
}

void
polar_startup_init(void)
{
	DefineCustomStringVariable("polar_proxy.trusted_addresses",
							   "Addresses that may send proxy startup parameters.",
							   "Numeric addresses and networks; \"local\" stands for Unix sockets.",
							   &trusted_addresses_text, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY,
							   check_trusted_addresses, assign_trusted_addresses, NULL);
	previous_authentication = ClientAuthentication_hook;
	ClientAuthentication_hook = polar_authentication;
}
