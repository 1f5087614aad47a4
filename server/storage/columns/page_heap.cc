#include "server/storage/columns/page_heap.h"

#include <sys/mman.h>

#include <algorithm>

#include "common/logging.h"

namespace millrace::storage {
namespace {

// Max idle bytes in addition to the max bytes that were in use: ranges that no
// request fits.
constexpr uint64_t kMinSlackBytes = 8 << 20;
constexpr uint64_t kMaxSlackBytes = 256 << 20;
constexpr uint64_t kSlackPart = 16;
// TakeIdle() may cut off this part of a range.
constexpr uint64_t kCutPart = 8;

uint64_t WholePages(uint64_t bytes) {
  return (std::max<uint64_t>(bytes, 1) + PageHeap::kPageBytes - 1) /
         PageHeap::kPageBytes * PageHeap::kPageBytes;
}

void* Map(uint64_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : data;
}

}  // namespace

PageHeap::~PageHeap() {
  for (const auto& [data, bytes] : chunks_) munmap(data, bytes);
}

uint64_t PageHeap::MaxIdleBytes(uint64_t taken_bytes, uint64_t peak_bytes) {
  return peak_bytes - taken_bytes +
         std::clamp(peak_bytes / kSlackPart, kMinSlackBytes, kMaxSlackBytes);
}

void PageHeap::FreeList::Insert(Address at, Range range) {
  bytes += range.bytes;
  auto next = ranges.lower_bound(at);
  if (next != ranges.end() && next->first == at + range.bytes) {
    const Address behind = next->first;
    const Range joined = Remove(behind);
    bytes += joined.bytes;
    range = {range.bytes + joined.bytes, std::max(range.freed, joined.freed)};
    next = ranges.lower_bound(at);
  }
  if (next != ranges.begin()) {
    const auto [before, range_before] = *std::prev(next);
    if (before + range_before.bytes == at) {
      const Range joined = Remove(before);
      bytes += joined.bytes;
      at = before;
      range = {range.bytes + joined.bytes, std::max(range.freed, joined.freed)};
    }
  }
  ranges.emplace(at, range);
  by_bytes.emplace(range.bytes, at);
  by_age.emplace(range.freed, at);
}

PageHeap::Range PageHeap::FreeList::Remove(Address at) {
  const auto found = ranges.find(at);
  const Range range = found->second;
  ranges.erase(found);
  by_bytes.erase({range.bytes, at});
  by_age.erase({range.freed, at});
  bytes -= range.bytes;
  return range;
}

bool PageHeap::FreeList::TakeAt(Address at, uint64_t wanted) {
  const auto found = ranges.find(at);
  if (found == ranges.end() || found->second.bytes < wanted) return false;
  Range rest = Remove(at);
  rest.bytes -= wanted;
  if (rest.bytes > 0) Insert(at + wanted, rest);
  return true;
}

PageHeap::Address PageHeap::FreeList::TakeBestFit(uint64_t wanted,
                                                  uint64_t max_bytes) {
  const auto found = by_bytes.lower_bound({wanted, 0});
  if (found == by_bytes.end() || found->first > max_bytes) return 0;
  const Address at = found->second;
  TakeAt(at, wanted);
  return at;
}

uint8_t* PageHeap::Take(uint64_t bytes) {
  const uint64_t wanted = WholePages(bytes);
  MutexLock lock(mu_);
  Address at = idle_.TakeBestFit(wanted);
  if (at == 0) at = empty_.TakeBestFit(wanted);
  if (at == 0) {
    const uint64_t chunk = std::max(wanted, kChunkBytes);
    void* const data = Map(chunk);
    if (data == nullptr) return nullptr;
    chunks_.emplace_back(data, chunk);
    at = reinterpret_cast<Address>(data);
    if (chunk > wanted) {
      empty_.Insert(at + wanted, {chunk - wanted, next_number_++});
    }
  }
  NoteTaken(wanted);
  return reinterpret_cast<uint8_t*>(at);
}

uint8_t* PageHeap::TakeIdle(uint64_t bytes) {
  const uint64_t wanted = WholePages(bytes);
  MutexLock lock(mu_);
  const Address at = idle_.TakeBestFit(wanted, wanted + wanted / kCutPart);
  if (at != 0) NoteTaken(wanted);
  return reinterpret_cast<uint8_t*>(at);
}

void PageHeap::NoteTaken(uint64_t bytes) {
  taken_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, taken_bytes_);
}

void PageHeap::Give(uint8_t* data, uint64_t bytes) {
  GiveRange(reinterpret_cast<Address>(data), WholePages(bytes));
}

void PageHeap::GiveRange(Address at, uint64_t bytes) {
  std::vector<std::pair<Address, uint64_t>> old;
  {
    MutexLock lock(mu_);
    taken_bytes_ -= bytes;
    idle_.Insert(at, {bytes, next_number_++});
    const uint64_t max = MaxIdleBytes(taken_bytes_, peak_bytes_);
    if (idle_.bytes > max) {
      // Slightly more than needed, so that not every call is a system call.
      uint64_t excess =
          WholePages(idle_.bytes - max + std::min(max, kMinSlackBytes) / 4);
      while (excess > 0 && idle_.bytes > 0) {
        const auto [number, oldest] = *idle_.by_age.begin();
        const uint64_t part = std::min(excess, idle_.ranges[oldest].bytes);
        idle_.TakeAt(oldest, part);
        old.emplace_back(oldest, part);
        excess -= part;
      }
    }
  }
  if (old.empty()) return;
  // The ranges are in neither list, so no other thread can take them now.
  for (const auto& [begin, size] : old) {
    MR_CHECK(madvise(reinterpret_cast<void*>(begin), size, MADV_DONTNEED) == 0)
        << "no mapping of " << size;
  }
  MutexLock lock(mu_);
  for (const auto& [begin, size] : old) {
    empty_.Insert(begin, {size, next_number_++});
  }
}

bool PageHeap::Resize(uint8_t* data, uint64_t old_bytes, uint64_t new_bytes) {
  const uint64_t before = WholePages(old_bytes);
  const uint64_t after = WholePages(new_bytes);
  const Address at = reinterpret_cast<Address>(data);
  if (after < before) GiveRange(at + after, before - after);
  if (after <= before) return true;
  MutexLock lock(mu_);
  const uint64_t more = after - before;
  if (!idle_.TakeAt(at + before, more) && !empty_.TakeAt(at + before, more)) {
    return false;
  }
  NoteTaken(more);
  return true;
}

uint64_t PageHeap::idle_bytes() const {
  MutexLock lock(mu_);
  return idle_.bytes;
}

}  // namespace millrace::storage
