#include "server/pipeline/threads/thread_tuner.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace millrace::pipeline {
namespace {

// The constants below are choices, checked by the simulated loads of
// thread_tuner_simulation_test.cc, and have no unit unless the comment says
// otherwise. A measured constant says so.
//
// Max factor by which a thread count grows in one step, and the min count of
// read threads after a step: a wrong model does little harm before the next
// interval.
constexpr double kGrowth = 4;
constexpr double kFewThreads = 16;

// Threads that are idle for less than this share of their time are the
// bottleneck; otherwise something else is.
constexpr double kBusyIdleShare = 0.1;
// The same for counts below the number of CPUs, where more threads cost
// nothing.
constexpr double kSafeIdleShare = 0.3;
// Share of the runnable time that threads spend in the queue for a CPU. Above
// it, no CPU is left for more threads.
constexpr double kCrowdedShare = 0.15;
// Busy thread-seconds in a second below which there is too little work for a
// decision.
constexpr double kMinBusySeconds = 0.05;

// Share of the expected gain that a trial must reach.
constexpr double kMinGain = 0.25;
// A rate below this part of the rate before the trial is harm, whatever limits
// it now.
constexpr double kHarm = 0.9;
// Seconds that a ceiling stays while the load seems unchanged. Then a step by
// the factor kProbe tries again, without a log line. Long compared with the
// interval of 2 s, so that trials cost little.
constexpr double kHold = 36;
constexpr double kProbe = 1.5;
// A load whose sign differs by more than this factor counts as another load.
constexpr double kOtherLoad = 1.5;
// Upper bound of Kind::misled. With a factor of 2 to this power, no sign
// distinguishes two loads any more.
constexpr uint32_t kMaxMisled = 20;

// The count grows if kGrowFrom times as many threads are wanted. It shrinks if
// kShrinkFrom of the count is enough, for kShrinkIntervals intervals in a row.
// The gap between the factors prevents oscillation.
constexpr double kGrowFrom = 1.15;
constexpr double kShrinkFrom = 0.7;
constexpr double kReaderShrinkFrom = 0.75;
constexpr uint32_t kShrinkIntervals = 2;
constexpr uint32_t kReaderShrinkIntervals = 4;

// Count of read threads as a multiple of the result of Little's law, for
// growing and for shrinking. The excess is for reads that take longer than the
// average.
constexpr double kHeadRoom = 1.3;
constexpr double kShrinkRoom = 1.5;
// Share of their time that read threads must read before more of them may help.
constexpr double kReadersBusy = 0.8;
// If the process takes more than kDearHandOver times the CPU time of decoding
// for everything else, only the part kServed of the CPUs counts for read
// threads. Measured with samples of 256 bytes, 2 ms away: 256 threads read
// 112,000/s, 384 read 75,000/s.
constexpr double kDearHandOver = 1;
constexpr double kServed = 0.85;
// Share of their time that worker threads are in the queue for a CPU. Above it,
// more read threads would only take the CPU from them.
constexpr double kInLine = 0.1;
// Part of the CPUs above which the process has no CPU left.
constexpr double kCpusTaken = 0.9;

uint32_t Threads(double number) {
  return static_cast<uint32_t>(std::clamp(number, 1.0, 1e6));
}

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

int Percent(double share) {
  return static_cast<int>(std::lround(100 * std::clamp(share, 0.0, 1.0)));
}

std::string Time(double seconds) {
  if (seconds >= 1) return absl::StrFormat("%.1f s", seconds);
  if (seconds >= 0.001) return absl::StrFormat("%.1f ms", 1e3 * seconds);
  return absl::StrFormat("%.0f us", 1e6 * seconds);
}

}  // namespace

