// What PolarDB kernels add to ReadyForQuery after the status byte: an LSN, and inside a transaction
// that has written its XIDs. Nothing on the wire tells the parts apart, so they are read by what
// this connection asked for at startup, never by length. Pure.
//
//   status | [8 bytes LSN]        when asked for and at least 8 bytes are left
//          | ['x' or 'w', XIDs, NUL]  when asked for and a byte is left
//          | unknown bytes, ignored
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace proxy {

// Three states that must not be merged: after a write, zero means "position unknown" and missing
// means "this server does not tell".
enum class Lsn_State : uint8_t { missing, zero, positioned };

// splittable ('x'): all WAL of the transaction is flushed, its XIDs may be used on a replica.
// wal_pending ('w'): not now. none: no tail, or one that is not well formed.
enum class Split_Marker : uint8_t { none, splittable, wal_pending };

// Which parts this connection asked for when it was opened.
struct Tail_Request {
	bool lsn = false;
	bool xact = false;
};

struct Ready_Tail {
	Lsn_State lsn_state = Lsn_State::missing;
	uint64_t lsn = 0; // as sent, not normalised
	Split_Marker marker = Split_Marker::none;
	// "cmdId,xid,xid..." or empty (nothing written yet). Only digits and commas, so it may be put
	// into an SQL literal as it is. Points into the body.
	std::string_view xids;
};

// `body` is the whole ReadyForQuery body, status byte included.
Ready_Tail parse_ready_tail(std::span<const uint8_t> body, Tail_Request request);

// An LSN read right after a page header was written counts the header as position: the same WAL is
// replayed up to 24 bytes before it (40 at the start of a segment). Without this a replica that has
// everything looks behind. `wal_segment_size` in bytes; 0: unknown, only the page rule.
inline constexpr uint64_t normalise_lsn(uint64_t lsn, uint64_t wal_segment_size) {
	constexpr uint64_t kWalPageBytes = 8192;
	constexpr uint64_t kShortPageHeader = 24;
	constexpr uint64_t kLongPageHeader = 40; // first page of a segment
	if (wal_segment_size != 0 && lsn % wal_segment_size == kLongPageHeader) {
		return lsn - kLongPageHeader;
	}
	if (lsn % kWalPageBytes == kShortPageHeader) {
		return lsn - kShortPageHeader;
	}
	return lsn;
}

} // namespace proxy
