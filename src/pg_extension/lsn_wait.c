/*
 * lsn_wait.c
 *		The bounded wait for replay to reach a position.
 *
 * polar_xact_split_wait_lsn holds a target until a wait for it has succeeded, or has run out in
 * best_effort; SHOW is then empty. The wait happens before the next snapshot where the server calls
 * us there (POLAR_WAIT_HOOKS), otherwise right after the SET.
 *
 * Wake-up. PostgreSQL signals nobody per replayed record, so the startup process runs every redo
 * function through redo_and_publish(). It broadcasts when it has passed the lowest target waited
 * for. What a record did is visible by then: a commit's redo has updated the list of running
 * transactions. A waiter still looks by itself every POLAR_RECHECK_MS, which also notices a
 * promotion, and is all there is on 14, whose table of redo functions cannot be changed.
 */
#include "polar_proxy.h"

#include <limits.h>

#include "access/parallel.h"
#include "access/rmgr.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#if PG_VERSION_NUM >= 150000
#include "access/xlogrecovery.h"
#endif
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "tcop/tcopprot.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM >= 150000
#define POLAR_RECHECK_MS 100
#else
#define POLAR_RECHECK_MS 1
#endif

/* Body of the wait message: version, mode, flags, timeout, target. */
#define POLAR_WAIT_MESSAGE_BYTES 16
#define POLAR_WAIT_MESSAGE_VERSION 1

typedef struct
{
	pg_atomic_uint64 replayed;	/* written by the startup process only */
	pg_atomic_uint64 wake_at;	/* lowest target waited for, or PG_UINT64_MAX */
	ConditionVariable passed;
} PolarWaitShared;

typedef enum
{
	POLAR_WAIT_AT_SET,
	POLAR_WAIT_AT_SNAPSHOT
} PolarWaitPlace;

int			polar_consistency_mode = POLAR_BEST_EFFORT;
int			polar_wait_timeout_ms = 0;

static char *wait_lsn_text = NULL;
static XLogRecPtr pending_target = InvalidXLogRecPtr;
static PolarWaitShared *shared = NULL;

#ifdef POLAR_WAIT_HOOKS
static int	wait_place = POLAR_WAIT_AT_SNAPSHOT;
static const struct config_enum_entry place_values[] = {
	{"set", POLAR_WAIT_AT_SET, false},
	{"snapshot", POLAR_WAIT_AT_SNAPSHOT, false},
	{NULL, 0, false}
};
#else
static const int wait_place = POLAR_WAIT_AT_SET;
#endif

static const struct config_enum_entry mode_values[] = {
	{"best_effort", POLAR_BEST_EFFORT, false},
	{"strict", POLAR_STRICT, false},
	{NULL, 0, false}
};

#if PG_VERSION_NUM >= 150000
static void (*original_redo[RM_MAX_ID + 1]) (XLogReaderState *record);
static shmem_request_hook_type previous_shmem_request = NULL;
#endif
static shmem_startup_hook_type previous_shmem_startup = NULL;

#if PG_VERSION_NUM >= 150000
static void
redo_and_publish(XLogReaderState *record)
{
	uint64		wake_at;

	original_redo[XLogRecGetRmid(record)] (record);
	if (shared == NULL)
		return;
	pg_atomic_write_u64(&shared->replayed, record->EndRecPtr);
	/* Pairs with the exchange in lower_wake_at(): one of the two sees the other's write. */
	pg_memory_barrier();
	wake_at = pg_atomic_read_u64(&shared->wake_at);
	while (record->EndRecPtr >= wake_at)
	{
		if (pg_atomic_compare_exchange_u64(&shared->wake_at, &wake_at, PG_UINT64_MAX))
		{
			ConditionVariableBroadcast(&shared->passed);
			break;
		}
	}
}

static void
wrap_redo_functions(void)
{
	for (int id = 0; id <= RM_MAX_ID; id++)
	{
		if (RmgrTable[id].rm_name == NULL || RmgrTable[id].rm_redo == NULL)
			continue;
		original_redo[id] = RmgrTable[id].rm_redo;
		RmgrTable[id].rm_redo = redo_and_publish;
	}
}
#endif

static void
lower_wake_at(XLogRecPtr target)
{
	uint64		current = pg_atomic_read_u64(&shared->wake_at);

	while (target < current)
		if (pg_atomic_compare_exchange_u64(&shared->wake_at, &current, target))
			return;
	pg_memory_barrier();
}

