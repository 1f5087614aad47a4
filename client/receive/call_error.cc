#include "client/receive/call_error.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/prefetch/connection_doubt.h"
#include "proto/blocked_call.h"
#include "proto/error_detail.h"
#include "proto/grpc_status.h"
#include "proto/wire/version.h"

namespace millrace::receive {
namespace {

// Parts of gRPC's message about a failed connection; the reason follows:
// "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:...:
// Socket closed".
constexpr absl::string_view kNotConnected =
    "failed to connect to all addresses";
constexpr absl::string_view kRemote = "Failed to connect to remote host: ";
// Reasons when the other side accepted the connection and closed it before it
// sent anything. Which one depends on the bytes in flight.
constexpr absl::string_view kClosedAtOnce[] = {
    "Socket closed", "Connection reset by peer", "Broken pipe"};

// The reason when the bytes on a new connection were not HTTP/2.
constexpr absl::string_view kNoHttp2 = "parsing HTTP/2";

// The reason when the other side accepted the connection and sent nothing.
constexpr absl::string_view kNothingCame =
    "connection attempt timed out before receiving SETTINGS frame";

// Part of gRPC's message about a message beyond the receiver's limit. This
// client has no limit, so that message is the request.
constexpr absl::string_view kTooLarge = "larger than max";

absl::Status NotTheServers(const absl::Status& error, size_t request_bytes) {
  const std::string said = absl::StrCat(absl::StatusCodeToString(error.code()),
                                        ": ", error.message());
  if (absl::IsUnimplemented(error)) {
    return prefetch::WithDoubt(
        absl::UnimplementedError(absl::StrCat(
            "no millrace-server answers there, or a proxy on the way has no "
            "route to it (",
            said, ")")),
        prefetch::ConnectionDoubt::kDamaged);
  }
  if (absl::IsResourceExhausted(error) &&
      absl::StrContains(error.message(), kTooLarge)) {
    if (request_bytes <= wire::kMaxRequestBytes) {
      return absl::DataLossError(absl::StrCat(
          "the request was damaged on the way: it has ", request_bytes,
          " bytes, and the server read a length above its limit (", said, ")"));
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("the request is too large for the server (", said,
                     "); make the pipeline spec smaller"));
  }
  return prefetch::WithDoubt(
      absl::UnavailableError(absl::StrCat(
          "a proxy or the network ended the call, not the server (", said,
          ")")),
      prefetch::ConnectionDoubt::kDamaged);
}

}  // namespace

absl::Status CallError(const grpc::Status& status, size_t request_bytes,
                       std::optional<uint64_t> answer_seed) {
  const absl::Status error = FromGrpcStatus(status, answer_seed);
  if (absl::IsCancelled(error)) {
    return prefetch::WithDoubt(absl::UnavailableError(absl::StrCat(
                                   "the server ended the call early (",
                                   error.message(), "); it may be stopping")),
                               prefetch::ConnectionDoubt::kSuspect);
  }
  if (HasErrorDetail(error)) return error;
  // The digest does not match; nothing on the way ends calls with this code.
  if (answer_seed.has_value() && absl::IsDataLoss(error)) return error;
  if (!absl::IsUnavailable(error)) return NotTheServers(error, request_bytes);
  absl::string_view message = error.message();
  if (absl::StartsWith(message, kTookNothing)) {
    return prefetch::WithDoubt(error, prefetch::ConnectionDoubt::kSuspect);
  }
  if (const size_t at = message.rfind(kRemote); at != absl::string_view::npos) {
    message.remove_prefix(at + kRemote.size());
    return absl::UnavailableError(message);
  }
  if (!absl::StrContains(message, kNotConnected)) {
    return prefetch::WithDoubt(error, prefetch::ConnectionDoubt::kLost);
  }
  for (const absl::string_view reason : kClosedAtOnce) {
    if (!absl::EndsWith(message, reason)) continue;
    return prefetch::WithDoubt(
        absl::UnavailableError(absl::StrCat(
            "the connection was closed before the server sent anything (",
            reason,
            "). Possible reasons: a proxy without a server, or a "
            "millrace-server at its --max_connections or "
            "--max_connections_per_peer (its log names the limit, and "
            "`millrace status` counts refused_connections)")),
        prefetch::ConnectionDoubt::kLost);
  }
  if (absl::EndsWith(message, kNothingCame)) {
    return absl::UnavailableError(absl::StrCat(
        "the connection was accepted, but the server sent nothing: it is "
        "stopped (SIGSTOP, a debugger) or gets no CPU time (",
        kNothingCame, ")"));
  }
  if (absl::StrContains(message, kNoHttp2)) {
    return prefetch::WithDoubt(error, prefetch::ConnectionDoubt::kDamaged);
  }
  return error;
}

}  // namespace millrace::receive
