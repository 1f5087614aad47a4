// AdaptMallocThresholds() makes malloc keep the memory that received bytes pass
// through. gRPC allocates memory to read a socket, and frees it after the copy
// into the slot. By default glibc gives such memory back to the system as soon
// as a little of it is free at the end of a heap, and the next read takes a
// page fault every 4 KiB: that was a third of a client's processor time.
//
// What it is not: it allocates no memory for batches (slot_allocator.h).
//
//   AdaptMallocThresholds();  // once, before receiving

#ifndef MILLRACE_CLIENT_RECEIVE_RECEIVE_MEMORY_H_
#define MILLRACE_CLIENT_RECEIVE_RECEIVE_MEMORY_H_

namespace millrace::receive {

// Lets each heap of malloc in this process keep up to 64 MiB of freed memory
// for the next read, by glibc's own rule: glibc raises its thresholds to the
// largest block that the program has freed. No effect when
// MALLOC_TRIM_THRESHOLD_ or the like is set, when the program has set the
// thresholds (common/malloc_tuning.h), or with another malloc. Touches no
// memory. Thread-safe; one call is enough.
void AdaptMallocThresholds();

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_RECEIVE_MEMORY_H_
