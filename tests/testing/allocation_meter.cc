#include "tests/testing/allocation_meter.h"

#include <errno.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "tests/testing/sanitizer.h"

namespace {

std::atomic<int64_t> allocated{0};
std::atomic<int64_t> highest{0};

void Add(int64_t bytes) {
  const int64_t now = allocated.fetch_add(bytes) + bytes;
  int64_t before = highest.load();
  while (now > before && !highest.compare_exchange_weak(before, now)) {
  }
}

}  // namespace

#if MR_WITH_SANITIZER

extern "C" {

int __sanitizer_install_malloc_and_free_hooks(
    void (*malloc_hook)(const volatile void*, size_t),
    void (*free_hook)(const volatile void*));
size_t __sanitizer_get_allocated_size(const volatile void* block);

}  // extern "C"

namespace {

// Before any meter; what was allocated earlier may be freed later, which makes
// the meter's numbers smaller.
const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t bytes) {
      Add(static_cast<int64_t>(bytes));
    },
    [](const volatile void* block) {
      if (block == nullptr) return;
      Add(-static_cast<int64_t>(__sanitizer_get_allocated_size(block)));
    });

}  // namespace

#else

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);

}  // extern "C"

namespace {

// What was asked for can be less than what is given; the latter is known when
// it comes back.
void* Counted(void* block) {
  if (block != nullptr) Add(static_cast<int64_t>(malloc_usable_size(block)));
  return block;
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) { return Counted(__libc_malloc(bytes)); }

void* calloc(size_t count, size_t bytes) {
  return Counted(__libc_calloc(count, bytes));
}

void* realloc(void* block, size_t bytes) {
  const int64_t before =
      block == nullptr ? 0 : static_cast<int64_t>(malloc_usable_size(block));
  void* const moved = __libc_realloc(block, bytes);
  if (moved != nullptr || bytes == 0) Add(-before);
  return Counted(moved);
}

void* memalign(size_t alignment, size_t bytes) {
  return Counted(__libc_memalign(alignment, bytes));
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  return Counted(__libc_memalign(alignment, bytes));
}

int posix_memalign(void** block, size_t alignment, size_t bytes) {
  void* const made = Counted(__libc_memalign(alignment, bytes));
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}

void free(void* block) {
  if (block == nullptr) return;
  Add(-static_cast<int64_t>(malloc_usable_size(block)));
  __libc_free(block);
}

}  // extern "C"

#endif  // MR_WITH_SANITIZER

namespace millrace {

AllocationMeter::AllocationMeter() : start_(allocated.load()) {
  highest.store(start_);
}

int64_t AllocationMeter::peak() const { return highest.load() - start_; }

}  // namespace millrace
