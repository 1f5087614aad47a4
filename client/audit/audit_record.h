// AuditRecord identifies, in 32 bytes, the samples that a rank received in one
// step. Audit logs (docs/formats.md) consist of these records.
//
// It does not contain the samples' indices: it contains digests of them.
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

namespace millrace::audit {

struct AuditRecord {
  // Rows of samples, including empty rows of damaged samples, without padding.
  uint32_t samples = 0;
  // XXH3-64 of `sample_index`, seeded with the position of row 0; where there
  // are several sources, XXH3-64 of `source_index` seeded with that.
  uint64_t ids = 0;
  // Sum mod 2^64 of SampleHash of these rows. The sum of an epoch does not
  // depend on the order of steps, on ranks or on world sizes.
  uint64_t sample_sum = 0;
  uint64_t payload_xxh3 = 0;  // 0: unknown

  friend bool operator==(const AuditRecord&, const AuditRecord&) = default;
};

// XXH3-64 of source (uint32) and logical index (int64), little-endian.
uint64_t SampleHash(uint32_t source, int64_t index);

// The sum for samples 0 .. samples - 1 of source 0. About 15 ns per sample.
uint64_t SumOfAllSamples(uint64_t samples);

// DataLoss: the batch has no `sample_index`. `header` and `payload` were
// validated.
absl::StatusOr<AuditRecord> RecordOf(const BatchHeader& header,
                                     absl::Span<const uint8_t> payload);

}  // namespace millrace::audit

#endif  // MILLRACE_CLIENT_AUDIT_AUDIT_RECORD_H_
