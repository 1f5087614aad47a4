// Progress of a run for people: on a terminal one line with a bar that rewrites
// itself, otherwise a line every `log_every` steps. Only rank 0 prints.
//
// One thread.
//
//   Progress progress({.terminal = isatty(STDOUT_FILENO) == 1});
//   if (progress.Wants(step, steps)) progress.Step({...});
//   progress.Line("epoch 1/8: loss 0.5312");

#ifndef MILLRACE_TRAINER_PROGRESS_H_
#define MILLRACE_TRAINER_PROGRESS_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/mutex.h"
#include "common/program/progress_line.h"

namespace millrace::trainer {

class Progress {
 public:
  struct Options {
    bool enabled = true;       // false: nothing is printed
    bool terminal = false;     // standard output is a terminal
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

  explicit Progress(const Options& options)
      : options_(options), line_(STDOUT_FILENO, options.terminal) {}

  // True when Step() would print for this step; fetching the loss may be
  // expensive.
  bool Wants(uint64_t step, uint64_t steps) const;
  void Step(const State& state);
  // Prints one or several whole lines and clears the progress line before.
  void Line(const std::string& text);

 private:
  const Options options_;
  program::ProgressLine line_;
  mutable SteadyTime next_ = SteadyTime::min();
};

// "epoch 1/8 step 120/468  loss 0.5312  18,204 samples/s  0:04 left  waiting
// 1.2 %"
std::string FormatState(const Progress::State& state);

// The same in at most `width` characters, with a bar if there is room.
// Values that do not fit are left out from the right:
// "epoch 1/8 [=====>              ] 120/468  loss 0.5312  18,204 samples/s ..."
std::string FormatBar(const Progress::State& state, size_t width);

// "0:04", "12:30", "3:05:00"; "-" for a value that is no time.
std::string FormatClock(double seconds);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_PROGRESS_H_
