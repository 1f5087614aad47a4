// What malloc does with memory that is freed: keeps it in the process, or gives
// it back to the kernel. A program calls one of these first in main(): it
// changes the whole process, so a library never does.
//
// With its defaults, glibc adapts to the blocks that are freed. A block above a
// threshold is a mapping of its own; when it is freed, the threshold becomes
// its size, up to 32 MiB, and from then on blocks of that size stay in the
// process, for each thread's arena.

#ifndef MILLRACE_COMMON_MALLOC_TUNING_H_
#define MILLRACE_COMMON_MALLOC_TUNING_H_

namespace millrace {

// For programs that receive batches all the time. gRPC allocates the buffers
// that it reads into and frees them when a frame has been copied. With glibc's
// defaults a freed buffer at the end of an arena goes back to the kernel at
// once, and the next one is page-faulted in again: that was a third of a
// client's CPU time. The price is up to 256 MiB of free memory kept in each
// arena, in blocks of up to 32 MiB.
//
// A program that only links the loader has the same with
// MALLOC_TRIM_THRESHOLD_=268435456 MALLOC_MMAP_THRESHOLD_=33554432 in its
// environment. client/receive/receive_memory.h is what the loader itself does,
// in any program.
void KeepFreedMemory();

// For the server, whose memory has a budget. Blocks of kLargeBlockBytes and
// more (pixels and coefficients of large images, whichever library allocates
// them) go back to the kernel when they are freed: kept by each thread, they
// took as much as the budget again. Smaller ones stay, as far as the threads'
// scratch in the budget covers them.
inline constexpr int kLargeBlockBytes = 4 << 20;
void ReturnLargeBlocks();

}  // namespace millrace

#endif  // MILLRACE_COMMON_MALLOC_TUNING_H_
