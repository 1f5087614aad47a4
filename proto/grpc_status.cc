#include "proto/grpc_status.h"

#include <string>

#include "absl/strings/string_view.h"
#include "proto/error_detail.h"
#include "proto/names.h"
#include "proto/rpc_status.pb.h"
#include "proto/types.pb.h"

namespace millrace {
namespace {

// Length of the UTF-8 character at the start of `text`, 0 when it is none.
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  const size_t length = first < 0x80           ? 1
                        : (first >> 5) == 0x06 ? 2
                        : (first >> 4) == 0x0e ? 3
                        : (first >> 3) == 0x1e ? 4
                                               : 0;
  if (length == 0 || length > text.size()) return 0;
  uint32_t code = length == 1 ? first : first & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  static constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < kLeast[length] || code > 0x10ffff || surrogate ? 0 : length;
}

std::string CleanMessage(absl::string_view message) {
  std::string clean;
  while (!message.empty()) {
    const size_t length = Utf8Length(message);
    if (clean.size() + length > kMaxStatusMessageBytes - 3) {
      clean += "...";
      break;
    }
    if (length == 0) {
      clean += '?';
      message.remove_prefix(1);
    } else {
      clean.append(message.data(), length);
      message.remove_prefix(length);
    }
  }
  return clean;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const int code = static_cast<int>(status.code());
  RpcStatus rpc;
  rpc.set_code(code);
  rpc.set_message(CleanMessage(status.message()));
  ErrorDetail detail = GetErrorDetail(status);
  detail.set_shard(CleanMessage(detail.shard()));
  detail.set_dataset(CleanMessage(detail.dataset()));
  rpc.add_details()->PackFrom(detail);
  return grpc::Status(static_cast<grpc::StatusCode>(code), rpc.message(),
                      rpc.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
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
