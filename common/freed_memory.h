// What malloc keeps of freed memory, and what the process holds of the
// system's.
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

// What malloc has given out and has not got back. 0: another malloc is in use,
// which does not say. Walks the lists of free blocks: milliseconds for many.
uint64_t AllocatedBytes();

}  // namespace millrace

#endif  // MILLRACE_COMMON_FREED_MEMORY_H_
