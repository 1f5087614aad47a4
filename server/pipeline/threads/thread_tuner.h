// ThreadTuner computes the best number of worker threads (which decode) and of
// read threads (which wait for storage). It uses a model of the measurements of
// the last interval instead of trying numbers, so the numbers are right after a
// few intervals and then stay.
//
// Worker threads: one for each CPU while they only compute. While a worker
// waits (an operator that sleeps, pages that must be read), its CPU is idle. To
// keep all CPUs busy, the number must be
//     CPUs x (time on a CPU + time waited) / time on a CPU
// If other programs use the CPUs, the upper bound is the number of threads that
// do not queue for a CPU.
//
// Read threads: by Little's law (J. D. C. Little, "A proof for the queuing
// formula L = lambda W", Operations Research 9, 1961) the number must be
// samples/s x seconds of a read, where samples/s is the rate that the worker
// threads could process. For tiny samples, the handover between threads takes
// most of the CPU time, and takes more with more threads. Then the CPUs limit
// the number of read threads, and none is added while worker threads queue for
// a CPU.
//
// A number that grew without effect (a lock, a busy disk) goes back and stays
// until the measurements change or some time has passed. After each wrong
// retry, the measurements must differ more before the next retry. Nothing
// changes without work.
//
// No clock, no threads: pure arithmetic. Not thread-safe.
//
//   ThreadTuner tuner;
//   const ThreadDecision wanted = tuner.Decide(measured);  // every 2 s
//   scheduler.SetThreads(wanted.workers);

#ifndef MILLRACE_SERVER_PIPELINE_THREADS_THREAD_TUNER_H_
#define MILLRACE_SERVER_PIPELINE_THREADS_THREAD_TUNER_H_

#include <cstdint>
#include <string>

namespace millrace::pipeline {

// The measurements of one interval. Thread-seconds are sums over the threads.
struct ThreadMeasurement {
  double seconds = 0;
  double cpus = 1;  // that the process may use
  // CPU time of all threads of the process; 0: unknown.
  double process_cpu_seconds = 0;

  // Those that decode and augment.
  struct Workers {
    // Now, and the upper bound that options and memory allow.
    uint32_t threads = 1;
    uint32_t max_threads = 1;
    double thread_seconds = 0;
    // Without work.
    double idle_seconds = 0;
    // Parts of the time that is not idle: on a CPU, and in the queue for a CPU.
    // In the rest of that time the threads were blocked. Valid only if
    // knows_cpu.
    bool knows_cpu = false;
    double cpu_seconds = 0;
    double delayed_seconds = 0;
    uint64_t samples = 0;
  };
  Workers workers;

  // Those that read ahead. None: max_threads is 0.
  struct Readers {
    uint32_t threads = 0;
    uint32_t max_threads = 0;
    double thread_seconds = 0;
    double idle_seconds = 0;
    // Blocked on room for samples, or at the gate of a source that limits
    // concurrent reads.
    double blocked_seconds = 0;
    double read_seconds = 0;  // of the samples that came
    uint64_t samples = 0;
  };
  Readers readers;
};

struct ThreadDecision {
  uint32_t workers = 1;
  uint32_t readers = 0;
  // Clauses for people. Empty: no change, or a small step that tries again
  // whether a larger number helps.
  std::string workers_reason;
  std::string readers_reason;
};

// The interface of the rule, so that tests can replace it.
class ThreadPolicy {
 public:
  virtual ~ThreadPolicy() = default;
  virtual ThreadDecision Decide(const ThreadMeasurement& measured) = 0;
};

class ThreadTuner final : public ThreadPolicy {
 public:
  // Lower bound of the number of read threads: a sleeping thread costs a few
  // pages of stack. Engine::kDefaultReadThreads is the same number.
  static constexpr uint32_t kMinReaders = 32;

  ThreadDecision Decide(const ThreadMeasurement& measured) override;

 private:
  // A trial of a larger number, which must raise the rate. While a trial runs,
  // the number does not change.
  struct Trial {
    // The number of threads before the trial; 0: no trial runs.
    uint32_t from = 0;
    // Factor by which samples/s were expected to rise.
    double gain = 1;
    // Samples/s before the trial.
    double rate = 0;
    // The sign of the load before the trial: see Pass().
    double sign = 0;
    // Seconds until the trial is judged. Work that was begun with the old
    // number is done by then.
    double due = 0;
  };
  // The number above which more threads did not help. Next() stays at or below
  // it until Pass() ends the ceiling.
  struct Ceiling {
    uint32_t threads = 0;  // 0: none
    double sign = 0;
    double seconds_left = 0;
  };
  struct Kind {
    Trial trial;
    Ceiling ceiling;
    // The last ceiling ended by age alone: the next step is small and silent.
    bool probing = false;
    // The last ceiling ended because the load seemed to be another one.
    bool other_load = false;
    // How often more threads did not help after `other_load`. Each time doubles
    // the difference of signs that counts as another load, because the sign
    // varies without a change of the load.
    uint32_t misled = 0;
    // Consecutive intervals in which fewer threads would be enough. Any other
    // decision sets it to 0.
    uint32_t too_many = 0;
  };

  // Records that `seconds` have passed. A ceiling ends when its time is over,
  // or when `sign` shows another load. The sign of workers is their time per
  // CPU time, the sign of readers is the seconds that a read takes; 0: unknown.
  static void Pass(Kind& kind, double seconds, double sign);
  // Judges a trial that is due. True: the number goes back. A trial whose rate
  // something else limits has not failed, unless the rate fell while there was
  // work.
  static bool Failed(Kind& kind, double rate, bool limited_elsewhere,
                     bool has_work);
  // A step of at most `step` towards `wanted`.
  static uint32_t Next(const Kind& kind, uint32_t now, double wanted,
                       double step);
  static void Begin(Kind& kind, uint32_t from, double gain, double rate,
                    double sign, double wait_seconds);

  void DecideWorkers(const ThreadMeasurement& measured,
                     ThreadDecision& decision);
  void DecideReaders(const ThreadMeasurement& measured,
                     ThreadDecision& decision);

  Kind workers_;
  // The number of workers after the last reduction for lack of a free CPU; 0:
  // there was none.
  uint32_t crowded_at_ = 0;
  Kind readers_;
  // Samples have arrived since reading began. An interval without samples is
  // then a gap and not the start.
  bool has_read_ = false;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_THREADS_THREAD_TUNER_H_
