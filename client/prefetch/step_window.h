// StepWindow knows, for every batch between the next one to hand out and the
// first one that nobody was asked for, whether it is asked for, waits to be
// asked again or is whole.
//
// Batches have the numbers of Sequence. At most `capacity` are in the window,
// so an entry is a place in a ring. Pure bookkeeping; not thread-safe.

#ifndef MILLRACE_CLIENT_PREFETCH_STEP_WINDOW_H_
#define MILLRACE_CLIENT_PREFETCH_STEP_WINDOW_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "client/prefetch/sequence.h"
#include "client/prefetch/transport.h"

namespace millrace {

class StepWindow {
 public:
  enum class State {
    kAsked,    // by `calls` calls
    kWaiting,  // to be asked again
    kWhole,
  };

  struct Step {
    State state = State::kWhole;
    uint32_t calls = 0;
    uint32_t arriving = 0;  // calls that fill a slot with it
    ServerId avoid = 0;     // the server that failed it last
    bool damaged = false;   // an answer to it was, once
    absl::Time asked;       // when it was, by the first of `calls`
  };

  // Batches that follow one another.
  struct Run {
    uint64_t first = 0;
    uint64_t count = 0;
  };

  explicit StepWindow(uint32_t capacity) : steps_(capacity) {}

  uint64_t end() const { return end_; }
  bool has_waiting() const { return waiting_ > 0; }

  Step& at(uint64_t number) { return steps_[number % steps_.size()]; }
  bool incomplete(uint64_t number) {
    return number >= low_ && number < end_ && at(number).state != State::kWhole;
  }

  // Every batch below is whole.
  uint64_t low() const { return low_; }

  // Adds `count` batches that one call asks for.
  void Append(uint64_t count, absl::Time now);

  // The first batches, at most `limit`, that wait to be asked again, avoid the
  // same server and lie in one epoch. Count 0: there are none.
  Run FirstWaiting(uint64_t limit, const Sequence& sequence);

  // One more call asks for each of them.
  void Ask(Run run, absl::Time now);

  // A call that asked for `number` has ended without it. True when no other
  // call asks for it: then it waits.
  bool Lost(uint64_t number, ServerId failed);

  void MarkWhole(uint64_t number);

 private:
  std::vector<Step> steps_;
  uint64_t low_ = 0;
  uint64_t end_ = 0;
  uint64_t waiting_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_STEP_WINDOW_H_
