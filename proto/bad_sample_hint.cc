#include "proto/bad_sample_hint.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/error_detail.h"

namespace millrace {
namespace {

constexpr absl::string_view kPolicyHint =
    "; to continue without damaged samples, set bad_samples of the pipeline to "
    "SUBSTITUTE or ZERO";

bool ConcernsSample(const absl::Status& status) {
  return absl::IsDataLoss(status) && GetErrorDetail(status).sample() >= 0;
}

absl::Status Reworded(const absl::Status& status, const std::string& message) {
  absl::Status reworded(status.code(), message);
  status.ForEachPayload(
      [&reworded](absl::string_view url, const absl::Cord& payload) {
        reworded.SetPayload(url, payload);
      });
  return reworded;
}

}  // namespace

absl::Status WithPolicyHint(const absl::Status& status) {
  if (!ConcernsSample(status)) return status;
  return Reworded(status, absl::StrCat(status.message(), kPolicyHint));
}

absl::Status WithoutPolicyHint(const absl::Status& status) {
  absl::string_view message = status.message();
  if (!absl::ConsumeSuffix(&message, kPolicyHint)) return status;
  return Reworded(status, std::string(message));
}

absl::Status WithBadSampleHint(const absl::Status& status) {
  if (!ConcernsSample(status)) return status;
  const absl::Status plain = WithoutPolicyHint(status);
  return Reworded(
      plain, absl::StrCat(plain.message(), "; ", kVerifyHint,
                          "; to continue without them: bad_samples { action: "
                          "SUBSTITUTE } (or ZERO) in the file of --pipeline"));
}

}  // namespace millrace
