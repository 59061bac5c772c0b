/*
 * ready_tail.c
 *		What is appended to ReadyForQuery in sessions that asked for it.
 *
 *		status [LSN: 8 bytes, network order] [marker, "cid,xid,...", NUL]
 *
 * The LSN of a primary is the end of the flushed WAL, or of this session's own last record when
 * that is further. It is not the insert position: that would make replicas wait for other sessions'
 * unflushed WAL, and at the start of a WAL page it names a position replay never stops at. A
 * standby sends its replay position.
 *
 * The marker is sent inside an open transaction block of a primary once it has an XID. 'x': a
 * replica that imports these XIDs sees what this session sees. 'w': it would not, or must not try.
 *
 * Only sessions that asked have their message function replaced, so others run nothing of this.
 */
#include "polar_proxy.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_enum.h"
#include "libpq/libpq.h"
#include "libpq/libpq-be.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "replication/walsender.h"
#include "storage/sinval.h"
#include "tcop/utility.h"
#include "utils/combocid.h"
#include "utils/inval.h"

int			polar_open_transaction_wal = POLAR_OPEN_WAL_IGNORE;

/* More XIDs than this are not worth importing: some 10 kB with every ReadyForQuery. */
#define POLAR_MAX_XIDS 1024

/*
 * The head of what SerializeTransactionState() writes. xact.c keeps it to itself; it is the same in
 * 14 to 17, and what is read here is checked against exported functions on each use.
 */
typedef struct
{
	int			isolation;
	bool		deferrable;
	FullTransactionId top_xid;
	FullTransactionId current_xid;
	CommandId	command_id;
	int			count;
	TransactionId xids[FLEXIBLE_ARRAY_MEMBER];
} PolarTransactionState;

static bool tail_lsn = false;
static bool tail_xact = false;
static const PQcommMethods *wire = NULL;
static PQcommMethods tail_methods;

/* Sticky until the transaction that set it ends, savepoints rolled back or not. */
static bool catalog_changed = false;
static Size idle_enum_space = 0;

static const struct config_enum_entry open_wal_values[] = {
	{"ignore", POLAR_OPEN_WAL_IGNORE, false},
	{"report", POLAR_OPEN_WAL_REPORT, false},
	{"flush", POLAR_OPEN_WAL_FLUSH, false},
	{NULL, 0, false}
};

static XLogRecPtr
flushed_position(void)
{
#if PG_VERSION_NUM >= 150000
	return GetFlushRecPtr(NULL);
#else
	return GetFlushRecPtr();
#endif
}

static XLogRecPtr
reported_position(void)
{
	XLogRecPtr	own;

	if (RecoveryInProgress())
		return polar_replayed_position();
	own = Max(XactLastCommitEnd, XactLastRecEnd);
	return Max(flushed_position(), own);
}

/*
 * Remembers commands that change the catalogs. A replica's caches would keep what it read of them
 * after an abort.
 */
void
polar_note_utility(Node *statement)
{
	if (tail_xact && !catalog_changed &&
		(GetCommandLogLevel(statement) == LOGSTMT_DDL || IsA(statement, VacuumStmt) ||
		 IsA(statement, ReindexStmt)))
		catalog_changed = true;
}

/* Catalog changes that were not a command's: functions, direct updates. */
static bool
invalidations_pending(void)
{
	SharedInvalidationMessage *messages;
	bool		init_file;

	/* The function may be asked at the outermost level only. */
	if (GetCurrentTransactionNestLevel() != 1)
		return false;
	return xactGetCommittedInvalidationMessages(&messages, &init_file) > 0;
}

/* Whether importing the XIDs shows a replica the same rows. */
static bool
transaction_is_splittable(void)
{
	if (XactIsoLevel != XACT_READ_COMMITTED)
		return false;
	/* Combo command ids (a row changed twice) are private to this process. */
	if (EstimateComboCIDStateSpace() != sizeof(int))
		return false;
	/* Readers on the replica would wait for a lock this very transaction holds. */
	if (MyXactFlags & XACT_FLAGS_ACQUIREDACCESSEXCLUSIVELOCK)
		return false;
	if (MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE)
		return false;
	if (EstimateUncommittedEnumsSpace() != idle_enum_space)
		return false;
	if (!catalog_changed && invalidations_pending())
		catalog_changed = true;
	return !catalog_changed;
}

