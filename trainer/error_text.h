// An error as the trainer prints it: with stage, dataset, shard and row where
// the status carries them, as a data server's do.

#ifndef MILLRACE_TRAINER_ERROR_TEXT_H_
#define MILLRACE_TRAINER_ERROR_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "proto/error_detail.h"

namespace millrace {

// "DATA_LOSS: [decode error, dataset photos, shard a.mdb, row 17, sample 17]
// server ...: ..."; of a status without a detail its message alone.
inline std::string ErrorText(const absl::Status& status) {
  return HasErrorDetail(status) ? FormatError(status)
                                : std::string(status.message());
}

}  // namespace millrace

#endif  // MILLRACE_TRAINER_ERROR_TEXT_H_
