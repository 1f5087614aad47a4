// ThreadTimes are the kernel scheduler's counters of a thread: the time that it
// ran, and the time that it was ready but no CPU was free. In the rest of its
// time the thread waited: for a disk, a socket, a sleep or a lock.
//
// Reads /proc; safe from any thread. About 10 us a thread.
//
//   std::optional<ThreadTimes> times = ThreadTimes::Of(thread_id);

#ifndef MILLRACE_SERVER_PIPELINE_THREADS_THREAD_TIMES_H_
#define MILLRACE_SERVER_PIPELINE_THREADS_THREAD_TIMES_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::pipeline {

struct ThreadTimes {
  double cpu_seconds = 0;
  double delayed_seconds = 0;  // ready to run, no CPU

  // The times of a thread of this process. nullopt: there is no such thread, or
  // the system does not count (Linux without CONFIG_SCHED_INFO).
  static std::optional<ThreadTimes> Of(pid_t thread);

  // From the text of /proc/PID/task/ID/schedstat: nanoseconds that it ran, that
  // it was delayed, and times that it was given a CPU
  // (Documentation/scheduler/sched-stats.rst of the kernel).
  static std::optional<ThreadTimes> Parse(std::string_view text);
};

// Nanoseconds so far in which the calling thread was ready to run and had no
// CPU. A call takes about 1 us. Keeps a file open for the thread. 0: the system
// does not count, or has no descriptor left.
int64_t ThisThreadsDelay();

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_THREADS_THREAD_TIMES_H_
