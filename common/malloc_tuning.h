// For programs that receive batches all the time: keeps memory that is freed in
// the process, for the next frame.
//
// gRPC allocates the buffers that it reads into and frees them when a frame has
// been copied. With glibc's defaults a freed buffer at the end of an arena goes
// back to the kernel at once, and the next one is page-faulted in again: that
// was a third of a client's CPU time. The price is up to 256 MiB of free memory
// kept in each arena.
//
// Call it first in main(): it changes the whole process, so a library never
// does. A program that only links the loader has the same with
// MALLOC_TRIM_THRESHOLD_=268435456 MALLOC_MMAP_THRESHOLD_=33554432 in its
// environment.

// client/receive/receive_memory.h is what the loader itself does, in any program.

#ifndef MILLRACE_COMMON_MALLOC_TUNING_H_
#define MILLRACE_COMMON_MALLOC_TUNING_H_

namespace millrace {

// Sets glibc's thresholds for giving memory back: 256 MiB free at the end of an
// arena, or a block of 32 MiB.
void SetMallocThresholds();

}  // namespace millrace

#endif  // MILLRACE_COMMON_MALLOC_TUNING_H_
