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
// are not valid (padding) do not count. The source is that of `source_index`, 0
// without one.
//
// EpochAudit also counts distinct samples, by source. Not thread-safe: one a
// thread, then Merge().

#ifndef MILLRACE_CLIENT_CLI_DIGEST_H_
#define MILLRACE_CLIENT_CLI_DIGEST_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

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
  // DataLoss: the batch has no `sample_index` and `valid`, or one (or a
  // `source_index`) that is negative where the row is valid. `header` and
  // `payload` were validated.
  absl::Status Add(const BatchHeader& header,
                   absl::Span<const uint8_t> payload);
  void Merge(const EpochAudit& other);

  uint64_t samples() const { return samples_; }
  uint64_t distinct() const;
  // Of a source; 0 of one that has given none.
  uint64_t samples(int source) const {
    return Has(source) ? sources_[source].samples : 0;
  }
  uint64_t distinct(int source) const {
    return Has(source) ? sources_[source].indices.size() : 0;
  }
  // Rows that name a sample and do not hold it: the policy ZERO leaves those of
  // damaged samples empty. They count nowhere else.
  uint64_t empty_rows(int source) const {
    return Has(source) ? sources_[source].empty_rows : 0;
  }
  // Distinct samples that rows name, held or not.
  uint64_t named(int source) const;
  // Sources up to the last that has given or named a sample.
  int sources() const { return static_cast<int>(sources_.size()); }
  absl::uint128 order_digest() const { return order_digest_; }
  absl::uint128 content_digest() const { return content_digest_; }

 private:
  struct Source {
    uint64_t samples = 0;
    IndexSet indices;
    uint64_t empty_rows = 0;
    IndexSet empty;
  };
  bool Has(int source) const {
    return source < static_cast<int>(sources_.size());
  }

  uint64_t samples_ = 0;
  std::vector<Source> sources_;  // up to the last that has named a sample
  absl::uint128 order_digest_ = 0;
  absl::uint128 content_digest_ = 0;
};

// Samples of an epoch that should have come and did not, and that came more
// often than the plan says.
struct EpochVerdict {
  uint64_t missing = 0;
  uint64_t duplicates = 0;
  // What the policy for damaged samples explains, and is not counted above:
  // rows that ZERO has left empty, and samples that are missing because
  // SUBSTITUTE has put others in their places.
  uint64_t empty_rows = 0;
  uint64_t replaced = 0;
};

// Whether every sample came exactly once in this epoch or, of sources with a
// schedule (docs/order.md), as often as an epoch of this number takes it of the
// walks over its source: their number always, each sample once where the epoch
// lies within one walk, all of them where it holds a whole one.
//
// Under the policy ZERO a row that names its sample stands for it. Under
// SUBSTITUTE the number of samples must be right; those that came in the places
// of others cannot be told from those that came again by mistake.
EpochVerdict JudgeEpoch(const EpochAudit& audit, const OpenResponse& plan,
                        uint64_t epoch);

// 32 hexadecimal digits.
std::string DigestText(absl::uint128 digest);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_DIGEST_H_
