// WindowTuner finds the window of a loader, the max number of batches that are
// requested and not yet consumed, by trials. It needs no model of servers and
// links.
//
// clang-format off
//   the consumer waits      Trial with twice the window. It is kept when the
//                           consumer then gets batches faster, and otherwise
//                           taken back: servers or link are at their limit.
//   nothing more to gain    Trial with half of the window, or three quarters
//                           when half was too small. It is kept when batches
//                           come as fast as before: a window that is too large
//                           only queues batches at servers and takes memory at
//                           both ends.
//   the consumer never      The window shrinks by the batches that were always
//   waits                   ready, less a margin.
//   servers are short of    The window shrinks.
//   memory
// clang-format on
//
// Why trials: the time of a step says little, because a window that is too
// large queues its own steps (latency = window / rate, Little's law), and the
// latency without a queue cannot be seen while there is a queue. Congestion
// control has the same problem (BBR, Cardwell et al., CACM 2017, also probes up
// and down in turns).
//
// Stability: a trial is judged after a whole window of batches has passed. A
// change must gain more than the noise of the rates. After a failed trial, the
// next one waits twice as long (10 s to 2 min), until the load changes: the
// rate, the consumer's own time per batch, or the number of servers.
//
// What it is not: it measures nothing and requests nothing (WindowControl,
// BatchFetcher).
//
// Pure: no clock, no thread, no I/O. Not thread-safe.
//
//   switch (tuner.Look(batches, seconds)) {  // since counting began
//     case WindowTuner::Next::kGoOn: break;
//     case WindowTuner::Next::kRestart: ... begin to count ...; break;
//     case WindowTuner::Next::kDecide:
//       if (tuner.Decide(seen)) Say(tuner.window(), tuner.reason());
//       ... begin to count ...
//   }

#ifndef MILLRACE_CLIENT_PREFETCH_WINDOW_TUNER_H_
#define MILLRACE_CLIENT_PREFETCH_WINDOW_TUNER_H_

#include <cstdint>
#include <string>

namespace millrace::prefetch {

// Measurements since counting began, all with one window.
struct WindowInterval {
  // Time in which the consumer took `batches` batches.
  double seconds = 0;
  uint64_t batches = 0;      // at least 1
  double stall_seconds = 0;  // part of `seconds` in which it waited
  // Minimum number of batches that were ready, from the next one on without a
  // gap, when the consumer asked for a batch.
  uint64_t min_in_hand = 0;
  uint32_t servers = 0;  // in use
  // From the servers' timings: they hold batches back because they lack memory;
  // all their threads work for this client all the time.
  bool servers_lack_memory = false;
  bool servers_are_busy = false;
};

class WindowTuner {
 public:
  struct Options {
    uint32_t initial = 16;
    uint32_t max = 64;  // at least 1
    // A window of this size takes so little memory that a trial with a smaller
    // one is not worth it.
    uint32_t cheap = 0;
  };

  enum class Next { kGoOn, kRestart, kDecide };

  explicit WindowTuner(const Options& options);

  uint32_t window() const { return window_; }
  // Reason of the last change: a clause. Empty: no change yet.
  const std::string& reason() const { return reason_; }
  uint64_t changes() const { return changes_; }

  // What to do now, after `batches` were consumed since counting began.
  Next Look(uint64_t batches, double seconds);

  // True: the window has changed. Counting starts again in any case.
  bool Decide(const WindowInterval& seen);

  // The measurements so far are void (a Seek(), the end of the data). The
  // caller starts to count again.
  void Disturbed();

 private:
  // Seconds per batch: the consumer's own time, and its wait.
  struct Pace {
    double own = 0;
    double wait = 0;
    double sum() const { return own + wait; }
    double wait_share() const { return sum() > 0 ? wait / sum() : 0; }
  };
  enum class Trial { kNone, kMore, kLess };
  // Between trials, by age_.
  struct Pause {
    double until = 0;
    double next = 0;    // length of the pause after the next failure
    double failed = 0;  // time of the last failure
  };

  // Time per batch at `a` divided by that at `b`, with the consumer's own time
  // taken as equal.
  static double Ratio(const Pace& a, const Pace& b);

  uint32_t min_window() const;
  // What to do with a window that is not on trial.
  bool Choose(const WindowInterval& seen, const Pace& pace);
  bool Steady(const WindowInterval& seen, const Pace& pace);
  bool JudgeMore(const WindowInterval& seen, const Pace& pace);
  bool JudgeLess(const WindowInterval& seen, const Pace& pace);
  bool TryMore(const Pace& before);
  bool TryLess(uint32_t window, std::string reason);
  // Adds `pace` to the running mean.
  void Follow(const Pace& pace);
  // Whether the load differs from that of `reference_`.
  bool LoadHasChanged(const WindowInterval& seen, const Pace& pace);
  void BeginLoad(const WindowInterval& seen, const Pace& pace);
  void Fail(Pause* pause);
  // The load has changed: only a short pause is left.
  void Shorten(Pause* pause, double next);
  bool Change(uint32_t window, std::string reason);
  void EndCalm();

  const Options options_;
  uint32_t window_;
  std::string reason_;
  uint64_t changes_ = 0;

  bool settling_ = true;
  uint64_t settle_batches_;
  double age_ = 0;  // seconds of all intervals

  Trial trial_ = Trial::kNone;
  uint32_t back_ = 0;    // the window before the trial
  bool waited_ = false;  // the consumer waited before a trial with less
  // A running mean at window_, or at back_ during a trial.
  Pace base_;
  bool base_known_ = false;
  // The best pace of this load.
  Pace reference_;
  uint32_t servers_ = 0;
  // Intervals in a row that looked like another load; a very different one
  // counts twice.
  uint32_t others_ = 0;
  double noise_ = 0;  // of base_, a share
  // Intervals in a row without a wait, at this window.
  uint32_t calm_ = 0;
  double calm_seconds_ = 0;
  uint64_t calm_in_hand_ = 0;

  Pause more_;
  Pause less_;
  double less_by_ = 0;  // size of the next trial with less, a share of window_
  double lacked_memory_until_ = 0;
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_WINDOW_TUNER_H_
