// Watches the servers: alive, primary or replica, how far behind, what they can do. Writes
// Server_Health and tells PgSQL_HostGroups_Manager.
//
// One thread with one non-blocking connection a server, so that ten thousand servers need no more
// threads than two. A second thread resolves names, because that blocks. The thread also does the
// pool's housekeeping (idle connections, recovery of shunned servers), with checks switched off
// too.
#pragma once

#include "config/Pgsql_Config.h"
#include "monitor/Check_Log.h"
#include "pool/PgSQL_HostGroups_Manager.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace proxy {

class PgSQL_Monitor final : public Connect_Error_Listener {
public:
	// `manager` must outlive the monitor. Registers itself as its connect error listener.
	explicit PgSQL_Monitor(PgSQL_HostGroups_Manager& manager);
	~PgSQL_Monitor(); // stops
	PgSQL_Monitor(const PgSQL_Monitor&) = delete;
	PgSQL_Monitor& operator=(const PgSQL_Monitor&) = delete;

	// Any thread; shorter intervals count at once.
	void set_config(std::shared_ptr<const Pgsql_Config> config);
	// Configured before; ends within a second after stop().
	void start();
	void stop();

	// Traffic met a connection-level failure, or a write was refused by a read-only server: looks
	// at the server at once. Any thread, never blocks.
	void check_now(const std::string& hostname, int port);
	void on_connect_error(const std::string& hostname, int port) override {
		check_now(hostname, port);
	}

	std::vector<Check_Log_Row> connect_log() const;
	std::vector<Check_Log_Row> ping_log() const;
	std::vector<Check_Log_Row> read_only_log() const;
	std::vector<Check_Log_Row> replication_lag_log() const;
	// PgSQL_Monitor_* rows of stats_pgsql_global.
	std::vector<std::pair<std::string, uint64_t>> counters() const;

private:
	class Impl;
	std::unique_ptr<Impl> impl_;
};

} // namespace proxy
