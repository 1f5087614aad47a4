#include "client/receive/call_error.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/grpc_status.h"

namespace millrace {

absl::Status CallError(const grpc::Status& status) {
  const absl::Status error = FromGrpcStatus(status);
  if (absl::IsCancelled(error)) {
    return absl::UnavailableError(
        absl::StrCat("the server ended the call early (", error.message(),
                     "); it may be stopping"));
  }
  if (!absl::IsUnavailable(error)) return error;
  // "failed to connect to all addresses; last error: UNKNOWN: ipv4:...:
  // Failed to connect to remote host: Connection refused"
  absl::string_view message = error.message();
  constexpr absl::string_view kRemote = "Failed to connect to remote host: ";
  if (const size_t at = message.rfind(kRemote); at != absl::string_view::npos) {
    message.remove_prefix(at + kRemote.size());
    return absl::UnavailableError(message);
  }
  return error;
}

}  // namespace millrace
