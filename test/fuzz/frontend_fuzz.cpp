// A stream of a client's messages: framing, then every parser on its own message's body.
#include "Fuzz_Check.h"
#include "protocol/Frame_Reader.h"
#include "protocol/Frontend_Messages.h"
#include "protocol/Message_Table.h"

#include <string>

using namespace proxy;

namespace {

constexpr uint32_t kMaxLength = 1 << 20;

template <typename View> bool parses(std::span<const uint8_t> body, View& view) {
	return parse(body, view);
}

// What append_* writes for a view must be the frame it came from.
void check_same(const Frame& frame, const std::string& written) {
	Frame again;
	const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(written.data()),
	                                     written.size());
	FUZZ_CHECK(next_frame(bytes, kMaxLength, again) == Frame_Status::complete);
	FUZZ_CHECK(again.size == written.size());
	FUZZ_CHECK(again.type == frame.type);
	FUZZ_CHECK(std::string(again.body.begin(), again.body.end()) ==
	           std::string(frame.body.begin(), frame.body.end()));
}

void check_extended(const Frame& frame) {
	std::string written;
	Parse_View parse_view;
	Bind_View bind;
	Describe_View describe;
	Close_View close;
	switch (frame.type) {
	case 'P':
		if (parses(frame.body, parse_view)) {
			for (size_t i = 0; i < parse_view.parameter_types.size(); ++i) {
				(void)parse_view.parameter_types[i];
			}
			append_parse(written, parse_view.statement, parse_view.sql, parse_view.parameter_types);
			check_same(frame, written);
		}
		break;
	case 'B':
		if (parses(frame.body, bind)) {
			append_bind_renamed(written, bind, bind.statement);
			check_same(frame, written);
		}
		break;
	case 'D':
		if (parses(frame.body, describe)) {
			append_describe(written, describe.kind, describe.name);
			check_same(frame, written);
		}
		break;
	case 'C':
		if (parses(frame.body, close)) {
			append_close(written, close.kind, close.name);
			check_same(frame, written);
		}
		break;
	default:
		break;
	}
}

void check_other(const Frame& frame) {
	std::string written;
	Query_View query;
	Execute_View execute;
	Function_Call_View call;
	Copy_Fail_View fail;
	Password_View password;
	Wait_View wait;
	switch (frame.type) {
	case 'Q':
		if (parses(frame.body, query)) {
			append_query(written, query.sql);
			check_same(frame, written);
		}
		break;
	case 'E':
		(void)parses(frame.body, execute);
		break;
	case 'F':
		(void)parses(frame.body, call);
		break;
	case 'f':
		(void)parses(frame.body, fail);
		break;
	case 'p':
		(void)parses(frame.body, password);
		break;
	case 'W':
		if (parses(frame.body, wait)) {
			append_wait(written, wait);
			check_same(frame, written);
		}
		break;
	default:
		break;
	}
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	std::span<const uint8_t> rest(data, size);
	for (;;) {
		Frame frame;
		if (next_frame(rest, kMaxLength, frame) != Frame_Status::complete) {
			return 0;
		}
		FUZZ_CHECK(frame.size <= rest.size());
		(void)message_length_ok(Direction::frontend, frame.type,
		                        static_cast<uint32_t>(frame.size - 1));
		check_extended(frame);
		check_other(frame);
		rest = rest.subspan(frame.size);
	}
}
