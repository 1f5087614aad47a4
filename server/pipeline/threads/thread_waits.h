// The system's counters of the calling thread's waits. Unlike clocks, these
// numbers do not grow when the thread has only lost its CPU to another thread.
// About 0.3 us for a call.

#ifndef MILLRACE_SERVER_PIPELINE_THREADS_THREAD_WAITS_H_
#define MILLRACE_SERVER_PIPELINE_THREADS_THREAD_WAITS_H_

#include <sys/resource.h>

#include <cstdint>

namespace millrace::pipeline {

struct ThreadWaits {
  // Times that it gave up its CPU to wait for something: a disk, a socket, a
  // sleep, a lock that another holds.
  uint64_t switches = 0;
  // Pages of files that it touched and that had to be read first.
  uint64_t page_reads = 0;
  // Time that it had a CPU.
  int64_t cpu_nanos = 0;

  static int64_t Nanos(const timeval& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_usec} * 1000;
  }
  static ThreadWaits Now() {
    rusage usage = {};
    getrusage(RUSAGE_THREAD, &usage);
    return {static_cast<uint64_t>(usage.ru_nvcsw),
            static_cast<uint64_t>(usage.ru_majflt),
            Nanos(usage.ru_utime) + Nanos(usage.ru_stime)};
  }
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_THREADS_THREAD_WAITS_H_
