// PageHeap allocates memory in whole pages and keeps little of the freed
// memory.
//
// A freed range keeps its pages for the next caller as long as the heap has no
// more pages than its peak use plus a little (see MaxIdleBytes()); beyond that,
// the oldest range returns its pages to the system at once. The system zeroes
// new pages, which costs about as much as filling them; decoding, which frees
// as much as it allocates, avoids that cost. General allocators keep freed
// memory for each thread or CPU, which on a machine with many CPUs is several
// times a small memory budget.
//
// Addresses are kept: a range without pages is used again before the heap
// grows. It is not meant for small pieces: every range is at least a page, and
// the heap grows by kChunkBytes.
//
// Thread-safe. Owns its memory; must not be destroyed before all ranges are
// freed.
//
//   uint8_t* data = heap.Take(1 << 20);   // null: the system has none
//   heap.Give(data, 1 << 20);

#ifndef MILLRACE_SERVER_STORAGE_COLUMNS_PAGE_HEAP_H_
#define MILLRACE_SERVER_STORAGE_COLUMNS_PAGE_HEAP_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace millrace::storage {

class PageHeap {
 public:
  static constexpr uint64_t kPageBytes = 4096;
  // A mapping each, since the system limits their number. Only pages that are
  // touched take memory.
  static constexpr uint64_t kChunkBytes = 64 << 20;

  PageHeap() = default;
  PageHeap(const PageHeap&) = delete;
  PageHeap& operator=(const PageHeap&) = delete;
  ~PageHeap();

  // Aligned to a page, not initialised, at least one byte. Null: the system has
  // no memory.
  uint8_t* Take(uint64_t bytes);
  // `bytes` as given to Take() or Resize().
  void Give(uint8_t* data, uint64_t bytes);
  // As Take(), but null unless there is a freed range with pages that is hardly
  // longer.
  uint8_t* TakeIdle(uint64_t bytes);
  // Makes a range longer or shorter in place. False: there is no free space
  // behind it, and nothing has changed.
  bool Resize(uint8_t* data, uint64_t old_bytes, uint64_t new_bytes);

  // Bytes of freed ranges that still have pages; and their upper bound when
  // `taken_bytes` are in use and `peak_bytes` was the peak.
  uint64_t idle_bytes() const;
  static uint64_t MaxIdleBytes(uint64_t taken_bytes, uint64_t peak_bytes);

 private:
  using Address = uint64_t;
  struct Range {
    uint64_t bytes = 0;
    uint64_t freed = 0;  // a number that rises with time
  };
  // Free ranges. Neighbours are one range.
  struct FreeList {
    std::map<Address, Range> ranges;
    std::set<std::pair<uint64_t, Address>> by_bytes;
    std::set<std::pair<uint64_t, Address>> by_age;
    uint64_t bytes = 0;

    void Insert(Address at, Range range);
    Range Remove(Address at);
    // The smallest range of at least `bytes` and at most `max_bytes`, cut to
    // the former. 0: there is none.
    Address TakeBestFit(uint64_t bytes, uint64_t max_bytes = UINT64_MAX);
    // Removes the range that begins at `at`, all or its first `bytes`. False:
    // there is none of at least `bytes`.
    bool TakeAt(Address at, uint64_t bytes);
  };

  void GiveRange(Address at, uint64_t bytes) MR_EXCLUDES(mu_);
  void NoteTaken(uint64_t bytes) MR_REQUIRES(mu_);

  mutable Mutex mu_;
  FreeList idle_ MR_GUARDED_BY(mu_);   // with their pages
  FreeList empty_ MR_GUARDED_BY(mu_);  // without
  uint64_t taken_bytes_ MR_GUARDED_BY(mu_) = 0;
  uint64_t peak_bytes_ MR_GUARDED_BY(mu_) = 0;  // of these
  uint64_t next_number_ MR_GUARDED_BY(mu_) = 0;
  std::vector<std::pair<void*, uint64_t>> chunks_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_COLUMNS_PAGE_HEAP_H_
