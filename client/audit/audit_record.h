// AuditRecord says in 32 bytes which samples a rank was given in one step. It
// is what audit logs (docs/formats.md) are made of.
//
// Pure functions, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(AuditRecord record, RecordOf(header, payload));

#ifndef MILLRACE_CLIENT_AUDIT_AUDIT_RECORD_H_
#define MILLRACE_CLIENT_AUDIT_AUDIT_RECORD_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

struct AuditRecord {
  // Rows that hold a sample, damaged ones that the policy left empty included;
  // padding is not.
  uint32_t samples = 0;
  // XXH3-64 of `sample_index`, seeded with the position of row 0; where there
  // are several sources, XXH3-64 of `source_index` seeded with that.
  uint64_t ids = 0;
  // Sum mod 2^64 of SampleHash of these rows: whatever the order of steps,
  // ranks and world sizes, an epoch has one sum.
  uint64_t sample_sum = 0;
  uint64_t payload_xxh3 = 0;  // 0: not known

  friend bool operator==(const AuditRecord&, const AuditRecord&) = default;
};

// XXH3-64 of source (uint32) and logical index (int64), little-endian.
uint64_t SampleHash(uint32_t source, int64_t index);

// Of all samples 0 .. samples - 1 of source 0. About 15 ns a sample.
uint64_t SumOfAllSamples(uint64_t samples);

// DataLoss: the batch has no `sample_index`. `header` and `payload` were
// validated.
absl::StatusOr<AuditRecord> RecordOf(const BatchHeader& header,
                                     absl::Span<const uint8_t> payload);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_AUDIT_AUDIT_RECORD_H_
