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
    uint32_t threads = 1;  // now
    uint32_t most = 1;     // that may be
    double thread_seconds = 0;
    double idle_seconds = 0;  // no work
    // Of the others; the rest they waited.
    bool knows_cpu = false;
    double cpu_seconds = 0;
    double delayed_seconds = 0;  // no CPU was free
    uint64_t samples = 0;
  };
  Workers workers;

  // Those that read ahead. None: most is 0.
  struct Readers {
    uint32_t threads = 0;
    uint32_t most = 0;
    double thread_seconds = 0;
    double idle_seconds = 0;
    // For samples before theirs to be used, or for a source that may not be
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
  // Clauses. Empty: no change, or a small step that tries whether what did not
  // pay before does now.
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
  // Threads that read are not reduced below so many: they cost next to nothing.
  static constexpr uint32_t kLeastReaders = 32;

  ThreadDecision Decide(const ThreadMeasurement& measured) override;

 private:
  // A number that grew and must show that it pays.
  struct Trial {
    uint32_t from = 0;  // 0: none
    double gain = 1;    // of samples/s that was expected
    double rate = 0;    // samples/s before
    double sign = 0;    // what was measured of the load, before
    double due = 0;     // seconds until it is judged
  };
  // What growing further did not pay beyond.
  struct Ceiling {
    uint32_t threads = 0;  // 0: none
    double sign = 0;
    double seconds_left = 0;
  };
  struct Kind {
    Trial trial;
    Ceiling ceiling;
    bool probing = false;  // beyond a ceiling that has only grown old
    // The last ceiling ended because the load seemed to be another one, and how
    // often growing did not pay all the same: the load's sign varies by itself.
    bool other_load = false;
    uint32_t misled = 0;
    uint32_t too_many = 0;  // intervals in a row
  };

  // Time passes; a ceiling ends when `sign` says that the load is another.
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
  uint32_t crowded_at_ =
      0;  // what they shrank to when no CPU was free; 0: never
  Kind readers_;
  bool has_read_ = false;  // samples have come since reading began
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_THREADS_THREAD_TUNER_H_
