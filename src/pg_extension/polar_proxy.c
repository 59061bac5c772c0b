/*
 * polar_proxy.c
 *		Entry point, hooks that several parts share, and the SQL functions.
 *
 * Must be in shared_preload_libraries: it needs shared memory, and the startup process must run the
 * redo functions through it (lsn_wait.c).
 */
#include "polar_proxy.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(polar_node_type);
PG_FUNCTION_INFO_V1(polar_is_available);
PG_FUNCTION_INFO_V1(polar_flush_xact);

void		_PG_init(void);

static bool polar_available = true;

static ProcessUtility_hook_type previous_utility = NULL;
static ExecutorStart_hook_type previous_executor_start = NULL;

static void
polar_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
			  ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv,
			  DestReceiver *dest, QueryCompletion *qc)
{
	/* Looked at before it runs: some statements end what holds their own tree. */
	Node	   *statement = pstmt->utilityStmt;
	const char *variable = IsA(statement, VariableSetStmt) ?
		((VariableSetStmt *) statement)->name : NULL;

	polar_note_utility(statement);
	if (previous_utility)
		previous_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest,
								qc);
	/*
	 * SET takes no snapshot and may throw, and it precedes every snapshot of the statements after
	 * it: the place to wait on a server without the snapshot hook.
	 */
	if (variable != NULL)
		polar_wait_after_set(variable);
}

/*
 * A target that came another way than by SET (set_config, role settings) is still open here. The
 * portal's snapshot is then too old, and is replaced where that is allowed: before the portal's
 * first step, under READ COMMITTED.
 */
static void
polar_executor_start(QueryDesc *queryDesc, int eflags)
{
	if (polar_wait_pending() && ActivePortal != NULL && ActivePortal->status == PORTAL_DEFINED &&
		ActiveSnapshotSet() && queryDesc->snapshot != InvalidSnapshot &&
		GetActiveSnapshot() == queryDesc->snapshot)
	{
		polar_wait_before_execution();
		if (!IsolationUsesXactSnapshot())
		{
			UnregisterSnapshot(queryDesc->snapshot);
			PopActiveSnapshot();
			PushActiveSnapshot(GetTransactionSnapshot());
			queryDesc->snapshot = RegisterSnapshot(GetActiveSnapshot());
		}
	}
	if (previous_executor_start)
		previous_executor_start(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("polar_proxy must be loaded via shared_preload_libraries")));

	DefineCustomBoolVariable("polar_proxy.available",
							 "What polar_is_available() answers: off takes the server out of use.",
							 NULL, &polar_available, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
	polar_startup_init();
	polar_ready_tail_init();
	polar_wait_init();
#ifdef POLAR_XID_IMPORT
	polar_import_init();
#endif
#if PG_VERSION_NUM >= 150000
	MarkGUCPrefixReserved("polar_proxy");
#else
	EmitWarningsOnPlaceholders("polar_proxy");
#endif

	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = polar_utility;
	previous_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = polar_executor_start;
}

Datum
polar_node_type(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(RecoveryInProgress() ? "replica" : "primary"));
}

Datum
polar_is_available(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(polar_available);
}

/*
 * Nothing flushes an open transaction's WAL, so replicas get it late (up to 20 s on a quiet
 * server). A proxy that is about to read elsewhere calls this first and waits for the position it
 * returns.
 */
Datum
polar_flush_xact(PG_FUNCTION_ARGS)
{
	XLogRecPtr	position = XactLastRecEnd;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery is in progress"),
				 errhint("polar_flush_xact() can be called on a primary only.")));
	if (position == InvalidXLogRecPtr)
		position = XactLastCommitEnd;
	else
		XLogFlush(position);
	PG_RETURN_LSN(position);
}
