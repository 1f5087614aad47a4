// RowGroupCache bounds the memory of decoded row groups, or slices of them, and
// keeps the recently used ones. Readers that need the same value at the same
// time decode it once. It does not know Parquet: a value is anything with a
// size.
//
// All values are charged against `max_bytes`: values in decoding, values that a
// reader holds and values kept for later. A thread that finds no room waits:
// values without a reader are evicted, least recently used first; then values
// that readers hold between two samples are taken back (see Lease). A thread
// must not wait for anything else while its lease is pinned: this guarantees
// that every wait for room ends.
//
// Thread-safe. Get() blocks while there is no room and while the value is being
// loaded, by the caller or by another thread. All values and leases must be
// gone before the cache.
//
//   RowGroupCache::Lease lease(cache);      // of a reader
//   const RowGroupCache::Lease::Pin pin(lease);
//   MR_ASSIGN_OR_RETURN(lease.value, cache.Get({shard, 7}, 5 << 20,
//       [&](RowGroupCache::Room& room) { return Decode(shard, 7, room); }));

#ifndef MILLRACE_SERVER_STORAGE_COLUMNS_ROW_GROUP_CACHE_H_
#define MILLRACE_SERVER_STORAGE_COLUMNS_ROW_GROUP_CACHE_H_

#include <atomic>
#include <compare>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"

namespace millrace::storage {

class RowGroupCache;

// What the cache keeps.
class CachedRowGroup {
 public:
  CachedRowGroup() = default;
  CachedRowGroup(const CachedRowGroup&) = delete;
  CachedRowGroup& operator=(const CachedRowGroup&) = delete;
  virtual ~CachedRowGroup();
  virtual uint64_t bytes() const = 0;

 private:
  friend class RowGroupCache;
  RowGroupCache* cache_ = nullptr;  // null: not charged
  uint64_t charged_ = 0;
};

class RowGroupCache {
 public:
  struct Key {
    int shard = 0;
    int group = 0;
    int64_t slice = 0;
    uint64_t columns = 0;  // the set of columns that are decoded
    auto operator<=>(const Key&) const = default;
  };
  using Value = std::shared_ptr<CachedRowGroup>;

  // The bytes that a load may take. Belongs to the thread that loads.
  class Room {
   public:
    uint64_t bytes() const { return bytes_; }
    uint64_t max_bytes() const { return cache_.max_bytes_; }
    // Takes `more` bytes if that is possible without waiting. After a refusal
    // the load must fail; the cache then repeats it once with the whole cache.
    bool Grow(uint64_t more);

    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

   private:
    friend class RowGroupCache;
    explicit Room(RowGroupCache& cache) : cache_(cache) {}
    ~Room() { cache_.GiveBack(bytes_); }
    RowGroupCache& cache_;
    uint64_t bytes_ = 0;
    bool refused_ = false;
  };

  // A value that a reader holds between two samples. While the lease is pinned,
  // the value is not taken back; a pin must end without waiting for another
  // thread that may wait for room. Belongs to one thread at a time.
  class Lease {
   public:
    explicit Lease(RowGroupCache& cache);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    class Pin {
     public:
      explicit Pin(Lease& lease) : lease_(lease) { lease_.Begin(); }
      ~Pin() { lease_.End(); }
      Pin(const Pin&) = delete;
      Pin& operator=(const Pin&) = delete;

     private:
      Lease& lease_;
    };

    // To be touched while it is pinned. Null: nothing is held, or it was taken
    // away.
    Value value;

   private:
    friend class RowGroupCache;
    void Begin();
    void End();

    RowGroupCache& cache_;
    std::atomic<bool> busy_{false};
  };

  // `keep`: also what no reader holds.
  RowGroupCache(uint64_t max_bytes, bool keep)
      : max_bytes_(max_bytes), keep_(keep) {}

  // The value of `key`, loaded by `load` unless it is kept or another thread is
  // loading it now. `load` gets room for `bytes`, for which Get() waits. The
  // caller holds no value, and is to hold this one in a lease. An error of
  // `load` goes to all who waited for it and is not kept. ResourceExhausted:
  // `bytes` are more than the cache has.
  absl::StatusOr<Value> Get(
      const Key& key, uint64_t bytes,
      absl::FunctionRef<absl::StatusOr<Value>(Room& room)> load);

  uint64_t max_bytes() const { return max_bytes_; }
  // Now and at most so far.
  uint64_t charged_bytes() const;
  uint64_t peak_bytes() const;

 private:
  friend class CachedRowGroup;

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

  absl::StatusOr<Value> Load(
      uint64_t bytes, absl::FunctionRef<absl::StatusOr<Value>(Room&)> load);
  // Waits in line.
  void Reserve(uint64_t bytes) MR_EXCLUDES(mu_);
  bool TryReserve(uint64_t bytes) MR_EXCLUDES(mu_);
  void GiveBack(uint64_t bytes) MR_EXCLUDES(mu_);
  void Wake() MR_EXCLUDES(mu_);
  bool Charge(uint64_t bytes) MR_REQUIRES(mu_);
  // Makes room for `bytes`: moves values to `victims`, which the caller
  // destroys without the lock: the oldest values without a reader, otherwise
  // the values of idle leases.
  void MakeRoom(uint64_t bytes, std::vector<Value>* victims) MR_REQUIRES(mu_);

  const uint64_t max_bytes_;
  const bool keep_;
  // Leases that wait; read by leases without the lock.
  std::atomic<uint32_t> waiting_{0};
  mutable Mutex mu_;
  CondVar loaded_;
  CondVar room_;
  std::map<Key, Entry> entries_ MR_GUARDED_BY(mu_);
  std::list<Key> lru_ MR_GUARDED_BY(mu_);  // the oldest first
  std::set<Lease*> leases_ MR_GUARDED_BY(mu_);
  std::deque<uint64_t> line_ MR_GUARDED_BY(mu_);  // tickets
  uint64_t next_ticket_ MR_GUARDED_BY(mu_) = 0;
  uint64_t charged_ MR_GUARDED_BY(mu_) = 0;
  uint64_t peak_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_COLUMNS_ROW_GROUP_CACHE_H_
