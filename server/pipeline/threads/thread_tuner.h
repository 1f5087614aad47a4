// ThreadTuner says how many threads pay: those that decode, and those that wait
// for storage beside them. It goes by a model of what was measured in the last
// interval instead of trying numbers out, so it is there after a few intervals
// and then leaves the numbers alone.
//
// Threads that decode: as many as CPUs, when they compute and nothing else. If
// they wait (operators that sleep, pages that must be read), a CPU each is idle
// for that long, and it takes
//     CPUs x (time on a CPU + time waited) / time on a CPU
// of them to keep the CPUs busy. Where others take the CPUs, more threads than
// those that are not in line for one would only take from them.
//
// Threads that read: by Little's law (J. D. C. Little, "A proof for the queuing
// formula L = lambda W", Operations Research 9, 1961) it takes samples/s x
// seconds a read of them; samples/s are those that the decoding threads could
// take. Of tiny samples the hand-over from thread to thread takes most of the
// CPUs' time, and more of it the more threads there are: there only as many
// read as the CPUs can serve, and none is added while those that decode stand
// in line for a CPU.
//
// A number that grew and brought nothing (a lock, a disk that is busy) goes
// back and stays until what was measured changes, or some time has passed.
// What says that the load is another must differ more each time that it did so
// in vain. Nothing changes when there is nothing to measure.
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

namespace millrace {

// What was measured in an interval. Thread-seconds are sums over the threads.
struct ThreadMeasurement {
  double seconds = 0;
  double cpus = 1;  // that the process may use
  // On a CPU, of all threads of the process; 0: not known.
  double process_cpu_seconds = 0;

  // Those that decode and augment.
  struct Workers {
    // Now, and the upper bound that options and memory allow.
    uint32_t threads = 1;
    uint32_t most = 1;
    double thread_seconds = 0;
    // Without work.
    double idle_seconds = 0;
    // Of the time that is not idle: on a CPU, and in line for one. What then is
    // left they were blocked. Valid only if knows_cpu.
    bool knows_cpu = false;
    double cpu_seconds = 0;
    double delayed_seconds = 0;
    uint64_t samples = 0;
  };
  Workers workers;

  // Those that read ahead. None: most is 0.
  struct Readers {
    uint32_t threads = 0;
    uint32_t most = 0;
    double thread_seconds = 0;
    double idle_seconds = 0;
    // Blocked on room for samples, or at the gate of a source that may not be
    // read by so many.
    double blocked_seconds = 0;
    double read_seconds = 0;  // of the samples that came
    uint64_t samples = 0;
  };
  Readers readers;
};

struct ThreadDecision {
  uint32_t workers = 1;
  uint32_t readers = 0;
  // Clauses for people. Empty: no change, or a step so small that it is no
  // news: it tries whether what did not pay before does now.
  std::string workers_reason;
  std::string readers_reason;
};

// What decides; for tests with another rule.
class ThreadPolicy {
 public:
  virtual ~ThreadPolicy() = default;
  virtual ThreadDecision Decide(const ThreadMeasurement& measured) = 0;
};

class ThreadTuner final : public ThreadPolicy {
 public:
  // Lower bound to which the threads that read are reduced: a thread that
  // sleeps costs a few pages of stack. Engine::kDefaultReadThreads is the same
  // number.
  static constexpr uint32_t kLeastReaders = 32;

  ThreadDecision Decide(const ThreadMeasurement& measured) override;

 private:
  // A number that grew and must show that it pays. While a trial runs the
  // number does not change.
  struct Trial {
    // The number before; 0: no trial runs.
    uint32_t from = 0;
    // Factor by which samples/s were expected to rise.
    double gain = 1;
    // Samples/s before.
    double rate = 0;
    // What tells the load from others, before: see Pass().
    double sign = 0;
    // Seconds until it is judged: work that was begun with the old number is
    // done by then.
    double due = 0;
  };
  // The number beyond which growing did not pay. Next() stays at or below it
  // until Pass() ends it.
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
    // How often growing did not pay after such an end: each doubles the
    // difference of signs that counts as another load, for the sign varies by
    // itself.
    uint32_t misled = 0;
    // Intervals in a row in which fewer would do. Any other decision sets it to
    // 0.
    uint32_t too_many = 0;
  };

  // `seconds` have passed. A ceiling ends when its time is over, or when `sign`
  // says that the load is another one. The sign of workers is their time per
  // CPU time, that of readers the seconds a read takes; 0: not known.
  static void Pass(Kind& kind, double seconds, double sign);
  // Judges the trial that is due: whether the number goes back. A trial that
  // something else limits has not failed, unless it did harm while there was
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
  // The number that the workers last shrank to because no CPU was free; 0: they
  // never did.
  uint32_t crowded_at_ = 0;
  Kind readers_;
  // Samples have come since reading began: an interval without any is then a
  // gap and not the beginning.
  bool has_read_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_THREADS_THREAD_TUNER_H_
