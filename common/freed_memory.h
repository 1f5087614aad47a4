// The memory that malloc keeps after it was freed, and the memory of the
// process.
//
// Thread-safe.

#ifndef MILLRACE_COMMON_FREED_MEMORY_H_
#define MILLRACE_COMMON_FREED_MEMORY_H_

#include <cstdint>

namespace millrace {

// Gives memory that was freed back to the system. Threads that allocate
// meanwhile wait for parts of it: tens of milliseconds for a gigabyte.
void ReturnFreedMemory();

// Resident memory of the process, pages of mapped files included. 0: the system
// does not say.
uint64_t ResidentBytes();

// Bytes that malloc has given out and that are not freed. 0: another malloc is
// in use, which does not report it. Scans the lists of free blocks:
// milliseconds for many.
uint64_t AllocatedBytes();

}  // namespace millrace

#endif  // MILLRACE_COMMON_FREED_MEMORY_H_
