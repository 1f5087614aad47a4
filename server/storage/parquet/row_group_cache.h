// RowGroupCache keeps decoded row groups, least recently used first out, and
// sees to it that readers who want the same one at the same time decode it
// once. It knows nothing of Parquet: what it keeps is anything with a size.
//
// Bounded twice: by `max_bytes` of its own and by a budget, which the caches of
// a server share. What counts is what is charged to the budget, and that is
// every row group that it has kept, until its last holder lets go. When there is
// no room a row group is handed out without being kept or charged. One that
// somebody holds is not thrown out, for that would free nothing. Who waits in the
// budget's line comes first: batches, which wait often, have another.
//
// Thread-safe. Get() blocks while the row group is being loaded, by the caller
// or by another thread. Memory goes back to the budget when the last holder
// lets go.
//
//   auto group = cache.Get({shard, 7}, [&] { return Decode(shard, 7); });

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_ROW_GROUP_CACHE_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_ROW_GROUP_CACHE_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/byte_budget.h"
#include "common/mutex.h"

namespace millrace {

// What the cache keeps.
class CachedRowGroup {
 public:
  virtual ~CachedRowGroup();
  virtual uint64_t bytes() const = 0;

 private:
  friend class RowGroupCache;
  ByteBudget::Reservation reservation_;
  // The cache's sum of reservations, which may outlive the cache; null: this
  // row group is not in it.
  std::shared_ptr<std::atomic<uint64_t>> charged_sum_;
};

class RowGroupCache {
 public:
  using Key = std::pair<int, int>;  // shard, row group
  using Value = std::shared_ptr<CachedRowGroup>;

  // `budget` may be null: then nothing is kept. Not owned.
  RowGroupCache(ByteBudget* budget, uint64_t max_bytes)
      : budget_(budget), max_bytes_(max_bytes) {}

  // The row group, loaded by `load` unless it is kept or another thread is
  // loading it now. An error of `load` goes to all who waited for it and is
  // not kept.
  absl::StatusOr<Value> Get(Key key,
                            absl::FunctionRef<absl::StatusOr<Value>()> load);

  // Of row groups that are kept or were kept and are still held.
  uint64_t charged_bytes() const { return charged_->load(); }

 private:
  struct Slot {
    bool done = false;
    absl::StatusOr<Value> value = absl::UnknownError("not loaded yet");
  };
  struct Entry {
    std::shared_ptr<Slot> slot;
    // In lru_ when it is kept.
    std::list<Key>::iterator place;
    bool kept = false;
  };

  // Charges the value, at the expense of older ones; false when there is no
  // room.
  bool MakeRoomAndCharge(CachedRowGroup& value) MR_EXCLUDES(mu_);
  // Takes the value's bytes from the budget; false when there is no room.
  bool Charge(CachedRowGroup& value) MR_REQUIRES(mu_);
  // Moves the oldest values that nobody holds, of `bytes` together, to
  // `victims`: they are to be destroyed outside the lock.
  void Evict(uint64_t bytes, std::vector<Value>* victims) MR_REQUIRES(mu_);

  ByteBudget* const budget_;
  const uint64_t max_bytes_;
  Mutex mu_;
  CondVar loaded_;
  std::map<Key, Entry> entries_ MR_GUARDED_BY(mu_);
  std::list<Key> lru_ MR_GUARDED_BY(mu_);  // the oldest first
  // Grows under mu_ alone.
  const std::shared_ptr<std::atomic<uint64_t>> charged_ =
      std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_ROW_GROUP_CACHE_H_
