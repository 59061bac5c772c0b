// Foreign bytes into a whole admin session: framing, login, statement splitting, command matching.
// The statements end in a host that only looks at their text.
#include "admin/Admin_Session.h"
#include "admin/Admin_Text.h"
#include "protocol/Startup.h"

#include <cstdint>
#include <string>

namespace {
using namespace proxy;

class Looking_Host final : public Admin_Host {
public:
	Login find_login(std::string_view) override {
		Login login;
		login.known = true;
		login.secret = Secret("p");
		login.role = Admin_Role::admin;
		login.floor = Auth_Method::clear_text;
		return login;
	}
	Result<Admin_Answer> execute(const Admin_Client&, std::string_view statement) override {
		Admin_Answer answer;
		answer.result.columns = names_in(statement);
		answer.tag = first_word(statement);
		answer.notices.push_back(collapse(statement));
		answer.notices.push_back(without_stats_prefix(statement));
		answer.notices.push_back(unquote(statement));
		return answer;
	}
	void cancel(uint32_t, std::string_view) override {}
};
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	if (size == 0) {
		return 0;
	}
	Looking_Host host;
	Admin_Peer peer;
	peer.local = true;
	peer.key = "1234";
	Admin_Session session(host, peer);
	std::string out;
	const bool skip_login = (data[0] & 1) != 0;
	const size_t chunk = 1 + (data[0] >> 1);
	if (skip_login) {
		const Parameter_View parameters[] = {{"user", "u"}};
		std::string in;
		append_startup_message(in, 3, 0, parameters);
		in += std::string("p\0\0\0\x06p\0", 7);
		session.feed({reinterpret_cast<const uint8_t*>(in.data()), in.size()}, out);
	}
	for (size_t at = 1; at < size; at += chunk) {
		const size_t length = std::min(chunk, size - at);
		if (session.feed({data + at, length}, out) == Admin_Session::State::closed) {
			break;
		}
	}
	return 0;
}
