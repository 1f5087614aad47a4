// Agree(): every rank tells whether it can continue. No rank continues without
// the others, because it would wait for them in the next collective call.
//
//   MR_RETURN_IF_ERROR(Agree(batch.status(), *ranks, "epoch 1, step 7"));

#ifndef MILLRACE_TRAINER_DDP_AGREE_H_
#define MILLRACE_TRAINER_DDP_AGREE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trainer/ddp/communicator.h"

namespace millrace::ddp {

// OK when `mine` is OK on all ranks. Otherwise this rank's own error, or
// Cancelled with the name of the rank that stopped; `before` names the place. A
// collective call; a no-op with one rank. `together`, unless null: all ranks
// took part in the call, so they can still make other calls after an error.
absl::Status Agree(absl::Status mine, Communicator& ranks,
                   absl::string_view before, bool* together = nullptr);

}  // namespace millrace::ddp

#endif  // MILLRACE_TRAINER_DDP_AGREE_H_
