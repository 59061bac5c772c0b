#include "Wire_Test.h"
#include "protocol/Frontend_Messages.h"
#include "protocol/PgSQL_Protocol.h"

using namespace proxy;

TEST_CASE("a frame is complete with its last byte and not before") {
	std::string message;
	append_query(message, "SELECT 1");
	for (size_t length = 0; length < message.size(); ++length) {
		Frame frame;
		frame.type = '?';
		CHECK(next_frame(as_span(message).first(length), 100, frame) == Frame_Status::incomplete);
		CHECK(frame.type == '?');
	}
	Frame frame;
	REQUIRE(next_frame(as_span(message), 100, frame) == Frame_Status::complete);
	CHECK(frame.type == 'Q');
	CHECK(frame.size == message.size());
	CHECK(frame.body.size() == message.size() - kFrameHeaderBytes);
}

TEST_CASE("lengths below 4 and above the limit are malformed as soon as the header is there") {
	struct Case {
		std::string header;
		Frame_Status expected;
	};
	const std::vector<Case> cases = {
	    {raw("Q\0\0\0\0"), Frame_Status::malformed},
	    {raw("Q\0\0\0\3"), Frame_Status::malformed},
	    {raw("Q\xff\xff\xff\xff"), Frame_Status::malformed},
	    {raw("Q\x80\0\0\0"), Frame_Status::malformed},
	    {raw("Q\x7f\xff\xff\xff"), Frame_Status::malformed},
	    {raw("Q\0\0\0\x0b"), Frame_Status::malformed},
	    {raw("Q\0\0\0\x0a"), Frame_Status::incomplete},
	    {raw("S\0\0\0\4"), Frame_Status::complete},
	};
	for (const Case& one : cases) {
		Frame frame;
		INFO(static_cast<int>(one.header[4]));
		CHECK(next_frame(as_span(one.header), 10, frame) == one.expected);
	}
}

TEST_CASE("a header can be read while its body is on its way") {
	Frame_Header header;
	CHECK(next_header(as_span(raw("d\0\x10\0\0")), kMaxFrameLength, header) ==
	      Frame_Status::complete);
	CHECK(header.type == 'd');
	CHECK(header.body_size() == 0x100000 - 4);
	CHECK(header.size() == 0x100000 + 1);
}

TEST_CASE("a stream cut anywhere gives the same frames") {
	std::string stream;
	append_parse(stream, "s1", "SELECT $1");
	append_bind_empty(stream, "", "s1");
	append_describe(stream, Target_Kind::portal, "");
	append_execute(stream, "", 0);
	append_sync(stream);
	append_query(stream, "");
	const std::string expected = "PBDESQ";
	for (size_t cut = 0; cut <= stream.size(); ++cut) {
		std::string types;
		std::string buffer;
		for (const std::string_view piece :
		     {std::string_view(stream).substr(0, cut), std::string_view(stream).substr(cut)}) {
			buffer.append(piece);
			Frame frame;
			while (next_frame(as_span(buffer), 1000, frame) == Frame_Status::complete) {
				types.push_back(frame.type);
				buffer.erase(0, frame.size);
			}
		}
		CHECK(types == expected);
		CHECK(buffer.empty());
	}
}
