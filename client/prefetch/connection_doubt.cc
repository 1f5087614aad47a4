#include "client/prefetch/connection_doubt.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace millrace::prefetch {
namespace {

constexpr absl::string_view kPayloadUrl = "millrace.client.ConnectionDoubt";

}  // namespace

absl::Status WithDoubt(absl::Status status, ConnectionDoubt doubt) {
  if (status.ok() || doubt == ConnectionDoubt::kNone) return status;
  status.SetPayload(kPayloadUrl,
                    absl::Cord(absl::StrCat(static_cast<int>(doubt))));
  return status;
}

ConnectionDoubt DoubtOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return ConnectionDoubt::kNone;
  for (const ConnectionDoubt doubt :
       {ConnectionDoubt::kLost, ConnectionDoubt::kSuspect}) {
    if (*payload == absl::StrCat(static_cast<int>(doubt))) return doubt;
  }
  return ConnectionDoubt::kDamaged;
}

std::string FailedConnectionsText(uint32_t connections) {
  if (connections < 2) return "";
  return absl::StrCat(
      connections,
      " connections in a row have failed like this: ", kDamagingLink);
}

}  // namespace millrace::prefetch
