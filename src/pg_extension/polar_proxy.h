/*
 * polar_proxy.h
 *		What the files of the companion extension share.
 *
 * A session is "proxied" when it stated a client address in its startup packet and came from an
 * address in polar_proxy.trusted_addresses. Everything here is per backend, except what lsn_wait.c
 * keeps in shared memory.
 */
#ifndef POLAR_PROXY_H
#define POLAR_PROXY_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
#include "utils/guc.h"

/* Values of polar_consistency_mode, and of the mode byte in the wait message. */
typedef enum
{
	POLAR_BEST_EFFORT = 0,
	POLAR_STRICT = 1
} PolarConsistencyMode;

/* Values of polar_proxy.open_transaction_wal. */
typedef enum
{
	POLAR_OPEN_WAL_IGNORE,
	POLAR_OPEN_WAL_REPORT,
	POLAR_OPEN_WAL_FLUSH
} PolarOpenTransactionWal;

/* startup_parameters.c */
extern bool polar_session_proxied;
extern bool polar_session_wait_message;
extern void polar_startup_init(void);

/* ready_tail.c */
extern int polar_open_transaction_wal;
extern void polar_ready_tail_init(void);
extern void polar_ready_tail_install(bool send_lsn, bool send_xact);
extern void polar_note_utility(Node *statement);

/* lsn_wait.c */
extern int polar_consistency_mode;
extern int polar_wait_timeout_ms;
extern XLogRecPtr polar_replayed_position(void);
extern void polar_wait_init(void);
extern void polar_wait_after_set(const char *variable);
extern bool polar_wait_pending(void);
extern void polar_wait_before_execution(void);

/* xid_import.c, which is empty without POLAR_XID_IMPORT */
#ifdef POLAR_XID_IMPORT
extern void polar_import_init(void);
extern bool polar_import_active(void);
#endif

/* A GUC's "extra" must come from malloc before 16 and from guc_malloc since. */
static inline void *
polar_guc_malloc(Size size)
{
#if PG_VERSION_NUM >= 160000
	return guc_malloc(LOG, size);
#else
	return malloc(size);
#endif
}

static inline void
polar_guc_free(void *pointer)
{
#if PG_VERSION_NUM >= 160000
	guc_free(pointer);
#else
	free(pointer);
#endif
}

#endif							/* POLAR_PROXY_H */
