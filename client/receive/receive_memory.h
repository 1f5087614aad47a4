// What arrives lies in memory of malloc's for a moment: gRPC allocates it to
// read a socket, and it is freed after the copy into the slot. By default glibc
// gives such memory back to the system whenever a little of it is free at the
// end of a heap, and the next read takes a page fault every 4 KiB: that was a
// third of a client's processor time.

#ifndef MILLRACE_CLIENT_RECEIVE_RECEIVE_MEMORY_H_
#define MILLRACE_CLIENT_RECEIVE_RECEIVE_MEMORY_H_

namespace millrace {

// Lets each of malloc's heaps in this process keep up to 64 MiB of freed memory
// for the next read instead, by glibc's own rule: it raises its thresholds to
// the largest block that a program has freed. So it does nothing where
// MALLOC_TRIM_THRESHOLD_ or the like is set, where the program has set them
// (common/malloc_tuning.h), or where another malloc is in use.
// Touches no memory. Thread-safe; once is enough.
void AdaptMallocThresholds();

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_RECEIVE_MEMORY_H_