/*
 * The end of the last record whose redo function has returned. The startup process tells the server
 * only a moment later, and a session whose wait has just ended must not see itself behind its
 * target.
 */
XLogRecPtr
polar_replayed_position(void)
{
	XLogRecPtr	published = pg_atomic_read_u64(&shared->replayed);
	XLogRecPtr	known = GetXLogReplayRecPtr(NULL);

	return Max(published, known);
}

static bool
replay_reached(XLogRecPtr target)
{
	return polar_replayed_position() >= target;
}

/* Milliseconds left, at most POLAR_RECHECK_MS; 0 or less when the time is over. */
static long
time_to_sleep_ms(TimestampTz deadline)
{
	long		left_ms;

	if (deadline == 0)
		return POLAR_RECHECK_MS;
	left_ms = (long) ((deadline - GetCurrentTimestamp() + 999) / 1000);
	return Min(left_ms, POLAR_RECHECK_MS);
}

/*
 * Returns once replay has reached the target; on a primary, when its WAL goes that far. Otherwise
 * the answer by mode: ERROR, or WARNING and return. Proxies recognize both by the DETAIL text and
 * by the name of this very function, which ereport() sends in field R.
 */
static void
polar_proxy_wait_for_lsn(XLogRecPtr target, PolarConsistencyMode mode, int timeout_ms)
{
	TimestampTz deadline = 0;
	const char *reason = "";
	XLogRecPtr	reached;

	if (RecoveryInProgress())
	{
		if (replay_reached(target))
			return;
		if (timeout_ms > 0)
			deadline = GetCurrentTimestamp() + (TimestampTz) timeout_ms * 1000;
		ConditionVariablePrepareToSleep(&shared->passed);
		while (RecoveryInProgress())
		{
			long		sleep_ms;

			lower_wake_at(target);
			if (replay_reached(target))
			{
				ConditionVariableCancelSleep();
				return;
			}
			sleep_ms = time_to_sleep_ms(deadline);
			if (sleep_ms <= 0)
				break;
			ConditionVariableTimedSleep(&shared->passed, sleep_ms, PG_WAIT_EXTENSION);
		}
		ConditionVariableCancelSleep();
		/* After a promotion the same number can name other WAL. */
		if (!RecoveryInProgress())
			reason = ", promoted while waiting";
	}
	else
	{
		if (GetXLogInsertRecPtr() >= target)
			return;
		reason = ", not in this primary's WAL";
	}
	reached = RecoveryInProgress() ? polar_replayed_position() : GetXLogInsertRecPtr();
	ereport(mode == POLAR_STRICT ? ERROR : WARNING,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("LSN wait timeout: target %X/%X, reached %X/%X%s", LSN_FORMAT_ARGS(target),
					LSN_FORMAT_ARGS(reached), reason),
			 errdetail_internal("polar_proxy_lsn_wait_timeout")));
}

bool
polar_wait_pending(void)
{
	return pending_target != InvalidXLogRecPtr;
}

/* A failed wait leaves the target: the next statement must not read as if it had been reached. */
static void
wait_for_pending(void)
{
	polar_proxy_wait_for_lsn(pending_target, (PolarConsistencyMode) polar_consistency_mode,
							 polar_wait_timeout_ms);
	pending_target = InvalidXLogRecPtr;
}

void
polar_wait_before_execution(void)
{
	if (polar_wait_pending())
		wait_for_pending();
}

void
polar_wait_after_set(const char *variable)
{
	if (wait_place == POLAR_WAIT_AT_SET && polar_wait_pending() &&
		pg_strcasecmp(variable, "polar_xact_split_wait_lsn") == 0)
		wait_for_pending();
}

#ifdef POLAR_WAIT_HOOKS
static void
wait_before_snapshot(void)
{
	if (polar_wait_pending() && wait_place == POLAR_WAIT_AT_SNAPSHOT)
		wait_for_pending();
}

/*
 * The frontend's wait message; it becomes part of the command after it and has no answer of its
 * own.
 */
