#include "proto/wire/open_answer.h"

#include <google/protobuf/unknown_field_set.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"

namespace millrace {
namespace {

constexpr size_t kDigestBytes = 8;

// A fixed64 field: its tag, then the digest.
std::string DigestField(uint64_t digest) {
  OpenResponse field;
  field.set_answer_xxh3(digest);
  return field.SerializeAsString();
}

}  // namespace

uint64_t OpenAnswerDigest(absl::string_view request, absl::string_view answer) {
  return XXH3_64bits_withSeed(answer.data(), answer.size(),
                              XXH3_64bits(request.data(), request.size()));
}

std::string SerializeOpenAnswer(absl::string_view request,
                                OpenResponse answer) {
  answer.clear_answer_xxh3();
  const std::string bytes = answer.SerializeAsString();
  return bytes + DigestField(OpenAnswerDigest(request, bytes));
}

absl::Status ParseOpenAnswer(absl::string_view request, absl::string_view bytes,
                             OpenResponse* answer) {
  if (!answer->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError(
        "it answered Open with bytes that are no message");
  }
  const std::string any_digest = DigestField(0);
  const absl::string_view tag =
      absl::string_view(any_digest).substr(0, any_digest.size() - kDigestBytes);
  const size_t content =
      bytes.size() - std::min(bytes.size(), any_digest.size());
  const absl::string_view end = bytes.substr(content);
  // Damage may hide the digest: in the field before it, or as a field with
  // another number. Where there is any trace of one, it must be right.
  if (!answer->has_answer_xxh3() && !absl::StartsWith(end, tag) &&
      answer->GetReflection()->GetUnknownFields(*answer).empty()) {
    return absl::OkStatus();
  }
  if (DigestField(OpenAnswerDigest(request, bytes.substr(0, content))) != end) {
    return absl::DataLossError(
        "Open was damaged on the way: the digest of the request and its answer "
        "does not match");
  }
  return absl::OkStatus();
}

}  // namespace millrace
