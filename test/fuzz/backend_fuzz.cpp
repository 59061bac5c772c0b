// A stream of a server's messages: framing, then every parser on every body (their formats are
// alike enough that a body for one is a good try at another).
#include "Fuzz_Check.h"
#include "protocol/Backend_Messages.h"
#include "protocol/Frame_Reader.h"
#include "protocol/Message_Table.h"
#include "protocol/PgSQL_Error_Helper.h"

using namespace proxy;

namespace {

void check_row(std::span<const uint8_t> body) {
	Data_Row_Reader reader(body);
	std::optional<std::string_view> value;
	size_t bytes = 2;
	while (reader.next(value)) {
		bytes += 4 + (value ? value->size() : 0);
	}
	FUZZ_CHECK(!reader.ok() || bytes == body.size());
}

void check_tag(std::span<const uint8_t> body) {
	Command_Tag tag;
	if (parse(body, tag)) {
		FUZZ_CHECK(tag.tag.substr(0, tag.command.size()) == tag.command);
		FUZZ_CHECK(tag.has_rows || tag.command == tag.tag);
	}
}

void check_all(std::span<const uint8_t> body) {
	Error_Fields error;
	if (parse(body, error)) {
		(void)is_lsn_wait_timeout(error);
		(void)classify_sqlstate(error.sqlstate);
	}
	Parameter_Status_View status;
	(void)parse(body, status);
	Backend_Key_View key;
	(void)parse(body, key);
	Notification_View notification;
	(void)parse(body, notification);
	Copy_Response_View copy;
	(void)parse(body, copy);
	Negotiate_View negotiate;
	(void)parse(body, negotiate);
	Authentication_View authentication;
	(void)parse(body, authentication);
	(void)ready_status(body);
	(void)column_count(body);
	check_tag(body);
	check_row(body);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	constexpr uint32_t kMaxLength = 1 << 20;
	std::span<const uint8_t> rest(data, size);
	Frame frame;
	while (next_frame(rest, kMaxLength, frame) == Frame_Status::complete) {
		FUZZ_CHECK(frame.size <= rest.size());
		(void)message_name(Direction::backend, frame.type);
		check_all(frame.body);
		rest = rest.subspan(frame.size);
	}
	return 0;
}
