#include "admin/ProxySQL_Admin.h"

#include "admin/Admin_Core.h"
#include "admin/Admin_Server.h"
#include "admin/Admin_Turns.h"

#include <utility>

namespace proxy {

// What client threads may ask of the admin: each call waits for its turn and takes the mutex.
class ProxySQL_Admin::Host final : public Admin_Host {
public:
	explicit Host(ProxySQL_Admin& admin) : admin_(admin) {}

	Login find_login(std::string_view username) override {
		const Admin_Turn turn(*admin_.turns_, true);
		Lock lock(admin_.db_mu_);
		Login login;
		const Pgsql_Config& config = admin_.core_->pgsql_config();
		login.floor = static_cast<Auth_Method>(config.authentication_method);
		login.server_version = config.server_version;
		login.server_encoding = config.server_encoding;
		if (const Credential* found = admin_.core_->find_credential(username, login.role)) {
			login.known = true;
			login.secret = Secret(found->password);
		}
		return login;
	}

	Result<Admin_Answer> execute(const Admin_Client& client, std::string_view statement) override {
		const Admin_Turn turn(*admin_.turns_, client.role == Admin_Role::admin);
		Lock lock(admin_.db_mu_);
		// Relaxed: a flag only. It may have been raised while this thread waited for its turn.
		if (client.cancelled != nullptr && client.cancelled->load(std::memory_order_relaxed)) {
			return make_error("57014", "canceling statement due to user request");
		}
		Admin_Client in_turn = client;
		in_turn.waiting = &admin_.turns_->waiting();
		Result<Admin_Answer> answer = admin_.core_->execute(in_turn, statement);
		admin_.server_->set_login_timeout_ms(admin_.core_->pgsql_config().connect_timeout_client);
		return answer;
	}

	void cancel(uint32_t pid, std::string_view key) override { admin_.server_->cancel(pid, key); }

private:
	ProxySQL_Admin& admin_;
};

ProxySQL_Admin::ProxySQL_Admin(Runtime_Control& control, Admin_Options options)
    : turns_(std::make_unique<Admin_Turns>()),
      core_(std::make_unique<Admin_Core>(control, std::move(options))),
      host_(std::make_unique<Host>(*this)), server_(std::make_unique<Admin_Server>(*host_)) {}

ProxySQL_Admin::~ProxySQL_Admin() {
	stop();
}

Result<void> ProxySQL_Admin::open() {
	Lock lock(db_mu_);
	return core_->open();
}

Result<void> ProxySQL_Admin::load_all_to_runtime() {
	Lock lock(db_mu_);
	return core_->load_all_to_runtime();
}

Result<void> ProxySQL_Admin::keep_configuration() {
	Lock lock(db_mu_);
	return core_->keep_configuration();
}

Result<void> ProxySQL_Admin::start_listening() {
	Lock lock(db_mu_);
	Result<std::vector<Listen_Address>> addresses =
	    parse_listen_list(core_->admin_config().pgsql_ifaces);
	if (!addresses.ok()) {
		return addresses.take_error();
	}
	server_->set_login_timeout_ms(core_->pgsql_config().connect_timeout_client);
	PROXY_TRY(server_->listen_on(addresses.value()));
	PROXY_TRY(server_->start());
	core_->on_rebind(
	    [this](const std::vector<Listen_Address>& changed) { return server_->listen_on(changed); });
	return {};
}

void ProxySQL_Admin::stop() {
	server_->stop();
}

Variable_Map ProxySQL_Admin::pgsql_variables() {
	Lock lock(db_mu_);
	Result<Variable_Map> values = core_->variables_in("main", "pgsql-");
	return values.ok() ? values.take() : Variable_Map();
}

Variable_Map ProxySQL_Admin::admin_variables() {
	Lock lock(db_mu_);
	Result<Variable_Map> values = core_->variables_in("main", "admin-");
	return values.ok() ? values.take() : Variable_Map();
}

std::vector<std::string> ProxySQL_Admin::listening() const {
	return server_->addresses();
}

Result<Stats_Rows> ProxySQL_Admin::run_for_test(std::string_view statement) {
	Lock lock(db_mu_);
	Result<Admin_Answer> answer = core_->execute(Admin_Client{}, statement);
	if (!answer.ok()) {
		return answer.take_error();
	}
	return std::move(answer.value().result.rows);
}

} // namespace proxy
