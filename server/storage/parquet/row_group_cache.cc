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

  const bool charged =
      value.ok() && budget_ != nullptr && MakeRoomAndCharge(**value);
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

bool RowGroupCache::MakeRoomAndCharge(CachedRowGroup& value) {
  const uint64_t bytes = value.bytes();
  if (bytes > max_bytes_) return false;
  // Room in the cache may have to be made first, then room in the budget: what
  // is thrown out goes to the batches that wait in line; if anything is left,
  // it is ours.
  for (int tries = 0;; ++tries) {
    // Destroyed outside the lock: giving memory back may run other code.
    std::vector<Value> victims;
    MutexLock lock(mu_);
    if (Charge(value)) return true;
    if (tries == 2) return false;
    const uint64_t charged = charged_->load();
    const uint64_t room = charged < max_bytes_ ? max_bytes_ - charged : 0;
    Evict(bytes > room ? bytes - room : bytes, &victims);
    if (victims.empty()) return false;
  }
}

bool RowGroupCache::Charge(CachedRowGroup& value) {
  const uint64_t bytes = value.bytes();
  if (charged_->load() + bytes > max_bytes_ ||
      !budget_->TryReserve(bytes, &value.reservation_)) {
    return false;
  }
  charged_->fetch_add(bytes);
  value.charged_sum_ = charged_;
  return true;
}

void RowGroupCache::Evict(uint64_t bytes, std::vector<Value>* victims) {
  uint64_t freed = 0;
  for (auto at = lru_.begin(); freed < bytes && at != lru_.end();) {
    const auto entry = entries_.find(*at);
    const std::shared_ptr<Slot>& slot = entry->second.slot;
    // Copies are made under mu_ alone, so a count of one stays. A thread that
    // has waited for the slot may not have taken its value yet.
    if (slot.use_count() > 1 || slot->value->use_count() > 1) {
      ++at;
      continue;
    }
    freed += (*slot->value)->bytes();
    victims->push_back(*std::move(slot->value));
    entries_.erase(entry);
    at = lru_.erase(at);
  }
}

CachedRowGroup::~CachedRowGroup() {
  if (charged_sum_ == nullptr) return;
  const uint64_t bytes = reservation_.bytes();
  // First, so that the budget never holds more than the sum says.
  reservation_.Release();
  charged_sum_->fetch_sub(bytes);
}

}  // namespace millrace
