// SampleCheck compares a stored sample with its dataset's schema: the size of
// every tensor and the range of every class index. Storage applies it to each
// sample that it hands out, so that later stages may rely on it.
//
// Immutable, thread-safe. No allocation while samples are right.
//
//   MR_ASSIGN_OR_RETURN(SampleCheck check, SampleCheck::Create(schema));
//   MR_RETURN_IF_ERROR(check.Check(fields));

#ifndef MILLRACE_SERVER_STORAGE_SAMPLE_CHECK_H_
#define MILLRACE_SERVER_STORAGE_SAMPLE_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

class SampleCheck {
 public:
  // InvalidArgument: the schema has no field, a field without a name, of an
  // unknown kind or type, with a negative or absurd size, two of one name, or
  // classes on a field that is no int64 scalar; names the field.
  static absl::StatusOr<SampleCheck> Create(const Schema& schema);

  int fields() const { return static_cast<int>(fields_.size()); }
  // Bytes of field `i` in every sample; -1 where they vary.
  int64_t fixed_bytes(int i) const { return fields_[i].bytes; }

  // DataLoss: names the field and the mistake. The caller knows shard and row.
  absl::Status Check(absl::Span<const absl::Span<const uint8_t>> fields) const;
  // The same of the fields `which` alone.
  absl::Status Check(absl::Span<const absl::Span<const uint8_t>> fields,
                     absl::Span<const int> which) const;

 private:
  struct FieldRule {
    std::string name;
    int64_t bytes = -1;       // exact, -1: any
    int64_t multiple = 1;     // RAGGED: bytes of an element
    int64_t num_classes = 0;  // 0: no class index
  };
  static bool IsGood(const FieldRule& rule, absl::Span<const uint8_t> field);
  absl::Status Explain(
      absl::Span<const absl::Span<const uint8_t>> fields) const;
  absl::Status ExplainField(int i, absl::Span<const uint8_t> field) const;

  std::vector<FieldRule> fields_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SAMPLE_CHECK_H_
