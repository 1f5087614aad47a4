// Agree: every rank says whether it can go on; none goes on without the others,
// which would wait for it in the next collective call.
//
//   MR_RETURN_IF_ERROR(Agree(batch.status(), *ranks, "epoch 1, step 7"));

#ifndef MILLRACE_TRAINER_DDP_AGREE_H_
#define MILLRACE_TRAINER_DDP_AGREE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trainer/ddp/communicator.h"

namespace millrace {

// OK when `mine` is on all ranks. Otherwise this rank's own error, or Cancelled
// with the rank that could not go on `before` what. A collective call; with one
// rank it is free. `together`, unless null: all ranks came to the call, so
// after an error they can still make others.
absl::Status Agree(absl::Status mine, Communicator& ranks,
                   absl::string_view before, bool* together = nullptr);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_DDP_AGREE_H_