void ThreadTuner::Pass(Kind& kind, double seconds, double sign) {
  // Also without a trial: then `due` has no meaning, and Begin() sets it.
  kind.trial.due -= seconds;
  Ceiling& ceiling = kind.ceiling;
  if (ceiling.threads == 0) return;
  ceiling.seconds_left -= seconds;
  const double differs = std::ldexp(kOtherLoad, kind.misled);
  const bool other =
      sign > 0 && ceiling.sign > 0 &&
      (sign > differs * ceiling.sign || ceiling.sign > differs * sign);
  // Unknown signs (0) give no information; then only the age ends a ceiling.
  if (!other && ceiling.seconds_left > 0) return;
  kind.probing = !other;
  kind.other_load = other;
  ceiling = Ceiling();
}

bool ThreadTuner::Failed(Kind& kind, double rate, bool limited_elsewhere,
                         bool has_work) {
  if (kind.trial.from == 0 || kind.trial.due > 0) return false;
  // A trial is judged once, whatever the result.
  const Trial trial = kind.trial;
  kind.trial = Trial();
  const double wanted = trial.rate * (1 + kMinGain * (trial.gain - 1));
  const bool did_harm = has_work && rate < kHarm * trial.rate;
  // The trial passed or cannot be judged: the current bottleneck would limit
  // the rate with any number of threads.
  if (rate >= wanted || (limited_elsewhere && !did_harm)) {
    kind.probing = false;
    // More threads helped, so signs are trusted slightly more again.
    if (rate >= wanted) kind.misled /= 2;
    return false;
  }
  if (kind.other_load) kind.misled = std::min(kind.misled + 1, kMaxMisled);
  kind.ceiling = {trial.from, trial.sign, kHold};
  return true;
}

uint32_t ThreadTuner::Next(const Kind& kind, uint32_t now, double wanted,
                           double step) {
  // A probe exceeds the old ceiling, which was cleared, by a small step.
  const double max = kind.probing ? std::ceil(kProbe * now) : step;
  const uint32_t next = Threads(std::round(std::min(wanted, max)));
  return kind.ceiling.threads == 0 ? next
                                   : std::min(next, kind.ceiling.threads);
}

void ThreadTuner::Begin(Kind& kind, uint32_t from, double gain, double rate,
                        double sign, double wait_seconds) {
  kind.too_many = 0;
  kind.trial = {from, gain, rate, sign, wait_seconds};
}

ThreadDecision ThreadTuner::Decide(const ThreadMeasurement& measured) {
  ThreadDecision decision;
  decision.workers = measured.workers.threads;
  decision.readers = measured.readers.threads;
  if (measured.seconds <= 0) return decision;
  DecideWorkers(measured, decision);
  DecideReaders(measured, decision);
  return decision;
}

