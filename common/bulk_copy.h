// Copies bytes to memory that is too large to be found in a cache when it is
// read: with stores that go around the caches (on x86-64), which saves reading
// the old content first and leaves in the caches what is needed there. On a
// machine with 2 MiB of cache a core it moved 12 GB/s where memcpy, piece by
// piece, moved 7; to memory that was in the caches the two were equal.
//
// Not for small buffers, nor for what is read next. Thread-safe function. What
// it wrote is seen by other threads as after any store.

#ifndef MILLRACE_COMMON_BULK_COPY_H_
#define MILLRACE_COMMON_BULK_COPY_H_

#include <cstddef>

namespace millrace {

// The areas must not overlap. Any alignment.
void BulkCopy(void* to, const void* from, size_t bytes);

}  // namespace millrace

#endif  // MILLRACE_COMMON_BULK_COPY_H_
