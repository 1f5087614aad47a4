#include "server/storage/mapped_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace millrace::storage {
namespace {

// From this share of the machine's memory on, the pages of a file do not stay
// cached, so the read-ahead of a random read would waste disk time.
constexpr uint64_t kRandomAccessShare = 4;

// Values above this size are prefetched as a whole before they are used:
// without read-ahead, each page would be a separate wait.
constexpr size_t kPrefetchBytes = 16 << 10;

uint64_t MachineMemory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Errors are ignored.
void Give(const uint8_t* begin, size_t bytes, int advice) {
  (void)madvise(const_cast<uint8_t*>(begin), bytes, advice);
}

}  // namespace

MappedPages::MappedPages(absl::Span<const uint8_t> map)
    : page_bytes_(static_cast<uint64_t>(sysconf(_SC_PAGESIZE))),
      random_access_(map.size() > MachineMemory() / kRandomAccessShare) {
  if (random_access_) Give(map.data(), map.size(), MADV_RANDOM);
}

void MappedPages::Advise(absl::Span<const uint8_t> value) const {
  if (!random_access_ || value.size() <= kPrefetchBytes) return;
  const auto begin = reinterpret_cast<uintptr_t>(value.data());
  const uintptr_t before = begin % page_bytes_;
  Give(value.data() - before, value.size() + before, MADV_WILLNEED);
}

void MappedPages::Touch(absl::Span<const uint8_t> value) const {
  if (value.empty()) return;
  const uint64_t page = page_bytes_;
  const uint64_t before = reinterpret_cast<uintptr_t>(value.data()) % page;
  if (value.size() > page) {
    // One request for the whole value if the system supports it; otherwise page
    // by page.
    Give(value.data() - before, value.size() + before, MADV_WILLNEED);
  }
  for (uint64_t at = 0; at < value.size(); at += page) {
    (void)*static_cast<const volatile uint8_t*>(value.data() + at);
  }
  (void)*static_cast<const volatile uint8_t*>(&value.back());
}

}  // namespace millrace::storage
