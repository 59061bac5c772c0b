#include "protocol/Ready_Tail.h"

#include "base/Span_Reader.h"

namespace proxy {

namespace {

// Numbers with single commas between them, or nothing.
bool is_xid_list(std::string_view text) {
	bool number_open = false;
	for (const char c : text) {
		if (c >= '0' && c <= '9') {
			number_open = true;
		} else if (c == ',' && number_open) {
			number_open = false;
		} else {
			return false;
		}
	}
	return text.empty() || number_open;
}

} // namespace

Ready_Tail parse_ready_tail(std::span<const uint8_t> body, Tail_Request request) {
	constexpr size_t kLsnBytes = 8;
	Ready_Tail tail;
	Span_Reader reader(body);
	reader.u8(); // status
	if (request.lsn && reader.ok() && reader.remaining() >= kLsnBytes) {
		tail.lsn = reader.u64();
		tail.lsn_state = tail.lsn == 0 ? Lsn_State::zero : Lsn_State::positioned;
	}
	if (request.xact && reader.ok() && reader.remaining() > 0) {
		const char marker = static_cast<char>(reader.u8());
		const std::string_view xids = reader.cstring();
		if (!reader.ok() || !is_xid_list(xids)) {
			return tail;
		}
		if (marker == 'x' || marker == 'w') {
			tail.marker = marker == 'x' ? Split_Marker::splittable : Split_Marker::wal_pending;
			tail.xids = xids;
		}
	}
	return tail;
}

} // namespace proxy
