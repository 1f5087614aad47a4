#include "common/usage_error.h"

#include "absl/strings/cord.h"

namespace millrace {
namespace {

constexpr char kPayloadUrl[] = "millrace.UsageError";

}  // namespace

absl::Status UsageError(absl::Status status) {
  if (!status.ok() && !absl::IsCancelled(status))
    status.SetPayload(kPayloadUrl, absl::Cord());
  return status;
}

bool IsUsageError(const absl::Status& status) {
  return status.GetPayload(kPayloadUrl).has_value();
}

}  // namespace millrace