void ThreadTuner::DecideWorkers(const ThreadMeasurement& measured,
                                ThreadDecision& decision) {
  const ThreadMeasurement::Workers& m = measured.workers;
  const uint32_t n = m.threads;
  const double busy = m.thread_seconds - m.idle_seconds;
  const double idle_share = Share(m.idle_seconds, m.thread_seconds);
  // Without the system's counters all busy time counts as CPU time; the result
  // is then the number of CPUs.
  const double cpu = m.knows_cpu ? m.cpu_seconds : busy;
  const double delayed = m.knows_cpu ? m.delayed_seconds : 0;
  const double waited = std::max(0.0, busy - cpu - delayed);
  const double wait_ratio = Share(cpu + waited, cpu);  // the sign of the load
  Pass(workers_, measured.seconds, wait_ratio);
  if (m.max_threads <= 1 || busy < kMinBusySeconds * measured.seconds) {
    // An interval without work decides nothing and does not count towards
    // shrinking.
    workers_.too_many = 0;
    return;
  }
  const double rate = static_cast<double>(m.samples) / measured.seconds;
  const bool crowded = Share(delayed, cpu + delayed) > kCrowdedShare &&
                       idle_share < kSafeIdleShare;
  // Rounded up, because a container's limit may be 1.5 CPUs. The small term
  // keeps a limit such as 2.0001 from counting as 3.
  const uint32_t cpus =
      std::min(m.max_threads, Threads(std::ceil(measured.cpus - 0.01)));
  // Back to the count before the trial, but not below the number of CPUs, which
  // needs no trial.
  if (Failed(workers_, rate, idle_share >= kBusyIdleShare || crowded, false)) {
    decision.workers = std::max(cpus, workers_.ceiling.threads);
    if (decision.workers < n) {
      if (!workers_.probing) {
        decision.workers_reason =
            "more worker threads did not raise the throughput";
      }
      return;
    }
    decision.workers = n;
  }
  // The count that keeps the available CPUs busy. If other processes use CPUs,
  // threads that were on a CPU or blocked count, and threads in the queue for a
  // CPU do not.
  const double wanted = crowded ? (cpu + waited) / measured.seconds
                                : measured.cpus * (cpu + waited) /
                                      std::max(cpu, 1e-3 * measured.seconds);
  if (n < cpus && idle_share < kSafeIdleShare) {
    decision.workers = cpus;
    decision.workers_reason = absl::StrFormat(
        "worker threads were busy %d %% of the time, with %.3g CPUs",
        Percent(1 - idle_share), measured.cpus);
    // Not a trial: the count does not exceed the number of CPUs.
    workers_.too_many = 0;
    return;
  }
  // A trial is in progress: the count stays until the trial is judged.
  if (workers_.trial.from != 0) return;

  const uint32_t target =
      std::min(Next(workers_, n, wanted, std::max(kGrowth * n, 1.0 * cpus)),
               m.max_threads);
  if (target > n && n >= cpus && wanted >= kGrowFrom * n &&
      idle_share < kBusyIdleShare) {
    decision.workers = target;
    if (!workers_.probing)
      decision.workers_reason = absl::StrFormat(
          "worker threads waited %d %% of the time while CPUs were idle%s",
          Percent(Share(waited, busy)),
          target == m.max_threads && wanted >= kGrowFrom * m.max_threads
              ? "; this is the maximum (number of CPUs or memory budget)"
              : "");
    Begin(workers_, n, static_cast<double>(target) / n, rate, wait_ratio,
          2 * measured.seconds);
    return;
  }
  if (n > cpus && wanted <= kShrinkFrom * n) {
    if (++workers_.too_many < kShrinkIntervals) return;
    decision.workers = std::max(cpus, Threads(std::ceil(wanted)));
    if (decision.workers >= n) {
      decision.workers = n;
      return;
    }
    if (crowded) {
      // Logged once for about this count, not again when the next probe finds
      // no CPU.
      const double before = crowded_at_;
      if (before == 0 || decision.workers > kProbe * before ||
          before > kProbe * decision.workers) {
        decision.workers_reason =
            absl::StrFormat("worker threads queued for a CPU %d %% of the time",
                            Percent(Share(delayed, busy)));
      }
      crowded_at_ = decision.workers;
      // Without a ceiling, the model would return to the old count in the next
      // interval, in which no thread queues for a CPU any more.
      workers_.ceiling = {decision.workers, wait_ratio, kHold};
    } else {
      decision.workers_reason =
          absl::StrFormat("worker threads waited only %d %% of the time",
                          Percent(Share(waited, busy)));
    }
    workers_.too_many = 0;
    return;
  }
  workers_.too_many = 0;
}

