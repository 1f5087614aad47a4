#include "server/storage/parquet/row_group_cache.h"

namespace millrace {

absl::StatusOr<RowGroupCache::Value> RowGroupCache::Get(
    Key key, absl::FunctionRef<absl::StatusOr<Value>()> load) {
  std::shared_ptr<Slot> slot;
  {
    MutexLock lock(mu_);
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

  absl::StatusOr<Value> value = load();

  // Destroyed last, outside the lock: giving memory back may run other code.
  std::vector<Value> victims;
  bool charged = false;
  if (value.ok() && budget_ != nullptr && (*value)->bytes() <= max_bytes_) {
    const uint64_t bytes = (*value)->bytes();
    {
      MutexLock lock(mu_);
      if (kept_bytes_ + bytes > max_bytes_) {
        Evict(kept_bytes_ + bytes - max_bytes_, &victims);
      }
      charged = Charge(**value);
      if (!charged) Evict(bytes, &victims);
    }
    if (!charged) {
      // The batches need the memory. What was thrown out goes to those who
      // wait in line; if anything is left, it is ours.
      victims.clear();
      MutexLock lock(mu_);
      charged = Charge(**value);
    }
  }
  {
    MutexLock lock(mu_);
    slot->value = value;
    slot->done = true;
    if (charged) {
      Entry& entry = entries_[key];
      entry.place = lru_.insert(lru_.end(), key);
      entry.kept = true;
    } else {
      entries_.erase(key);
    }
    loaded_.NotifyAll();
  }
  return value;
}

bool RowGroupCache::Charge(CachedRowGroup& value) {
  // Others may have filled the room in the meantime.
  if (kept_bytes_ + value.bytes() > max_bytes_ ||
      !budget_->TryReserve(value.bytes(), &value.reservation_)) {
    return false;
  }
  kept_bytes_ += value.bytes();
  return true;
}

void RowGroupCache::Evict(uint64_t bytes, std::vector<Value>* victims) {
  uint64_t freed = 0;
  while (freed < bytes && !lru_.empty()) {
    const auto oldest = entries_.find(lru_.front());
    lru_.pop_front();
    // A copy: a thread that has waited for it may not have taken it yet.
    const Value& value = *oldest->second.slot->value;
    freed += value->bytes();
    kept_bytes_ -= value->bytes();
    victims->push_back(value);
    entries_.erase(oldest);
  }
}

uint64_t RowGroupCache::kept_bytes() const {
  MutexLock lock(mu_);
  return kept_bytes_;
}

}  // namespace millrace
