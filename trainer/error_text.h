// The text of an error as the trainer prints it: with stage, dataset, shard and
// row when the status carries them, as a data server prints them.

#ifndef MILLRACE_TRAINER_ERROR_TEXT_H_
#define MILLRACE_TRAINER_ERROR_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/error_detail.h"

namespace millrace::trainer {

// "DATA_LOSS: [decode error, dataset photos, shard a.mdb, row 17, sample 17]
// server ...: ..."; without a detail, the message alone.
inline std::string ErrorText(const absl::Status& status) {
  return HasErrorDetail(status) ? FormatError(status)
                                : std::string(status.message());
}

// Adds text around the message of `error`; code and payload stay. OK stays OK.
inline absl::Status WithWords(const absl::Status& error,
                              absl::string_view before,
                              absl::string_view after) {
  if (error.ok()) return error;
  absl::Status longer(error.code(),
                      absl::StrCat(before, error.message(), after));
  error.ForEachPayload(
      [&longer](absl::string_view url, const absl::Cord& payload) {
        longer.SetPayload(url, payload);
      });
  return longer;
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_ERROR_TEXT_H_