static void
on_wait_message(StringInfo message)
{
	int			version;
	int			mode;
	int			flags;
	uint32		timeout_ms;
	XLogRecPtr	target;

	if (!polar_session_wait_message)
		ereport(FATAL,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("invalid frontend message type %d", 'W')));
	if (message->len != POLAR_WAIT_MESSAGE_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("invalid wait message length %d", message->len + 4)));
	version = pq_getmsgbyte(message);
	mode = pq_getmsgbyte(message);
	flags = pq_getmsgint(message, 2);
	timeout_ms = pq_getmsgint(message, 4);
	target = (XLogRecPtr) pq_getmsgint64(message);
	pq_getmsgend(message);
	if (version != POLAR_WAIT_MESSAGE_VERSION || mode > POLAR_STRICT || flags != 0 ||
		timeout_ms > INT_MAX || target == InvalidXLogRecPtr)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("invalid wait message: version %d, mode %d, flags %d, timeout %u, "
						"target %X/%X",
						version, mode, flags, timeout_ms, LSN_FORMAT_ARGS(target))));
	/* In a failed transaction the next command has an error of its own. */
	if (!IsAbortedTransactionBlockState())
		polar_proxy_wait_for_lsn(target, (PolarConsistencyMode) mode, (int) timeout_ms);
}
#endif

/* Decimal only: other kernels read "0/1" as 0 and would not wait at all. */
static bool
check_wait_lsn(char **newval, void **extra, GucSource source)
{
	const char *value = *newval;
	uint64	   *target = polar_guc_malloc(sizeof(uint64));
	char	   *end = NULL;

	if (target == NULL)
		return false;
	*target = InvalidXLogRecPtr;
	if (value[0] != '\0')
	{
		errno = 0;
		*target = strtoull(value, &end, 10);
		if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0)
		{
			GUC_check_errdetail("A WAL position is written as one decimal number here.");
			polar_guc_free(target);
			return false;
		}
	}
	*extra = target;
	return true;
}

static void
assign_wait_lsn(const char *newval, void *extra)
{
	/* The leader has waited; a worker must not, least of all after a best_effort timeout. */
	pending_target = (extra == NULL || IsParallelWorker()) ? InvalidXLogRecPtr :
		(XLogRecPtr) *(uint64 *) extra;
}

static const char *
show_wait_lsn(void)
{
	return polar_wait_pending() ? wait_lsn_text : "";
}

static void
wait_shmem_request(void)
{
#if PG_VERSION_NUM >= 150000
	if (previous_shmem_request)
		previous_shmem_request();
#endif
	RequestAddinShmemSpace(MAXALIGN(sizeof(PolarWaitShared)));
}

static void
wait_shmem_startup(void)
{
	bool		found;

	if (previous_shmem_startup)
		previous_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("polar_proxy", sizeof(PolarWaitShared), &found);
	if (!found)
	{
		pg_atomic_init_u64(&shared->replayed, 0);
		pg_atomic_init_u64(&shared->wake_at, PG_UINT64_MAX);
		ConditionVariableInit(&shared->passed);
	}
	LWLockRelease(AddinShmemInitLock);
}

void
polar_wait_init(void)
{
	DefineCustomEnumVariable("polar_consistency_mode",
							 "What happens when a wait for a WAL position runs out.",
							 "best_effort: a warning, then possibly old rows; strict: an error.",
							 &polar_consistency_mode, POLAR_BEST_EFFORT, mode_values,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("polar_proxy_wait_timeout_ms",
							"Bound of a wait for a WAL position; 0 is no bound.",
							NULL, &polar_wait_timeout_ms, 0, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomStringVariable("polar_xact_split_wait_lsn",
							   "WAL position (decimal) to be replayed before the next read.",
							   NULL, &wait_lsn_text, "", PGC_USERSET, 0,
							   check_wait_lsn, assign_wait_lsn, show_wait_lsn);
#ifdef POLAR_WAIT_HOOKS
	DefineCustomEnumVariable("polar_proxy.wait_place",
							 "Where a target that was set is waited for.",
							 "snapshot: before the next one; set: at once, as elsewhere.",
							 &wait_place, POLAR_WAIT_AT_SNAPSHOT, place_values, PGC_SUSET, 0,
							 NULL, NULL, NULL);
	transaction_snapshot_hook = wait_before_snapshot;
	wait_message_hook = on_wait_message;
#endif
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = wait_shmem_startup;
#if PG_VERSION_NUM >= 150000
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = wait_shmem_request;
	wrap_redo_functions();
#else
	wait_shmem_request();
#endif
}
