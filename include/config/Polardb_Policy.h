// The routing policies of the pgsql-polardb_ variables as enums. Plain values, no owner.
#pragma once

#include "config/Config_Rows.h"

#include <cstdint>

namespace proxy {

enum class Read_Target : uint8_t { primary, replica };
enum class Read_Fallback_Action : uint8_t { primary, error };
enum class Missing_Lsn_Action : uint8_t { primary, warning, error };
enum class Lsn_Timeout_Action : uint8_t { warning, primary, error, disconnect };
enum class Replica_Error_Action : uint8_t { primary, error, disconnect };
enum class Replica_Loss_Action : uint8_t {
	replica_then_primary,
	replica_then_error,
	primary,
	error,
	disconnect,
};
enum class Proxy_Identity_Mode : uint8_t { client, proxy };

struct Polardb_Policy {
	Consistency_Mode consistency_mode = Consistency_Mode::session_lsn; // never inherit
	Read_Target read_target = Read_Target::replica;
	Read_Fallback_Action read_fallback = Read_Fallback_Action::primary;
	Missing_Lsn_Action missing_lsn = Missing_Lsn_Action::primary;
	Lsn_Timeout_Action lsn_timeout = Lsn_Timeout_Action::primary;
	Replica_Error_Action replica_error = Replica_Error_Action::primary;
	Replica_Loss_Action replica_loss = Replica_Loss_Action::replica_then_primary;
	Proxy_Protocol proxy_protocol = Proxy_Protocol::v15; // never inherit
	Proxy_Identity_Mode identity_mode = Proxy_Identity_Mode::proxy;
};

} // namespace proxy
