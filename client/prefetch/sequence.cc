#include "client/prefetch/sequence.h"

#include <limits>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"

namespace millrace {

absl::StatusOr<Sequence> Sequence::Create(Position start, uint64_t epochs,
                                          uint64_t steps_per_epoch) {
  if (steps_per_epoch == 0) {
    return absl::InvalidArgumentError(
        "the plan has no steps: the dataset is empty, or smaller than one "
        "batch that must be full");
  }
  if (start.step > steps_per_epoch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "start step ", start.step, " lies past the end of an epoch of ",
        steps_per_epoch,
        " steps; was the position stored by a job with another batch size?"));
  }
  // Far enough for ever, and sums with a window cannot overflow.
  constexpr uint64_t kWithoutEnd = std::numeric_limits<uint64_t>::max() / 4;
  uint64_t total = kWithoutEnd;
  if (epochs != 0) {
    const absl::uint128 batches =
        absl::uint128(epochs) * steps_per_epoch - start.step;
    if (batches < kWithoutEnd) total = absl::Uint128Low64(batches);
  }
  return Sequence(start, steps_per_epoch, total);
}

}  // namespace millrace
