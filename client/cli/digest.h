// Digests that say what was delivered, whatever the order of arrival: sums mod
// 2^128 of a hash of each sample, so that the parts of ranks can be added.
//
//   order digest    XXH3-128(global position u64, source u32, logical index
//   i64) content digest  XXH3-128(global position u64, then the row's bytes in
//   each
//                   tensor, in the order of the batch; of a ragged tensor: the
//                   number of values u64, then the values)
//
// All numbers little-endian; a hash counts as high64 * 2^64 + low64. Rows that
// are not valid (padding) do not count. The source is 0 while a plan has one.
//
// EpochAudit also counts distinct samples. Not thread-safe: one a thread, then
// Merge().

#ifndef MILLRACE_CLIENT_CLI_DIGEST_H_
#define MILLRACE_CLIENT_CLI_DIGEST_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

// A set of indices; memory follows what is in it, not the largest index.
class IndexSet {
 public:
  // False when it was there.
  bool Insert(uint64_t index);
  void Merge(const IndexSet& other);
  uint64_t size() const { return size_; }

 private:
  static constexpr uint64_t kPageBits = 4096;
  using Page = std::array<uint64_t, kPageBits / 64>;

  uint64_t size_ = 0;
  absl::flat_hash_map<uint64_t, Page> pages_;
};

class EpochAudit {
 public:
  // DataLoss: the batch has no `sample_index` and `valid`, or one that is
  // negative where the row is valid. `header` and `payload` were validated.
  absl::Status Add(const BatchHeader& header,
                   absl::Span<const uint8_t> payload);
  void Merge(const EpochAudit& other);

  uint64_t samples() const { return samples_; }
  uint64_t distinct() const { return indices_.size(); }
  absl::uint128 order_digest() const { return order_digest_; }
  absl::uint128 content_digest() const { return content_digest_; }

 private:
  uint64_t samples_ = 0;
  IndexSet indices_;
  absl::uint128 order_digest_ = 0;
  absl::uint128 content_digest_ = 0;
};

// 32 hexadecimal digits.
std::string DigestText(absl::uint128 digest);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_DIGEST_H_
