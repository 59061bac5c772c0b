// The running configuration, as snapshots that are swapped whole.
//
// main() owns the one Config_Store and hands references down. Service threads publish; workers
// compare version() with the one they hold at the top of a loop turn (Snapshot_Reader does it), so
// that one statement sees one configuration.
#pragma once

#include "base/Snapshot.h"
#include "config/Admin_Config.h"
#include "config/Pgsql_Config.h"

#include <memory>

namespace proxy {

class Config_Store {
public:
	// Starts with the defaults.
	Config_Store()
	    : pgsql_(std::make_shared<const Pgsql_Config>()),
	      admin_(std::make_shared<const Admin_Config>()) {}

	Snapshot<Pgsql_Config>& pgsql() { return pgsql_; }
	const Snapshot<Pgsql_Config>& pgsql() const { return pgsql_; }
	Snapshot<Admin_Config>& admin() { return admin_; }
	const Snapshot<Admin_Config>& admin() const { return admin_; }

private:
	Snapshot<Pgsql_Config> pgsql_;
	Snapshot<Admin_Config> admin_;
};

} // namespace proxy
