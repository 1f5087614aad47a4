// Sequence numbers the batches that a loader delivers. Number 0 is the batch at
// the start position, and epochs follow one another without a gap, so that
// prefetching needs no special case at the end of an epoch.
//
// Pure and immutable, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(Sequence sequence, Sequence::Create({0, 3}, 2, 10));
//   sequence.At(7);  // {1, 0}

#ifndef MILLRACE_CLIENT_PREFETCH_SEQUENCE_H_
#define MILLRACE_CLIENT_PREFETCH_SEQUENCE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/prefetch/batch_info.h"

namespace millrace::prefetch {

// "epoch 3 step 17": for errors and logs.
std::string PositionText(Position position);

class Sequence {
 public:
  // `epochs` counts from start.epoch; 0: no end. InvalidArgument: a start past
  // the end of its epoch, or a plan without steps.
  static absl::StatusOr<Sequence> Create(Position start, uint64_t epochs,
                                         uint64_t steps_per_epoch);

  // From `position` to the last epoch that Create(start, epochs, ...) has.
  // InvalidArgument: `position` is past its end.
  static absl::StatusOr<Sequence> Seek(Position position, Position start,
                                       uint64_t epochs,
                                       uint64_t steps_per_epoch);

  // Number of all batches.
  uint64_t total() const { return total_; }

  // The last step of an epoch is followed by step 0 of the next one.
  Position At(uint64_t number) const {
    const uint64_t from_epoch = start_.step + number;
    return {start_.epoch + from_epoch / steps_, from_epoch % steps_};
  }

  // Batches from `number` to the end of its epoch, at least 1.
  uint64_t LeftInEpoch(uint64_t number) const {
    return steps_ - At(number).step;
  }

 private:
  Sequence(Position start, uint64_t steps, uint64_t total)
      : start_(start), steps_(steps), total_(total) {}

  Position start_;
  uint64_t steps_;
  uint64_t total_;
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_SEQUENCE_H_
