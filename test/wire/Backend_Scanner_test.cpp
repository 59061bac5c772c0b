// Backend_Scanner: the same messages and the same forwarded bytes wherever the reads cut them.
#include "Wire_Kit.h"
#include "forward/Backend_Scanner.h"

namespace proxy::wire {

namespace {

// Notes what it is shown; hides the types it is told to. Views are copied when they come, since
// they are valid only until scan() returns.
struct Sink {
	std::string hidden_types;
	std::string out;
	std::string shown;            // type and body of each message
	std::string rows;             // type of each row
	size_t stop_after = SIZE_MAX; // bytes of output

	Message_Fate fate(char type) const {
		return hidden_types.find(type) == std::string::npos ? Message_Fate::forward
		                                                    : Message_Fate::hide;
	}
	Message_Fate on_message(char type, std::span<const uint8_t> body) {
		shown += type;
		shown.append(reinterpret_cast<const char*>(body.data()), body.size());
		return fate(type);
	}
	Message_Fate on_row(char type) {
		rows += type;
		return fate(type);
	}
	bool emit(const char* bytes, size_t length) {
		out.append(bytes, length);
		return out.size() <= stop_after;
	}
	bool emit_copy(std::string_view bytes) { return emit(bytes.data(), bytes.size()); }
};

// In its own memory, so that a read beyond its end is seen by the address sanitizer.
bool scan(Backend_Scanner& scanner, std::string_view bytes, Sink& sink) {
	const std::vector<char> own(bytes.begin(), bytes.end());
	return scanner.scan(own.data(), own.size(), sink);
}

// One of each message that a server sends behind its login, and some twice.
std::vector<std::string> all_messages() {
	return {kParseComplete,
	        kBindComplete,
	        message('t', u16(1) + u32(23)),
	        columns("balance"),
	        row("a"),
	        row(""),
	        row(std::string(300, 'r')),
	        complete("SELECT 3"),
	        notice("take care"),
	        parameter("TimeZone", "UTC"),
	        message('A', u32(7) + text("channel") + text("payload")),
	        message('I'),
	        message('s'),
	        kNoData,
	        kCloseComplete,
	        message('G', '\0' + u16(0)),
	        message('H', '\0' + u16(1) + u16(0)),
	        message('d', "copied data"),
	        message('d'),
	        message('c'),
	        message('V', u32(0xffffffffU)),
	        error("42P01", "relation \"x\" does not exist"),
	        ready('I'),
	        ready('T', lsn_tail(0x1234567890abcdefU)),
	        ready('E', lsn_tail(1) + "x" + text("3,700,701"))};
}

std::string joined(const std::vector<std::string>& messages) {
	std::string all;
	for (const std::string& one : messages) {
		all += one;
	}
	return all;
}

Sink whole(const std::string& bytes, const std::string& hidden) {
	Backend_Scanner scanner;
	Sink sink;
	sink.hidden_types = hidden;
	REQUIRE(scan(scanner, bytes, sink));
	REQUIRE(scanner.between_messages());
	return sink;
}

void check_same(const Sink& sink, const Sink& expected) {
	CHECK_BYTES(sink.out, expected.out);
	CHECK_BYTES(sink.shown, expected.shown);
	CHECK(sink.rows == expected.rows);
}

} // namespace

TEST_CASE("every message is forwarded as it came") {
	const std::string bytes = joined(all_messages());
	const Sink sink = whole(bytes, "");
	CHECK_BYTES(sink.out, bytes);
	CHECK(sink.rows == "DDDdd");
	std::string bodies;
	for (const std::string& one : all_messages()) {
		if (one[0] != 'D' && one[0] != 'd') {
			bodies += one[0] + one.substr(5);
		}
	}
	CHECK_BYTES(sink.shown, bodies);
}

TEST_CASE("hidden messages leave no byte behind") {
	std::string expected;
	for (const std::string& one : all_messages()) {
		if (one[0] != 'Z' && one[0] != 'D' && one[0] != '2') {
			expected += one;
		}
	}
	CHECK_BYTES(whole(joined(all_messages()), "ZD2").out, expected);
}

TEST_CASE("a cut at any offset changes nothing") {
	const std::string bytes = joined(all_messages());
	for (const std::string hidden : {"", "ZD2", "EdCST"}) {
		const Sink expected = whole(bytes, hidden);
		for (size_t cut = 0; cut <= bytes.size(); ++cut) {
			Backend_Scanner scanner;
			Sink sink;
			sink.hidden_types = hidden;
			REQUIRE(scan(scanner, bytes.substr(0, cut), sink));
			REQUIRE(scan(scanner, bytes.substr(cut), sink));
			REQUIRE(scanner.between_messages());
			INFO("cut at " << cut);
			check_same(sink, expected);
		}
	}
}

TEST_CASE("two cuts at any offsets of a message change nothing") {
	for (const std::string& one : all_messages()) {
		if (one.size() > 60) {
			continue; // the square of it
		}
		const std::string bytes = one + kBindComplete + one;
		const Sink expected = whole(bytes, "");
		for (size_t first = 0; first <= bytes.size(); ++first) {
			for (size_t second = first; second <= bytes.size(); ++second) {
				Backend_Scanner scanner;
				Sink sink;
				REQUIRE(scan(scanner, bytes.substr(0, first), sink));
				REQUIRE(scan(scanner, bytes.substr(first, second - first), sink));
				REQUIRE(scan(scanner, bytes.substr(second), sink));
				INFO("cuts at " << first << " and " << second << " of " << one[0]);
				check_same(sink, expected);
			}
		}
	}
}

TEST_CASE("pieces of any size change nothing") {
	const std::string bytes = joined(all_messages());
	for (const std::string hidden : {"", "ZE1"}) {
		const Sink expected = whole(bytes, hidden);
		for (size_t piece = 1; piece < 70; ++piece) {
			Backend_Scanner scanner;
			Sink sink;
			sink.hidden_types = hidden;
			for (size_t at = 0; at < bytes.size(); at += piece) {
				REQUIRE(scan(scanner, bytes.substr(at, piece), sink));
			}
			INFO("pieces of " << piece);
			check_same(sink, expected);
			CHECK(scanner.between_messages());
		}
	}
}

TEST_CASE("a row goes out before its end is there") {
	Backend_Scanner scanner;
	Sink sink;
	const std::string big = row(std::string(100'000, 'x'));
	REQUIRE(scan(scanner, big.substr(0, 1000), sink));
	CHECK_BYTES(sink.out, big.substr(0, 1000));
	CHECK_FALSE(scanner.between_messages());
	REQUIRE(scan(scanner, big.substr(1000), sink));
	CHECK_BYTES(sink.out, big);
	CHECK(scanner.between_messages());
	CHECK(sink.rows == "D");
}

TEST_CASE("a message that is no row waits for its end") {
	Backend_Scanner scanner;
	Sink sink;
	const std::string one = error("XX000", "long enough to be cut");
	REQUIRE(scan(scanner, one.substr(0, one.size() - 1), sink));
	CHECK_BYTES(sink.out, "");
	CHECK(sink.shown.empty());
	CHECK_FALSE(scanner.between_messages());
	REQUIRE(scan(scanner, one.substr(one.size() - 1), sink));
	CHECK_BYTES(sink.out, one);
}

TEST_CASE("lengths that cannot be are refused, however they are cut") {
	for (const char type : {'D', 'd', 'C', 'Z', 'E'}) {
		for (const uint32_t length :
		     {0U, 1U, 3U, 0x40000000U, 0x7fffffffU, 0x80000000U, 0xffffffffU}) {
			const std::string header = type + u32(length);
			for (size_t cut = 0; cut <= header.size(); ++cut) {
				Backend_Scanner scanner;
				Sink sink;
				const bool first = scan(scanner, header.substr(0, cut), sink);
				const bool second = first && scan(scanner, header.substr(cut) + "rest", sink);
				INFO(type << " with length " << length << " cut at " << cut);
				CHECK_FALSE(second);
				CHECK_BYTES(sink.out, "");
			}
		}
	}
}

TEST_CASE("only rows may be longer than a control message") {
	for (const uint32_t length : {64U * 1024 * 1024 + 1, 0x3fffffffU}) {
		for (size_t cut = 0; cut <= 5; ++cut) {
			const std::string control = 'C' + u32(length);
			Backend_Scanner scanner;
			Sink sink;
			CHECK_FALSE((scan(scanner, control.substr(0, cut), sink) &&
			             scan(scanner, control.substr(cut) + "x", sink)));
			const std::string big = 'D' + u32(length);
			Backend_Scanner rows;
			CHECK(scan(rows, big.substr(0, cut), sink));
			CHECK(scan(rows, big.substr(cut) + "x", sink));
			CHECK_FALSE(rows.between_messages());
		}
	}
}

TEST_CASE("a sink that cannot take more stops the walk") {
	const std::string bytes = joined(all_messages());
	for (size_t piece : {size_t{3}, bytes.size()}) {
		Backend_Scanner scanner;
		Sink sink;
		sink.stop_after = 50;
		bool going = true;
		for (size_t at = 0; at < bytes.size() && going; at += piece) {
			going = scan(scanner, bytes.substr(at, piece), sink);
		}
		CHECK_FALSE(going);
	}
}

TEST_CASE("reset forgets a message that was cut") {
	Backend_Scanner scanner;
	Sink sink;
	REQUIRE(scan(scanner, row("cut").substr(0, 8), sink));
	scanner.reset();
	CHECK(scanner.between_messages());
	REQUIRE(scan(scanner, error("XX000", "cut").substr(0, 9), sink));
	scanner.reset();
	sink = Sink();
	REQUIRE(scan(scanner, ready('I'), sink));
	CHECK_BYTES(sink.out, ready('I'));
}

TEST_CASE("neighbouring pieces are joined, others are not") {
	const std::string bytes = "abcdef";
	Output_Pieces pieces;
	CHECK(pieces.add(bytes.data(), 0));
	CHECK(pieces.count() == 0);
	CHECK(pieces.add(bytes.data(), 2));
	CHECK(pieces.add(bytes.data() + 2, 2));
	CHECK(pieces.count() == 1);
	CHECK(pieces.data()[0].iov_len == 4);
	CHECK(pieces.add(bytes.data() + 5, 1));
	CHECK(pieces.count() == 2);
	while (pieces.count() < Output_Pieces::kMax) {
		REQUIRE(pieces.add(bytes.data(), 1));
	}
	CHECK_FALSE(pieces.add(bytes.data() + 3, 1));
	CHECK(pieces.add(bytes.data() + 1, 1)); // a neighbour has room still
	pieces.clear();
	CHECK(pieces.add(bytes.data(), 1));
	CHECK(pieces.count() == 1);
}

} // namespace proxy::wire
