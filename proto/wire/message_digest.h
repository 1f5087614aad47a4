// A digest at the end of a message, by which its receiver tells damage on the
// way from a peer that says something else.
//
// Field 15000 (`request_xxh3` of OpenRequest and GetBatchesRequest,
// `answer_xxh3` of OpenResponse) has the largest number of its message and is
// therefore its last field: XXH3-64 (https://github.com/Cyan4973/xxHash) of all
// bytes before it. It is found from the end of the bytes, so that it protects
// also a message that cannot be parsed.
//
// Pure functions.
//
//   const std::string bytes = WithDigest(request.SerializeAsString());
//   ...
//   if (CheckDigest(bytes) == DigestCheck::kWrong) return damaged;

#ifndef MILLRACE_PROTO_WIRE_MESSAGE_DIGEST_H_
#define MILLRACE_PROTO_WIRE_MESSAGE_DIGEST_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

enum class DigestCheck {
  kAbsent,  // of a peer of an earlier version, or the field's tag is damaged
  kRight,
  kWrong,
};

// `content` and its digest. `content` is a serialised message without one.
std::string WithDigest(std::string content, uint64_t seed = 0);

DigestCheck CheckDigest(absl::string_view bytes, uint64_t seed = 0);

}  // namespace millrace

#endif  // MILLRACE_PROTO_WIRE_MESSAGE_DIGEST_H_
