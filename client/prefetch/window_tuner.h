// WindowTuner finds the window of a loader, the batches that are asked for and
// not yet consumed, by trying: it needs no model of servers and links.
//
// clang-format off
//   the consumer waits      twice as much is asked for. It stays so when the
//                           consumer then gets batches faster, and is taken
//                           back when it does not: the servers or the link give
//                           no more.
//   nothing more to gain    less is asked for, as long as batches come as fast:
//                           half, and three quarters where half was too little.
//                           What is too much only queues at servers and takes
//                           memory, theirs and ours.
//   the consumer never      what always lay in hand beyond a margin is not
//   waits                   asked for any more.
//   servers are short of    less is asked for.
//   memory
// clang-format on
//
// Why trials: how long a step takes says little, since a window that is too
// large queues its own steps (latency = window / rate, Little's law), and the
// latency without a queue is not seen where there always is one. Congestion
// control has met the same (BBR, Cardwell et al., CACM 2017, which also probes
// up and down in turns).
//
// Calm: a trial is judged by what comes after a whole window has gone through,
// a change must bring more than the rates vary by themselves, and after a trial
// that has brought nothing the next waits twice as long (10 s to 2 min). A
// change of load (the rate, the consumer's own time for a batch or the number
// of servers) ends that waiting.
//
// Pure: no clock, no thread, no I/O. Not thread-safe.
//
//   switch (tuner.Look(batches, seconds)) {  // since counting began
//     case WindowTuner::Next::kGoOn: break;
//     case WindowTuner::Next::kCountAnew: ... begin to count ...; break;
//     case WindowTuner::Next::kDecide:
//       if (tuner.Decide(seen)) Say(tuner.window(), tuner.reason());
//       ... begin to count ...
//   }

#ifndef MILLRACE_CLIENT_PREFETCH_WINDOW_TUNER_H_
#define MILLRACE_CLIENT_PREFETCH_WINDOW_TUNER_H_

#include <cstdint>
#include <string>

namespace millrace {

// What was seen since counting began, all of it at one window.
struct WindowInterval {
  // From the consumer's taking a batch to its taking one `batches` later.
  double seconds = 0;
  uint64_t batches = 0;      // at least 1
  double stall_seconds = 0;  // of `seconds`, that it waited for them
  // Whole batches, one after the other from the next one on, that the consumer
  // found when it came for one: the least.
  uint64_t least_in_hand = 0;
  uint32_t servers = 0;  // in use
  // What the servers say: they hold batches back for want of memory; or they
  // work on batches for this client all the time, on all their threads.
  bool servers_lack_memory = false;
  bool servers_are_busy = false;
};

class WindowTuner {
 public:
  struct Options {
    uint32_t initial = 16;
    uint32_t most = 64;  // at least 1
    // A window of so many batches takes so little memory that a smaller one is
    // not worth looking for.
    uint32_t cheap = 0;
  };

  enum class Next { kGoOn, kCountAnew, kDecide };

  explicit WindowTuner(const Options& options);

  uint32_t window() const { return window_; }
  // Why the last change was made: a clause. Empty: there was none.
  const std::string& reason() const { return reason_; }
  uint64_t changes() const { return changes_; }

  // What to do when so many batches were consumed since counting began.
  Next Look(uint64_t batches, double seconds);

  // True when the window has changed. Counting begins anew, in any case.
  bool Decide(const WindowInterval& seen);

  // What was counted says nothing (a Seek(), the end of the data). The caller
  // begins to count anew.
  void Disturbed();

 private:
  // Seconds a batch. `own` is the consumer's, `wait` what it waited.
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
    double next = 0;    // how long the one after the next failure is
    double failed = 0;  // when a trial did
  };

  // How many times longer a batch takes at `a` than at `b`, if the consumer's
  // own time were the same.
  static double Ratio(const Pace& a, const Pace& b);

  uint32_t least() const;
  // What to do at a window that is not on trial.
  bool Choose(const WindowInterval& seen, const Pace& pace);
  bool Steady(const WindowInterval& seen, const Pace& pace);
  bool JudgeMore(const WindowInterval& seen, const Pace& pace);
  bool JudgeLess(const WindowInterval& seen, const Pace& pace);
  bool TryMore(const Pace& before);
  bool TryLess(uint32_t window, std::string reason);
  // What was seen goes into the running mean.
  void Follow(const Pace& pace);
  // Looks whether the load is another than that of `reference_`.
  bool LoadHasChanged(const WindowInterval& seen, const Pace& pace);
  void BeginLoad(const WindowInterval& seen, const Pace& pace);
  void Fail(Pause* pause);
  // For another load: the pause is over, but for a short one.
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
  bool waited_ = false;  // the consumer did, before a trial with less
  // At window_, or at back_ during a trial; a running mean.
  Pace base_;
  bool base_known_ = false;
  // The best of this load.
  Pace reference_;
  uint32_t servers_ = 0;
  uint32_t others_ = 0;  // intervals in a row that looked like another load,
                         // twice where it is a very different one
  double noise_ = 0;     // of base_, a share
  // Calm intervals at this window.
  uint32_t calm_ = 0;
  double calm_seconds_ = 0;
  uint64_t calm_in_hand_ = 0;

  Pause more_;
  Pause less_;
  double less_by_ = 0;  // how much of the window the next trial with less has
  double lacked_memory_until_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_WINDOW_TUNER_H_
