#include "client/prefetch/sequence.h"

#include <limits>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "common/count_text.h"

namespace millrace::prefetch {

std::string PositionText(Position position) {
  return absl::StrCat("epoch ", position.epoch, " step ", position.step);
}

absl::StatusOr<Sequence> Sequence::Create(Position start, uint64_t epochs,
                                          uint64_t steps_per_epoch) {
  if (steps_per_epoch == 0) {
    return absl::InvalidArgumentError(
        "the plan has no steps: the dataset is empty, or smaller than one full "
        "batch");
  }
  if (start.step > steps_per_epoch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "start step ", start.step, " is past the end of an epoch of ",
        CountText(steps_per_epoch, "step"),
        "; was the position saved by a job with another batch size?"));
  }
  // No run reaches it, and sums with a window cannot overflow.
  constexpr uint64_t kWithoutEnd = std::numeric_limits<uint64_t>::max() / 4;
  uint64_t total = kWithoutEnd;
  if (epochs != 0) {
    const absl::uint128 batches =
        absl::uint128(epochs) * steps_per_epoch - start.step;
    if (batches < kWithoutEnd) total = absl::Uint128Low64(batches);
  }
  return Sequence(start, steps_per_epoch, total);
}

absl::StatusOr<Sequence> Sequence::Seek(Position position, Position start,
                                        uint64_t epochs,
                                        uint64_t steps_per_epoch) {
  if (position.step > steps_per_epoch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot seek to ", PositionText(position), ": an epoch has ",
        CountText(steps_per_epoch, "step"),
        "; was the position saved by a job with another batch size?"));
  }
  if (epochs == 0) return Create(position, 0, steps_per_epoch);
  const absl::uint128 end = absl::uint128(start.epoch) + epochs;
  const bool at_end = position.epoch == end && position.step == 0;
  if (position.epoch >= end && !at_end) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot seek to ", PositionText(position),
        ": the loader was opened for ", CountText(epochs, "epoch"),
        " from epoch ", start.epoch, "; open a loader with more epochs"));
  }
  // The end is the end of the last epoch.
  if (at_end)
    return Create({position.epoch - 1, steps_per_epoch}, 1, steps_per_epoch);
  return Create(position, absl::Uint128Low64(end - position.epoch),
                steps_per_epoch);
}

}  // namespace millrace::prefetch
