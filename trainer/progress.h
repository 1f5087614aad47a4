// What a person sees of a run: a bar that moves on a terminal, else a line
// every so many steps. Rank 0 alone prints.
//
// One thread.
//
//   Progress progress({.terminal = isatty(STDOUT_FILENO) == 1});
//   if (progress.Wants(step, steps)) progress.Step({...});
//   progress.Line("epoch 1/8: loss 0.5312");

#ifndef MILLRACE_TRAINER_PROGRESS_H_
#define MILLRACE_TRAINER_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/mutex.h"

namespace millrace {

class Progress {
 public:
  struct Options {
    bool enabled = true;       // false: nothing is printed
    bool terminal = false;     // standard output is one
    uint64_t log_every = 100;  // steps; 0: no lines between epochs
  };
  struct State {
    uint64_t epoch = 0;  // from 0
    uint64_t epochs = 0;
    uint64_t step = 0;  // done in the epoch
    uint64_t steps = 0;
    double loss = 0;  // of the last step, this rank's rows
    double samples_per_second = 0;
    double stall_share = 0;
    double seconds_left = 0;  // of the epoch
  };

  explicit Progress(const Options& options) : options_(options) {}

  // True when Step() would print for this step: reading the loss may cost.
  bool Wants(uint64_t step, uint64_t steps) const;
  void Step(const State& state);
  // A whole line, or several; the moving one is cleared before.
  void Line(const std::string& text);

 private:
  const Options options_;
  mutable SteadyTime next_ = SteadyTime::min();
};

// "epoch 1/8 step 120/468  loss 0.5312  18204 samples/s  0:04 left  waiting
// 1.2 %"
std::string FormatState(const Progress::State& state);

// The same for a terminal of so many columns, with a bar where there is room;
// what does not fit is left out from the right:
// "epoch 1/8 [=====>              ] 120/468  loss 0.5312  18204 samples/s ..."
std::string FormatBar(const Progress::State& state, size_t columns);

// "0:04", "12:30", "3:05:00"; "-" of what is no time.
std::string FormatClock(double seconds);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_PROGRESS_H_
