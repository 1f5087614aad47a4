// Converts statuses where they cross gRPC, in both directions. The ErrorDetail
// travels in the status details as google.rpc.Status does, so that clients in
// other languages can read it with their gRPC library.
//
// Thread-safe, pure.
//
//   reactor->Finish(ToGrpcStatus(status, AnswerSeed(request)));       // server
//   MR_RETURN_IF_ERROR(FromGrpcStatus(answer, AnswerSeed(request)));  // client
//   GetErrorDetail(status).retry_delay_ms();

#ifndef MILLRACE_PROTO_GRPC_STATUS_H_
#define MILLRACE_PROTO_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace millrace {

// Longer messages are cut: they travel in HTTP/2 headers, which receivers
// limit to 8 KiB, up to three bytes a character, and a second time in the
// details.
inline constexpr size_t kMaxStatusMessageBytes = 1200;

// Codes are the same numbers on both sides. What peers and files have put into
// a message is made readable (common/clean_text.h). An error always gets
// an ErrorDetail, if need be an empty one: by it a client tells the server's
// answer from one of gRPC or of a proxy.
//
// `answer_seed`: AnswerSeed() of the request (proto/wire/message_digest.h). The
// details then have a digest, which covers code, message and detail.
grpc::Status ToGrpcStatus(const absl::Status& status,
                          std::optional<uint64_t> answer_seed = std::nullopt);

// Details that cannot be read are left out: the code and message stand, the
// latter made readable likewise, since anybody may have answered.
//
// With `answer_seed` the digest of the details is checked. Where it is right,
// code and message are those of the details. DataLoss without ErrorDetail: the
// status is damaged, or it answers a request that was. A status without a
// digest (of a server of an earlier version, or the refusal of a request that
// was damaged) is taken as it is.
absl::Status FromGrpcStatus(const grpc::Status& status,
                            std::optional<uint64_t> answer_seed = std::nullopt);

}  // namespace millrace

#endif  // MILLRACE_PROTO_GRPC_STATUS_H_
