#include "proto/grpc_status.h"

#include <string>

#include "common/clean_text.h"
#include "proto/error_detail.h"
#include "proto/names.h"
#include "proto/rpc_status.pb.h"
#include "proto/types.pb.h"

namespace millrace {
namespace {

// Of a message of gRPC's own, which names each address that it tried, or of a
// proxy's.
constexpr size_t kMaxReceivedBytes = 4096;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const int code = static_cast<int>(status.code());
  RpcStatus rpc;
  rpc.set_code(code);
  rpc.set_message(CleanText(status.message(), kMaxStatusMessageBytes));
  rpc.add_details()->PackFrom(GetErrorDetail(status));
  return grpc::Status(static_cast<grpc::StatusCode>(code), rpc.message(),
                      rpc.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      CleanText(status.error_message(), kMaxReceivedBytes));
  RpcStatus rpc;
  if (!rpc.ParseFromString(status.error_details())) return result;
  for (const google::protobuf::Any& any : rpc.details()) {
    ErrorDetail detail;
    if (any.UnpackTo(&detail)) {
      return WithErrorDetail(std::move(result), detail);
    }
  }
  return result;
}

}  // namespace millrace