void ThreadTuner::DecideReaders(const ThreadMeasurement& measured,
                                ThreadDecision& decision) {
  const ThreadMeasurement::Readers& m = measured.readers;
  const ThreadMeasurement::Workers& w = measured.workers;
  const double seconds = measured.seconds;
  const uint32_t n = m.threads;
  const double reading =
      std::max(0.0, m.thread_seconds - m.idle_seconds - m.blocked_seconds);
  const double reading_share = Share(reading, m.thread_seconds);
  const double a_read = Share(m.read_seconds, static_cast<double>(m.samples));
  Pass(readers_, seconds, a_read);
  if (m.max_threads == 0 || n == 0 || reading < kMinBusySeconds * seconds) {
    readers_.too_many = 0;
    has_read_ = false;
    return;
  }
  // Set while reads continue; cleared above when they stop.
  has_read_ |= m.samples > 0;
  const double rate = static_cast<double>(m.samples) / seconds;
  const double worker_idle = Share(w.idle_seconds, w.thread_seconds);
  const bool is_idle = Share(m.idle_seconds, m.thread_seconds) > 0.5;
  const bool crowded =
      w.knows_cpu && Share(w.delayed_seconds, w.thread_seconds) > kInLine;
  if (Failed(readers_, rate,
             worker_idle < kBusyIdleShare || reading_share < kReadersBusy,
             !is_idle || crowded)) {
    decision.readers = std::max(readers_.ceiling.threads, uint32_t{1});
    if (decision.readers < n) {
      if (!readers_.probing) {
        decision.readers_reason =
            "more read threads did not raise the read rate";
      }
      return;
    }
    decision.readers = n;
  }
  if (readers_.trial.from != 0) return;

  // Samples/s that the worker threads could process: a sample occupies a thread
  // for some time, and all threads share the CPUs. At least the measured rate.
  const double samples = static_cast<double>(w.samples);
  const double delayed = w.knows_cpu ? w.delayed_seconds : 0;
  const double occupied = w.thread_seconds - w.idle_seconds - delayed;
  double could = 0;  // 0: unknown
  if (samples > 0 && occupied > 0) {
    could =
        std::max(1.0 * w.threads,
                 std::min(measured.cpus, static_cast<double>(w.max_threads))) *
        samples / occupied;
    if (w.knows_cpu && w.cpu_seconds > 0) {
      could = std::min(could, measured.cpus * samples / w.cpu_seconds);
    }
    could = std::max(could, rate);
  }
  const bool knows = could > 0 && a_read > 0;
  // Samples arrive in bursts (a row group), and this interval has none. The
  // next interval decides.
  if (!knows && has_read_) return;

  // Reads that compute (they decode row groups) keep the CPUs busy themselves,
  // so more threads would not help.
  const bool no_cpu =
      measured.process_cpu_seconds > kCpusTaken * measured.cpus * seconds;
  if (reading_share >= kReadersBusy && worker_idle >= kBusyIdleShare &&
      !crowded && !no_cpu) {
    const double step = std::max(kGrowth * n, kFewThreads);
    double wanted = knows ? std::ceil(could * a_read * kHeadRoom) : step;
    const double cpu = measured.process_cpu_seconds;
    if (knows && w.knows_cpu && cpu > (1 + kDearHandOver) * w.cpu_seconds) {
      wanted = std::min(
          wanted, std::ceil(kServed * measured.cpus * samples / cpu * a_read));
    }
    const uint32_t target =
        std::min(Next(readers_, n, wanted, step), m.max_threads);
    if (target > n && wanted >= kGrowFrom * n) {
      decision.readers = target;
      if (!readers_.probing)
        decision.readers_reason =
            knows ? absl::StrFormat(
                        "a read takes %s, and worker threads were idle %d %% "
                        "of the time",
                        Time(a_read), Percent(worker_idle))
                  : absl::StrFormat(
                        "all read threads wait for their first samples");
      Begin(readers_, n,
            knows ? std::min(1.0 * target / n, Share(could, rate)) : 1, rate,
            a_read, std::max(2 * seconds, 3 * a_read));
    }
    readers_.too_many = 0;
    return;
  }
  // Not busy, or not the bottleneck: fewer threads may be enough.
  const uint32_t min = std::min(kMinReaders, m.max_threads);
  const double needed = std::ceil(rate * a_read * kShrinkRoom);
  if (n > min && m.samples > 0 && needed <= kReaderShrinkFrom * n) {
    if (++readers_.too_many < kReaderShrinkIntervals) return;
    decision.readers = std::max(min, Threads(needed));
    decision.readers_reason = absl::StrFormat(
        "a read takes %s, so fewer read threads are enough", Time(a_read));
    readers_.too_many = 0;
    return;
  }
  readers_.too_many = 0;
}

}  // namespace millrace::pipeline
