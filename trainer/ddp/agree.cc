#include "trainer/ddp/agree.h"

#include <ATen/Functions.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::ddp {

absl::Status Agree(absl::Status mine, Communicator& ranks,
                   absl::string_view before, bool* together) {
  const uint32_t world = ranks.world_size();
  if (together != nullptr) *together = world == 1;
  if (world == 1) return mine;
  // One number for each rank: the sum names the ranks that cannot continue.
  // Every rank makes the call, also one with an error, because the others wait
  // for it.
  torch::Tensor left = at::zeros({world}, torch::kInt64);
  auto* of_rank = left.data_ptr<int64_t>();
  if (!mine.ok()) of_rank[ranks.rank()] = 1;
  const absl::Status summed = ranks.Sum(left);
  if (together != nullptr) *together = summed.ok();
  // A rank's own error explains more than the call's error.
  if (!mine.ok()) return mine;
  MR_RETURN_IF_ERROR(summed);
  for (uint32_t rank = 0; rank < world; ++rank) {
    if (of_rank[rank] == 0) continue;
    return absl::CancelledError(
        absl::StrCat("stopped before ", before, " because rank ", rank, " of ",
                     world, " stopped; see the log of that rank"));
  }
  return absl::OkStatus();
}

}  // namespace millrace::ddp
