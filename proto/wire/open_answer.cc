#include "proto/wire/open_answer.h"

#include <google/protobuf/unknown_field_set.h>
#include <xxhash.h>

#include <cstdint>

#include "proto/wire/message_digest.h"

namespace millrace {
namespace {

uint64_t Seed(absl::string_view request) {
  return XXH3_64bits(request.data(), request.size());
}

}  // namespace

std::string SerializeOpenAnswer(absl::string_view request,
                                OpenResponse answer) {
  answer.clear_answer_xxh3();
  return WithDigest(answer.SerializeAsString(), Seed(request));
}

absl::Status ParseOpenAnswer(absl::string_view request, absl::string_view bytes,
                             OpenResponse* answer) {
  if (!answer->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError(
        "it answered Open with bytes that are no message");
  }
  const DigestCheck check = CheckDigest(bytes, Seed(request));
  // Damage may hide the digest: in the field before it, or as a field with
  // another number. Where there is any trace of one, it must be right.
  const bool none = check == DigestCheck::kAbsent &&
                    !answer->has_answer_xxh3() &&
                    answer->GetReflection()->GetUnknownFields(*answer).empty();
  if (check != DigestCheck::kRight && !none) {
    return absl::DataLossError(
        "Open was damaged on the way: the digest of the request and its answer "
        "does not match");
  }
  return absl::OkStatus();
}

}  // namespace millrace
