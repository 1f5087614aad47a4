#include "server/plan/epoch_steps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/logging.h"
#include "common/nearest_divisors.h"
#include "proto/flag_hint.h"

namespace millrace::plan {

absl::StatusOr<EpochSteps> EpochSteps::Create(uint64_t samples,
                                              uint64_t batch_size,
                                              LastBatch last) {
  MR_CHECK(samples >= 1 && batch_size >= 1);
  EpochSteps table(samples, batch_size, last);
  table.steps_ = samples / batch_size;
  if (last == LAST_BATCH_DROP) {
    if (table.steps_ == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch_size ", batch_size, " is larger than the ",
                       CountText(samples, "sample"),
                       " of an epoch and last_batch is DROP, so the epoch "
                       "would have no batch: lower batch_size, or set ",
                       kPadLastBatch));
    }
    table.dropped_ = samples % batch_size;
  } else if (samples % batch_size != 0) {
    ++table.steps_;
  }
  return table;
}

absl::Status EpochSteps::CheckWorld(uint32_t world) const {
  if (world == 0) {
    return absl::InvalidArgumentError(
        "the world size is 0: a job has at least one rank");
  }
  if (batch_size_ % world == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "world size ", world, " does not divide batch_size ", batch_size_,
      " (the global batch): the nearest world sizes that divide it are ",
      NearestDivisorsText(batch_size_, world)));
}

absl::StatusOr<StepRows> EpochSteps::Rows(uint64_t step, uint32_t rank,
                                          uint32_t world) const {
  if (absl::Status checked = CheckWorld(world); !checked.ok()) return checked;
  if (rank >= world) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " of world size ", world,
                     ": ranks are 0 .. ", world - 1));
  }
  if (step >= steps_) {
    return absl::OutOfRangeError(absl::StrCat(
        "step ", step, " is after the end of the epoch, which has ",
        CountText(steps_, "step"), " (0 .. ", steps_ - 1, ")"));
  }
  const uint64_t start = step * batch_size_;
  const uint64_t left = std::min(batch_size_, samples_ - start);
  StepRows rows;
  rows.global_valid = left;
  if (last_ == LAST_BATCH_PARTIAL && left < batch_size_) {
    // No overflow: left < 2^20, and world divides the batch.
    const uint64_t begin = left * rank / world;
    const uint64_t end = left * (rank + 1) / world;
    rows.first = start + begin;
    rows.rows = rows.valid = end - begin;
    return rows;
  }
  rows.rows = batch_size_ / world;
  rows.first = start + rank * rows.rows;
  rows.valid =
      rows.first >= samples_ ? 0 : std::min(rows.rows, samples_ - rows.first);
  return rows;
}

}  // namespace millrace::plan
