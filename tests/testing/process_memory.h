// What a process holds of memory that is its own: RssAnon + RssShmem of
// /proc/PID/status. Pages of files (LMDB's) are the kernel's and not counted.

#ifndef MILLRACE_TESTS_TESTING_PROCESS_MEMORY_H_
#define MILLRACE_TESTS_TESTING_PROCESS_MEMORY_H_

#include <sys/types.h>

#include <cstdint>

namespace millrace::testing {

// In bytes; 0 when the process is gone.
uint64_t AnonymousBytes(pid_t pid);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_PROCESS_MEMORY_H_
