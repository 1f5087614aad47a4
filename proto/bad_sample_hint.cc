#include "proto/bad_sample_hint.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "proto/error_detail.h"

namespace millrace {

absl::Status WithBadSampleHint(const absl::Status& status) {
  if (!absl::IsDataLoss(status) || GetErrorDetail(status).sample() < 0) {
    return status;
  }
  absl::Status longer(
      status.code(),
      absl::StrCat(status.message(), "; ", kVerifyHint,
                   "; to continue without them: bad_samples { action: "
                   "SUBSTITUTE } (or ZERO) in the file of --pipeline"));
  status.ForEachPayload(
      [&longer](absl::string_view url, const absl::Cord& payload) {
        longer.SetPayload(url, payload);
      });
  return longer;
}

}  // namespace millrace