/* Whether a replica can get all of this transaction's WAL without waiting for somebody's flush. */
static bool
open_wal_is_flushed(void)
{
	switch ((PolarOpenTransactionWal) polar_open_transaction_wal)
	{
		case POLAR_OPEN_WAL_IGNORE:
			return true;
		case POLAR_OPEN_WAL_REPORT:
			return XactLastRecEnd <= flushed_position();
		case POLAR_OPEN_WAL_FLUSH:
			XLogFlush(XactLastRecEnd);
			return true;
	}
	return false;
}

/* Appends marker and XIDs; nothing when there is nothing to say. */
static void
append_transaction(StringInfo body)
{
	FullTransactionId top_xid = GetTopFullTransactionIdIfAny();
	PolarTransactionState *state;
	Size		size;
	bool		splittable;

	if (!FullTransactionIdIsValid(top_xid))
		return;
	size = EstimateTransactionStateSpace();
	state = palloc0(size);
	SerializeTransactionState(size, (char *) state);
	if (!FullTransactionIdEquals(state->top_xid, top_xid) ||
		state->command_id != GetCurrentCommandId(false) || state->count < 1 ||
		offsetof(PolarTransactionState, xids) + state->count * sizeof(TransactionId) > size)
	{
		pfree(state);
		return;
	}
	splittable = state->count <= POLAR_MAX_XIDS && transaction_is_splittable() &&
		open_wal_is_flushed();
	appendStringInfoChar(body, splittable ? 'x' : 'w');
	appendStringInfo(body, "%u", state->command_id);
	/* Newest first, so that the top transaction comes last unless XIDs have wrapped. */
	if (state->count <= POLAR_MAX_XIDS)
		for (int i = state->count - 1; i >= 0; i--)
			appendStringInfo(body, ",%u", state->xids[i]);
	else
		appendStringInfo(body, ",%u", XidFromFullTransactionId(top_xid));
	appendStringInfoChar(body, '\0');
	pfree(state);
}

static int
tail_putmessage(char type, const char *bytes, size_t length)
{
	StringInfoData body;
	int			result;

	if (type != 'Z' || length != 1)
		return wire->putmessage(type, bytes, length);
	initStringInfo(&body);
	appendStringInfoChar(&body, bytes[0]);
	/* First the transaction: it may flush, and then the position is further. */
	if (tail_lsn)
		appendStringInfoSpaces(&body, sizeof(uint64));
	if (tail_xact && bytes[0] == 'T' && !RecoveryInProgress())
		append_transaction(&body);
	if (tail_lsn)
	{
		uint64		position = pg_hton64((uint64) reported_position());

		memcpy(body.data + 1, &position, sizeof(position));
	}
	result = wire->putmessage(type, body.data, body.len);
	pfree(body.data);
	return result;
}

static void
end_of_transaction(XactEvent event, void *argument)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		catalog_changed = false;
}

void
polar_ready_tail_install(bool send_lsn, bool send_xact)
{
	/* Replication clients know no tail. */
	if (am_walsender || IsParallelWorker())
		return;
	tail_lsn = send_lsn;
	tail_xact = send_xact;
	idle_enum_space = EstimateUncommittedEnumsSpace();
	if (send_xact)
		RegisterXactCallback(end_of_transaction, NULL);
	wire = PqCommMethods;
	tail_methods = *wire;
	tail_methods.putmessage = tail_putmessage;
	PqCommMethods = &tail_methods;
}

void
polar_ready_tail_init(void)
{
	DefineCustomEnumVariable("polar_proxy.open_transaction_wal",
							 "How ReadyForQuery treats unflushed WAL of an open transaction.",
							 "ignore: not looked at; report: marker w until it is flushed; flush: "
							 "flushed first.",
							 &polar_open_transaction_wal, POLAR_OPEN_WAL_IGNORE, open_wal_values,
							 PGC_SUSET, 0, NULL, NULL, NULL);
}
