#include "server/storage/columns/row_group_cache.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"

namespace millrace::storage {

CachedRowGroup::~CachedRowGroup() {
  // The members of the derived class have freed the memory already.
  if (cache_ != nullptr) cache_->GiveBack(charged_);
}

RowGroupCache::Lease::Lease(RowGroupCache& cache) : cache_(cache) {
  MutexLock lock(cache_.mu_);
  cache_.leases_.insert(this);
}

RowGroupCache::Lease::~Lease() {
  {
    const Pin pin(*this);
    value = nullptr;
  }
  MutexLock lock(cache_.mu_);
  cache_.leases_.erase(this);
}

void RowGroupCache::Lease::Begin() {
  // Another thread is moving the value out.
  while (busy_.exchange(true, std::memory_order_acquire)) {
    std::this_thread::yield();
  }
}

void RowGroupCache::Lease::End() {
  // A waiter counts itself before it checks busy_. So it either finds the lease
  // idle, or it is seen here and woken.
  busy_.store(false, std::memory_order_seq_cst);
  if (cache_.waiting_.load(std::memory_order_seq_cst) > 0) cache_.Wake();
}

bool RowGroupCache::Room::Grow(uint64_t more) {
  if (!cache_.TryReserve(more)) {
    refused_ = true;
    return false;
  }
  bytes_ += more;
  return true;
}

absl::StatusOr<RowGroupCache::Value> RowGroupCache::Get(
    const Key& key, uint64_t bytes,
    absl::FunctionRef<absl::StatusOr<Value>(Room& room)> load) {
  std::shared_ptr<Slot> slot;
  {
    MutexLock lock(mu_);
    // The caller has released its value, so the first waiter may evict it. The
    // waiter must not wait until the caller unpins its lease, because the
    // caller may have to wait, too.
    if (!line_.empty()) room_.NotifyAll();
    if (const auto found = entries_.find(key); found != entries_.end()) {
      Entry& entry = found->second;
      if (entry.kept) lru_.splice(lru_.end(), lru_, entry.place);
      slot = entry.slot;
      while (!slot->done) loaded_.Wait(lock);
      return slot->value;
    }
    slot = std::make_shared<Slot>();
    entries_[key].slot = slot;
  }

  absl::StatusOr<Value> value = Load(bytes, load);

  MutexLock lock(mu_);
  slot->value = value;
  slot->done = true;
  if (value.ok() && keep_) {
    Entry& entry = entries_[key];
    entry.place = lru_.insert(lru_.end(), key);
    entry.kept = true;
  } else {
    entries_.erase(key);
  }
  loaded_.NotifyAll();
  return value;
}

absl::StatusOr<RowGroupCache::Value> RowGroupCache::Load(
    uint64_t bytes, absl::FunctionRef<absl::StatusOr<Value>(Room&)> load) {
  if (bytes > max_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a row group needs ", FormatExactByteSize(bytes),
                     " at once, but the cache of decoded row groups has ",
                     FormatExactByteSize(max_bytes_)));
  }
  while (true) {
    Reserve(bytes);
    Room room(*this);
    room.bytes_ = bytes;
    absl::StatusOr<Value> value = load(room);
    if (value.ok()) {
      const uint64_t wanted = (*value)->bytes();
      if (wanted <= room.bytes_ || room.Grow(wanted - room.bytes_)) {
        (*value)->cache_ = this;
        (*value)->charged_ = wanted;
        room.bytes_ -= wanted;
        return value;
      }
      value = absl::ResourceExhaustedError(absl::StrCat(
          "no memory for a row group of ", FormatByteSize(wanted)));
    }
    if (!room.refused_ || bytes == max_bytes_) return value;
    bytes = max_bytes_;
  }
}

void RowGroupCache::Reserve(uint64_t bytes) {
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  uint64_t ticket;
  {
    MutexLock lock(mu_);
    ticket = next_ticket_++;
    line_.push_back(ticket);
  }
  for (bool reserved = false; !reserved;) {
    // Destroyed without the lock, because destruction returns bytes.
    std::vector<Value> victims;
    MutexLock lock(mu_);
    if (line_.front() != ticket) {
      room_.Wait(lock);
      continue;
    }
    if (Charge(bytes)) {
      line_.pop_front();
      room_.NotifyAll();
      reserved = true;
      continue;
    }
    MakeRoom(bytes, &victims);
    if (victims.empty()) room_.Wait(lock);
  }
  waiting_.fetch_sub(1, std::memory_order_seq_cst);
}

bool RowGroupCache::TryReserve(uint64_t bytes) {
  while (true) {
    std::vector<Value> victims;
    MutexLock lock(mu_);
    if (Charge(bytes)) return true;
    if (bytes > max_bytes_) return false;
    MakeRoom(bytes, &victims);
    if (victims.empty()) return false;
  }
}

bool RowGroupCache::Charge(uint64_t bytes) {
  if (bytes > max_bytes_ - charged_) return false;
  charged_ += bytes;
  peak_ = std::max(peak_, charged_);
  return true;
}

void RowGroupCache::GiveBack(uint64_t bytes) {
  if (bytes == 0) return;
  MutexLock lock(mu_);
  charged_ -= bytes;
  if (!line_.empty()) room_.NotifyAll();
}

void RowGroupCache::Wake() {
  MutexLock lock(mu_);
  room_.NotifyAll();
}

void RowGroupCache::MakeRoom(uint64_t bytes, std::vector<Value>* victims) {
  const uint64_t missing = bytes - (max_bytes_ - charged_);
  uint64_t freed = 0;
  for (auto at = lru_.begin(); freed < missing && at != lru_.end();) {
    const auto entry = entries_.find(*at);
    const std::shared_ptr<Slot>& slot = entry->second.slot;
    // Copies are made only under mu_, so a count of one does not change. A
    // thread that has waited for the slot may not have taken its value yet.
    if (slot.use_count() > 1 || slot->value->use_count() > 1) {
      ++at;
      continue;
    }
    freed += (*slot->value)->charged_;
    victims->push_back(*std::move(slot->value));
    entries_.erase(entry);
    at = lru_.erase(at);
  }
  if (!victims->empty()) return;
  for (Lease* const lease : leases_) {
    if (freed >= missing) break;
    if (lease->busy_.exchange(true, std::memory_order_seq_cst)) continue;
    if (lease->value != nullptr) {
      // If the cache holds the value, too, the next call evicts it.
      freed += lease->value->charged_;
      victims->push_back(std::move(lease->value));
    }
    lease->busy_.store(false, std::memory_order_release);
  }
}

uint64_t RowGroupCache::charged_bytes() const {
  MutexLock lock(mu_);
  return charged_;
}

uint64_t RowGroupCache::peak_bytes() const {
  MutexLock lock(mu_);
  return peak_;
}

}  // namespace millrace::storage
