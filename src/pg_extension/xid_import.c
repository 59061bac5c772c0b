/*
 * xid_import.c
 *		Reading another server's open transaction on a hot standby; test kernel only.
 *
 * polar_xact_split_xids = 'cid,xid,xid,...' makes this transaction treat the XIDs as its own, so
 * that it sees what the primary's open transaction has done so far. It acts until the transaction
 * ends, whatever the setting's own lifetime, and is undone by ROLLBACK TO like any setting. Nobody
 * may do this but a proxied session or a superuser: it reads what others have not committed.
 *
 * A list must be current: one taken before later writes of its transaction can show wrong rows.
 */
#include "polar_proxy.h"

#ifdef POLAR_XID_IMPORT

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "executor/executor.h"
#include "miscadmin.h"

/* A parsed value. The kernel points into it while it is the current value of the setting. */
typedef struct
{
	uint64		transaction;	/* the one of ours it was set in */
	CommandId	command_id;
	int			count;
	TransactionId xids[FLEXIBLE_ARRAY_MEMBER];
} PolarImport;

static char *import_text = NULL;

/* Counts this backend's transactions: a value left over from an earlier one must not act again. */
static uint64 current_transaction = 1;

static ExecutorRun_hook_type previous_executor_run = NULL;

bool
polar_import_active(void)
{
	return ForeignCurrentXidsActive();
}

static int
compare_xids(const void *left, const void *right)
{
	TransactionId a = *(const TransactionId *) left;
	TransactionId b = *(const TransactionId *) right;

	return (a > b) - (a < b);
}

/* Parses one number up to a comma or the end; NULL when it is none, and the reason is reported. */
static const char *
parse_number(const char *cursor, uint64 *number)
{
	char	   *end;

	while (*cursor == ' ')
		cursor++;
	if (*cursor < '0' || *cursor > '9')
	{
		if (*cursor == ',' || *cursor == '\0')
			GUC_check_errmsg("polar_xact_split_xids is not an valid xid array: %s", cursor);
		else
		{
			GUC_check_errcode(ERRCODE_INVALID_TEXT_REPRESENTATION);
			GUC_check_errmsg("invalid input syntax for type xid: \"%s\"", cursor);
		}
		return NULL;
	}
	errno = 0;
	*number = strtoull(cursor, &end, 10);
	if (errno != 0)
	{
		GUC_check_errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE);
		GUC_check_errmsg("value \"%s\" is out of range for type xid", cursor);
		return NULL;
	}
	while (*end == ' ')
		end++;
	if (*end != ',' && *end != '\0')
	{
		GUC_check_errcode(ERRCODE_INVALID_TEXT_REPRESENTATION);
		GUC_check_errmsg("invalid input syntax for type xid: \"%s\"", cursor);
		return NULL;
	}
	return end;
}

static PolarImport *
parse_import(const char *cursor)
{
	int			capacity = 1;
	PolarImport *import;
	uint64		number;

	for (const char *c = cursor; *c != '\0'; c++)
		capacity += *c == ',';
	import = polar_guc_malloc(offsetof(PolarImport, xids) + capacity * sizeof(TransactionId));
	if (import == NULL)
		return NULL;
	import->transaction = current_transaction;
	import->count = -1;			/* the first number is the command id */
	for (;; cursor++)
	{
		cursor = parse_number(cursor, &number);
		if (cursor == NULL)
		{
			polar_guc_free(import);
			return NULL;
		}
		/* 64-bit XIDs carry an epoch, which a running server's XIDs do not need. */
		if (import->count++ < 0)
			import->command_id = (CommandId) number;
		else
			import->xids[import->count - 1] = (TransactionId) number;
		if (*cursor == '\0')
			break;
	}
	if (import->count == 0)
	{
		GUC_check_errmsg("polar_xact_split_xids is too short.");
		polar_guc_free(import);
		return NULL;
	}
	qsort(import->xids, import->count, sizeof(TransactionId), compare_xids);
	return import;
}

static bool
check_import(char **newval, void **extra, GucSource source)
{
	/* A worker gets the leader's value, which does not act there. */
	if ((*newval)[0] == '\0' || IsParallelWorker())
		return true;
	GUC_check_errcode(ERRCODE_INTERNAL_ERROR);
	if (!RecoveryInProgress())
	{
		GUC_check_errmsg("Unable to start xact split in primary");
		return false;
	}
	/* An implicit block of several statements in one message counts as begun. */
	if (source != PGC_S_SESSION || !IsTransactionBlock())
	{
		GUC_check_errmsg("Unable to start xact split without begin");
		return false;
	}
	if (!polar_session_proxied && !superuser())
	{
		GUC_check_errcode(ERRCODE_INSUFFICIENT_PRIVILEGE);
		GUC_check_errmsg("permission denied to set parameter \"polar_xact_split_xids\"");
		GUC_check_errhint("Only proxied sessions and superusers may set it.");
		return false;
	}
	*extra = parse_import(*newval);
	return *extra != NULL;
}

/*
 * Also called for each end of a SET LOCAL, a savepoint, or a transaction, with the value before it.
 */
static void
assign_import(const char *newval, void *extra)
{
	PolarImport *import = extra;

	if (IsParallelWorker())
		return;
	if (import != NULL && import->transaction == current_transaction)
		SetForeignCurrentXids(import->count, import->xids, import->command_id);
	else
		SetForeignCurrentXids(0, NULL, 0);
}

/* Empty, as in PolarDB: other people's XIDs are nobody's business. */
static const char *
show_import(void)
{
	return "";
}

/* Comes before the settings are put back, so that no value survives as an import. */
static void
end_of_transaction(XactEvent event, void *argument)
{
	if (IsParallelWorker() ||
		(event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE))
		return;
	current_transaction++;
	SetForeignCurrentXids(0, NULL, 0);
}

/* With a row limit the executor runs a parallel plan without workers. */
static void
import_executor_run(QueryDesc *queryDesc, ScanDirection direction, uint64 count
#if PG_VERSION_NUM < 180000
					,bool execute_once
#endif
)
{
	if (count == 0 && polar_import_active())
		count = PG_INT64_MAX;
#if PG_VERSION_NUM < 180000
	if (previous_executor_run)
		previous_executor_run(queryDesc, direction, count, execute_once);
	else
		standard_ExecutorRun(queryDesc, direction, count, execute_once);
#else
	if (previous_executor_run)
		previous_executor_run(queryDesc, direction, count);
	else
		standard_ExecutorRun(queryDesc, direction, count);
#endif
}

void
polar_import_init(void)
{
	DefineCustomStringVariable("polar_xact_split_xids",
							   "Open transaction of the primary to read from: command id and XIDs.",
							   NULL, &import_text, "", PGC_USERSET, 0,
							   check_import, assign_import, show_import);
	RegisterXactCallback(end_of_transaction, NULL);
	previous_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = import_executor_run;
}

#endif							/* POLAR_XID_IMPORT */
