// The identity of a dataset's content: a hash of every sample, their sum, and
// the fingerprint made of it (docs/formats.md defines all three byte by byte).
//
// The content hash is a sum over samples, so that shards can be hashed in any
// order and apart from each other; the index is part of each sample's hash, so
// that two samples that change places change the sum. It guards against
// mistakes and damage, not against an attacker.
//
// Pure functions; ContentSum belongs to one thread at a time.
//
//   ContentSum sum;
//   for (...) sum.Add(index, fields);
//   info.set_fingerprint(DatasetFingerprint(n, schema, sum.value()));

#ifndef MILLRACE_SERVER_STORAGE_CONTENT_HASH_H_
#define MILLRACE_SERVER_STORAGE_CONTENT_HASH_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

// An unsigned 128-bit number.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

// 32 hexadecimal digits, the most significant first.
std::string HashToHex(Hash128 hash);
// False when `text` is anything else.
bool HashFromHex(absl::string_view text, Hash128* hash);

// XXH3-128 of any bytes.
Hash128 HashBytes(absl::Span<const uint8_t> bytes);

// Hash of one sample at logical index `index`.
Hash128 HashSample(int64_t index,
                   absl::Span<const absl::Span<const uint8_t>> fields);

// Sum of sample hashes modulo 2^128.
class ContentSum {
 public:
  void Add(int64_t index, absl::Span<const absl::Span<const uint8_t>> fields) {
    Add(HashSample(index, fields));
  }
  void Add(Hash128 hash);
  Hash128 value() const { return sum_; }

 private:
  Hash128 sum_;
};

// Hash of (samples, schema with classes, content): 32 hexadecimal digits.
std::string DatasetFingerprint(int64_t samples, const Schema& schema,
                               Hash128 content);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CONTENT_HASH_H_
