#include "client/receive/call_error.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/error_detail.h"
#include "proto/grpc_status.h"

namespace millrace {
namespace {

// In gRPC's sentence about a message beyond its receiver's limit. A client of
// ours has no limit, so that the message is the request.
constexpr absl::string_view kTooLarge = "larger than max";

absl::Status NotTheServers(const absl::Status& error) {
  const std::string said = absl::StrCat(absl::StatusCodeToString(error.code()),
                                        ": ", error.message());
  if (absl::IsUnimplemented(error)) {
    return absl::UnimplementedError(
        absl::StrCat("no millrace-server answers there, or a proxy on the way "
                     "has no route to it (",
                     said, ")"));
  }
  if (absl::IsResourceExhausted(error) &&
      absl::StrContains(error.message(), kTooLarge)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the request is too large for the server (", said,
                     "); the pipeline spec is most of it"));
  }
  return absl::UnavailableError(
      absl::StrCat("the connection or a proxy on the way ended the call, not "
                   "the server (",
                   said, ")"));
}

}  // namespace

absl::Status CallError(const grpc::Status& status) {
  const absl::Status error = FromGrpcStatus(status);
  if (absl::IsCancelled(error)) {
    return absl::UnavailableError(
        absl::StrCat("the server ended the call early (", error.message(),
                     "); it may be stopping"));
  }
  if (!absl::IsUnavailable(error)) {
    return HasErrorDetail(error) ? error : NotTheServers(error);
  }
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
