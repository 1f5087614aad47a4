#include "proto/grpc_status.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "proto/error_detail.h"
#include "proto/names.h"
#include "proto/rpc_status.pb.h"
#include "proto/types.pb.h"
#include "proto/wire/message_digest.h"

namespace millrace {
namespace {

// Of a message of gRPC's own, which names each address that it tried, or of a
// proxy's.
constexpr size_t kMaxReceivedBytes = 4096;

std::optional<ErrorDetail> UnpackDetail(const RpcStatus& rpc) {
  for (const google::protobuf::Any& any : rpc.details()) {
    ErrorDetail detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status,
                          std::optional<uint64_t> answer_seed) {
  if (status.ok()) return grpc::Status::OK;
  const int code = static_cast<int>(status.code());
  RpcStatus rpc;
  rpc.set_code(code);
  rpc.set_message(CleanText(status.message(), kMaxStatusMessageBytes));
  rpc.add_details()->PackFrom(GetErrorDetail(status));
  std::string details = rpc.SerializeAsString();
  if (answer_seed.has_value()) {
    details = wire::WithDigest(std::move(details), *answer_seed);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(code), rpc.message(),
                      details);
}

absl::Status FromGrpcStatus(const grpc::Status& status,
                            std::optional<uint64_t> answer_seed) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      CleanText(status.error_message(), kMaxReceivedBytes));
  const wire::DigestCheck digest =
      answer_seed.has_value()
          ? wire::CheckDigest(status.error_details(), *answer_seed)
          : wire::DigestCheck::kAbsent;
  RpcStatus rpc;
  const bool parsed = rpc.ParseFromString(status.error_details());
  const std::optional<ErrorDetail> detail =
      parsed ? UnpackDetail(rpc) : std::nullopt;
  if (digest == wire::DigestCheck::kWrong) {
    return absl::DataLossError(
        absl::StrCat("the request or its error answer was damaged on the way: their digest does not match (the answer arrived as ",
                     absl::StatusCodeToString(result.code()), ")"));
  }
  // The digest does not cover gRPC's own code and message.
  if (digest == wire::DigestCheck::kRight && parsed && rpc.code() != 0) {
    result = absl::Status(static_cast<absl::StatusCode>(rpc.code()),
                          CleanText(rpc.message(), kMaxReceivedBytes));
  }
  return detail.has_value() ? WithErrorDetail(std::move(result), *detail)
                            : result;
}

}  // namespace millrace
