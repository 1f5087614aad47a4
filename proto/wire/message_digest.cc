#include "proto/wire/message_digest.h"

#include <xxhash.h>

#include <cstddef>

#include "absl/strings/match.h"

namespace millrace::wire {
namespace {

// Field 15000 of wire type 1 (fixed64), as a varint.
constexpr absl::string_view kTag = "\xc1\xa9\x07";
constexpr size_t kDigestBytes = 8;
constexpr size_t kFieldBytes = kTag.size() + kDigestBytes;

std::string Digest(absl::string_view content, uint64_t seed) {
  uint64_t digest = XXH3_64bits_withSeed(content.data(), content.size(), seed);
  std::string bytes;
  for (size_t i = 0; i < kDigestBytes; ++i, digest >>= 8) {
    bytes.push_back(static_cast<char>(digest & 0xff));
  }
  return bytes;
}

}  // namespace

std::string WithDigest(std::string content, uint64_t seed) {
  const std::string digest = Digest(content, seed);
  content.append(kTag.data(), kTag.size());
  return content + digest;
}

DigestCheck CheckDigest(absl::string_view bytes, uint64_t seed, bool declared) {
  const DigestCheck without =
      declared ? DigestCheck::kWrong : DigestCheck::kAbsent;
  if (bytes.size() < kFieldBytes) return without;
  const absl::string_view field = bytes.substr(bytes.size() - kFieldBytes);
  const absl::string_view content = bytes.substr(0, bytes.size() - kFieldBytes);
  const bool same = Digest(content, seed) == field.substr(kTag.size());
  if (absl::StartsWith(field, kTag)) {
    return same ? DigestCheck::kRight : DigestCheck::kWrong;
  }
  // The right digest after another tag: the tag is damaged, and a parser takes
  // the digest for another field.
  return same ? DigestCheck::kWrong : without;
}

uint64_t AnswerSeed(absl::string_view request) {
  return XXH3_64bits(request.data(), request.size());
}

}  // namespace millrace::wire
