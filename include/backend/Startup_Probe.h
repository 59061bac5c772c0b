// Asks a server whether it takes a client's startup parameters, by a login with them. Blocks: for
// service threads only.
#pragma once

#include "backend/PgSQL_Connection.h"

#include <map>
#include <optional>
#include <string>

namespace proxy {

struct Startup_Verdict {
	std::optional<Error> refusal; // of the parameters, not of the login
	bool accepted = false;        // neither: no server could be asked
	// As the server spells them, by name in lower case: those of the asked that it reports.
	std::map<std::string, std::string> reported;
};

Startup_Verdict probe_startup(Connect_Request request,
                              const std::map<std::string, std::string>& parameters,
                              int64_t timeout_ms);

} // namespace proxy
