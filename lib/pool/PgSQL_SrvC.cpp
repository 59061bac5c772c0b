#include "pool/PgSQL_SrvC.h"

#include "backend/PgSQL_Connection.h"
#include "base/Check.h"
#include "base/Clock.h"

#include <algorithm>

namespace proxy {

namespace {
// Empty index entries are kept, since keys come back; beyond this many they are swept.
constexpr size_t kIndexSlack = 64;
constexpr size_t kMaxSpareNodes = 1024;
} // namespace

const char* name_of(Server_Status status) {
	switch (status) {
	case Server_Status::online:
		return "ONLINE";
	case Server_Status::shunned:
		return "SHUNNED";
	case Server_Status::offline_soft:
		return "OFFLINE_SOFT";
	case Server_Status::offline_hard:
		return "OFFLINE_HARD";
	case Server_Status::shunned_lag:
		return "SHUNNED_REPLICATION_LAG";
	}
	return "UNKNOWN";
}

PgSQL_SrvC::PgSQL_SrvC(int hostgroup, std::string host, int server_port,
                       std::shared_ptr<Server_Health> server_health)
    : hostgroup_id(hostgroup), hostname(std::move(host)), port(server_port),
      health(std::move(server_health)) {}

PgSQL_SrvC::~PgSQL_SrvC() = default;

std::string PgSQL_SrvC::address() const {
	Lock lock(mutex_);
	return address_;
}

void PgSQL_SrvC::set_address(std::string address) {
	Lock lock(mutex_);
	address_ = std::move(address);
}

// ---- FREE ----

void PgSQL_SrvC::push_free_locked(std::unique_ptr<PgSQL_Connection> connection) {
	const uint64_t hash = connection->key().hash;
	if (spare_nodes_.empty()) {
		free_.push_back(std::move(connection));
	} else {
		spare_nodes_.front() = std::move(connection);
		free_.splice(free_.end(), spare_nodes_, spare_nodes_.begin());
	}
	if (free_index_.size() > free_.size() + kIndexSlack) {
		std::erase_if(free_index_, [](const auto& entry) { return entry.second.empty(); });
	}
	free_index_[hash].push_back(std::prev(free_.end()));
}

std::unique_ptr<PgSQL_Connection> PgSQL_SrvC::unlink_free_locked(Free_List::iterator place) {
	const auto found = free_index_.find((*place)->key().hash);
	if (!PROXY_BUG(found == free_index_.end() || found->second.empty())) { // invariant 3
		if (found->second.back() == place) {
			found->second.pop_back(); // the usual case: the one used last
		} else {
			std::erase(found->second, place);
		}
	}
	std::unique_ptr<PgSQL_Connection> connection = std::move(*place);
	if (spare_nodes_.size() < kMaxSpareNodes) {
		spare_nodes_.splice(spare_nodes_.end(), free_, place);
	} else {
		free_.erase(place);
	}
	return connection;
}

// The one used last: its server process has the warmest caches, and the others grow old enough to
// be trimmed.
std::unique_ptr<PgSQL_Connection> PgSQL_SrvC::take_match_locked(const Conn_Key& key) {
	const auto found = free_index_.find(key.hash);
	if (found == free_index_.end()) {
		return nullptr;
	}
	std::vector<Free_List::iterator>& places = found->second;
	for (size_t i = places.size(); i > 0; --i) {
		if ((*places[i - 1])->key() == key) {
			return unlink_free_locked(places[i - 1]);
		}
	}
	return nullptr;
}

std::vector<std::unique_ptr<PgSQL_Connection>> PgSQL_SrvC::take_free(int64_t idle_before_us) {
	std::vector<std::unique_ptr<PgSQL_Connection>> taken;
	std::vector<Waiter_Id> told;
	{
		Lock lock(mutex_);
		for (auto place = free_.begin(); place != free_.end();) {
			const auto here = place++;
			if (idle_before_us == INT64_MAX || (*here)->last_used_us < idle_before_us) {
				taken.push_back(unlink_free_locked(here));
			}
		}
		keep_slots_locked(told);
	}
	tell(told);
	return taken;
}

std::vector<std::unique_ptr<PgSQL_Connection>> PgSQL_SrvC::take_aged(int64_t created_before_us) {
	std::vector<std::unique_ptr<PgSQL_Connection>> taken;
	Lock lock(mutex_);
	for (auto place = free_.begin(); place != free_.end();) {
		const auto here = place++;
		if ((*here)->created_us() < created_before_us) {
			taken.push_back(unlink_free_locked(here));
		}
	}
	return taken;
}

std::vector<std::unique_ptr<PgSQL_Connection>> PgSQL_SrvC::take_excess(size_t keep,
                                                                       int64_t idle_before_us) {
	std::vector<std::unique_ptr<PgSQL_Connection>> taken;
	Lock lock(mutex_);
	while (free_.size() > keep && free_.front()->last_used_us < idle_before_us) {
		taken.push_back(unlink_free_locked(free_.begin()));
	}
	return taken;
}

int64_t PgSQL_SrvC::free_count() const {
	Lock lock(mutex_);
	return static_cast<int64_t>(free_.size());
}

// ---- slots and waiters ----

int64_t PgSQL_SrvC::open_slots_locked() const {
	return max_connections.load(std::memory_order_relaxed) - used.load(std::memory_order_relaxed) -
	       static_cast<int64_t>(free_.size() + kept_slots_.size());
}

void PgSQL_SrvC::add_used_locked() {
	const int64_t now_used = used.fetch_add(1, std::memory_order_relaxed) + 1;
	if (now_used > counters.max_used.load(std::memory_order_relaxed)) {
		counters.max_used.store(now_used, std::memory_order_relaxed);
	}
}

void PgSQL_SrvC::enqueue_locked(const Pool_Waiter& waiter, bool in_front) {
	const Waiter_Id id{waiter.sink, waiter.ticket};
	const auto found = waiter_index_.find(id);
	if (found != waiter_index_.end()) {
		found->second->waiter = waiter; // keeps its place
		return;
	}
	const auto place =
	    waiters_.insert(in_front ? waiters_.begin() : waiters_.end(), Waiting{waiter, 0});
	waiter_index_.emplace(id, place);
	waiting.store(static_cast<int64_t>(waiters_.size()), std::memory_order_relaxed);
}

PgSQL_SrvC::Waiter_Id PgSQL_SrvC::dequeue_locked(Waiter_List::iterator place) {
	const Waiter_Id id{place->waiter.sink, place->waiter.ticket};
	waiter_index_.erase(id);
	waiters_.erase(place);
	waiting.store(static_cast<int64_t>(waiters_.size()), std::memory_order_relaxed);
	return id;
}

// Who gets a connection with this key: the first waiter it fits, unless the head of the queue has
// been passed over often enough; waiters_.end(): nobody it fits.
PgSQL_SrvC::Waiter_List::iterator PgSQL_SrvC::waiter_for_locked(const Conn_Key& key) {
	Waiting& head = waiters_.front();
	if (head.waiter.key == key) {
		return waiters_.begin();
	}
	if (head.passed_over >= kMaxPassedOver) {
		return waiters_.end();
	}
	const auto found = std::find_if(std::next(waiters_.begin()), waiters_.end(),
	                                [&](const Waiting& entry) { return entry.waiter.key == key; });
	if (found != waiters_.end()) {
		++head.passed_over;
	}
	return found;
}

bool PgSQL_SrvC::take_kept_slot_locked(const Waiter_Id& id) {
	const auto found = std::find_if(kept_slots_.begin(), kept_slots_.end(),
	                                [&](const Kept_Slot& slot) { return slot.id == id; });
	if (found == kept_slots_.end()) {
		return false;
	}
	kept_slots_.erase(found);
	return true;
}

void PgSQL_SrvC::keep_slots_locked(std::vector<Waiter_Id>& told) {
	if (waiters_.empty()) {
		return;
	}
	int64_t slots = open_slots_locked();
	if (slots <= 0) {
		return;
	}
	const int64_t now_us = monotonic_us();
	for (; slots > 0 && !waiters_.empty(); --slots) {
		const Waiter_Id id = dequeue_locked(waiters_.begin());
		kept_slots_.push_back(Kept_Slot{id, now_us});
		told.push_back(id);
	}
}

void PgSQL_SrvC::tell(const std::vector<Waiter_Id>& told) {
	for (const Waiter_Id& id : told) {
		id.sink->deliver(id.ticket, nullptr);
	}
}

Acquire_Status PgSQL_SrvC::acquire(const Conn_Key& key, const Pool_Waiter* waiter,
                                   std::unique_ptr<PgSQL_Connection>& connection,
                                   std::unique_ptr<PgSQL_Connection>& evicted) {
	Lock lock(mutex_);
	const bool invited =
	    waiter != nullptr && take_kept_slot_locked(Waiter_Id{waiter->sink, waiter->ticket});
	if (status.load(std::memory_order_relaxed) != Server_Status::online ||
	    max_connections.load(std::memory_order_relaxed) <= 0) {
		return Acquire_Status::unavailable;
	}
	// Nobody overtakes the queue (invariant 2), except who has just been called from it.
	if (invited || waiters_.empty()) {
		connection = take_match_locked(key);
		if (connection) {
			add_used_locked();
			return Acquire_Status::connection;
		}
		if (open_slots_locked() > 0) {
			add_used_locked();
			return Acquire_Status::create;
		}
		if (!free_.empty()) {
			evicted = unlink_free_locked(free_.begin());
			if (open_slots_locked() > 0) { // not so when max_connections was lowered
				add_used_locked();
				return Acquire_Status::create;
			}
		}
	}
	if (waiter != nullptr) {
		enqueue_locked(*waiter, invited);
	}
	return Acquire_Status::busy;
}

std::unique_ptr<PgSQL_Connection>
PgSQL_SrvC::give_back(std::unique_ptr<PgSQL_Connection> connection) {
	std::vector<Waiter_Id> told;
	Waiter_Id receiver;
	{
		Lock lock(mutex_);
		used.fetch_sub(1, std::memory_order_relaxed);
		const bool keep =
		    status.load(std::memory_order_relaxed) == Server_Status::online &&
		    connection->created_us() >= kill_before_us.load(std::memory_order_relaxed) &&
		    open_slots_locked() > 0;
		if (keep && waiters_.empty()) {
			push_free_locked(std::move(connection));
		} else if (keep) {
			const auto place = waiter_for_locked(connection->key());
			if (place != waiters_.end()) {
				receiver = dequeue_locked(place);
				add_used_locked();
			}
		}
		keep_slots_locked(told);
	}
	tell(told);
	if (receiver.sink != nullptr) {
		receiver.sink->deliver(receiver.ticket, std::move(connection));
	}
	return connection;
}

void PgSQL_SrvC::drop_used() {
	std::vector<Waiter_Id> told;
	{
		Lock lock(mutex_);
		used.fetch_sub(1, std::memory_order_relaxed);
		keep_slots_locked(told);
	}
	tell(told);
}

bool PgSQL_SrvC::cancel_wait(Pool_Waiter_Sink* sink, uint64_t ticket) {
	std::vector<Waiter_Id> told;
	bool found = false;
	{
		Lock lock(mutex_);
		const Waiter_Id id{sink, ticket};
		const auto place = waiter_index_.find(id);
		if (place != waiter_index_.end()) {
			dequeue_locked(place->second);
			found = true;
		} else {
			found = take_kept_slot_locked(id);
		}
		keep_slots_locked(told);
	}
	tell(told);
	return found;
}

void PgSQL_SrvC::wake_for_slots(int64_t now_us) {
	std::vector<Waiter_Id> told;
	{
		Lock lock(mutex_);
		std::erase_if(kept_slots_,
		              [&](const Kept_Slot& slot) { return now_us - slot.since_us > kSlotHoldUs; });
		keep_slots_locked(told);
	}
	tell(told);
}

void PgSQL_SrvC::wake_all() {
	std::vector<Waiter_Id> told;
	{
		Lock lock(mutex_);
		kept_slots_.clear();
		while (!waiters_.empty()) {
			told.push_back(dequeue_locked(waiters_.begin()));
		}
	}
	tell(told);
}

int64_t PgSQL_SrvC::note_connect_error(int64_t now_us) {
	constexpr int64_t kSecondUs = 1'000'000;
	last_error_us.store(now_us, std::memory_order_relaxed);
	Lock lock(mutex_);
	if (error_second_ != now_us / kSecondUs) {
		error_second_ = now_us / kSecondUs;
		errors_in_second_ = 0;
	}
	return ++errors_in_second_;
}

} // namespace proxy
