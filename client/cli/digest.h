// EpochAudit counts the samples of an epoch and computes digests of them that
// do not depend on the order of arrival: sums mod 2^128 of a hash of each
// sample, so that the sums of ranks can be added.
//
//   order digest
//       XXH3-128(global position u64, source u32, logical index i64)
//   content digest
//       XXH3-128(global position u64, then the row's bytes in each tensor, in
//       the order of the batch; for a ragged tensor: the number of values u64,
//       then the values)
//
// All numbers are little-endian; a hash is high64 * 2^64 + low64. Rows that are
// not valid (padding) do not count. The source is `source_index`, or 0 without
// this tensor.
//
// It does not read audit logs: those have other digests
// (client/audit/audit_record.h).
//
// Not thread-safe: use one per thread, then Merge().
//
//   MR_RETURN_IF_ERROR(audit.Add(batch.header, batch.payload));
//   const EpochVerdict verdict = JudgeEpoch(audit, plan, epoch);

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

namespace millrace::cli {

// A set of indices. Memory grows with the number of indices, not with the
// largest.
class IndexSet {
 public:
  // False: the index was in the set.
  bool Insert(uint64_t index);
  void Merge(const IndexSet& other);
  // Number of indices that both have.
  uint64_t Common(const IndexSet& other) const;
  uint64_t size() const { return size_; }

 private:
  static constexpr uint64_t kPageBits = 4096;
  using Page = std::array<uint64_t, kPageBits / 64>;

  uint64_t size_ = 0;
  absl::flat_hash_map<uint64_t, Page> pages_;
};

class EpochAudit {
 public:
  // DataLoss: the batch has no `sample_index` and `valid`, or a valid row has a
  // negative index or source. `header` and `payload` were validated.
  absl::Status Add(const BatchHeader& header,
                   absl::Span<const uint8_t> payload);
  void Merge(const EpochAudit& other);

  uint64_t samples() const { return samples_; }
  uint64_t distinct() const;
  // Of a source; 0 for a source without samples.
  uint64_t samples(int source) const {
    return Has(source) ? sources_[source].samples : 0;
  }
  uint64_t distinct(int source) const {
    return Has(source) ? sources_[source].indices.size() : 0;
  }
  // Rows that name a sample and are not valid: the policy ZERO sends damaged
  // samples so. These rows are in no other count.
  uint64_t empty_rows(int source) const {
    return Has(source) ? sources_[source].empty_rows : 0;
  }
  // Distinct samples that rows name, valid or not.
  uint64_t named(int source) const;
  // Distinct samples of valid rows that rows of `other` name, valid or not.
  uint64_t CountNamedIn(const EpochAudit& other) const;
  // Number of sources, up to the last one with a sample.
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
  std::vector<Source> sources_;  // up to the last one with a sample
  absl::uint128 order_digest_ = 0;
  absl::uint128 content_digest_ = 0;
};

// Samples of an epoch that did not come, and that came more often than the plan
// says.
struct EpochVerdict {
  uint64_t missing = 0;
  uint64_t duplicates = 0;
  // Not counted above, because the policy for damaged samples explains them:
  // empty rows of ZERO, and samples that SUBSTITUTE replaced.
  uint64_t empty_rows = 0;
  uint64_t replaced = 0;
  // More samples may have been replaced: a sample that took the place of
  // another one cannot be told from a sample of the plan.
  bool replaced_is_min = false;
};

// Checks that every sample came exactly once in this epoch. For sources with a
// schedule (docs/order.md), which an epoch passes partly or several times: the
// number of samples is right, no sample comes twice where the epoch lies within
// one pass over the source, and every sample comes where the epoch contains a
// whole pass.
//
// Under the policy ZERO, a row that names its sample counts as the sample.
// Under SUBSTITUTE, the number of samples must be right; samples that replace
// others look the same as samples that came twice, or are samples that DROP
// leaves out. `dropped`: the rows that DROP leaves out of this epoch, which
// tell the latter; null: not known, or there are none.
EpochVerdict JudgeEpoch(const EpochAudit& audit, const OpenResponse& plan,
                        uint64_t epoch, const EpochAudit* dropped = nullptr);

// Whether the epochs of this plan have a schedule of several sources.
bool HasSchedule(const OpenResponse& plan);

// 32 hexadecimal digits.
std::string DigestText(absl::uint128 digest);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_DIGEST_H_
