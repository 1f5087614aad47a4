// RecordSplitter turns the bytes of one record into checked fields: the rule of
// the format, the offset of labels, and the check against the schema.
//
// Immutable and thread-safe. Does not own the rule.
//
//   MR_ASSIGN_OR_RETURN(auto splitter,
//                       RecordSplitter::Create(*rule, -1, schema));
//   MR_RETURN_IF_ERROR(splitter.Split(record, {}, splitter.all(), &fields));

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_RECORD_SPLITTER_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_RECORD_SPLITTER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/extents/field_rule.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {

class RecordSplitter {
 public:
  // `schema`: that of the rule, with the classes as far as they are known.
  // Errors of SampleCheck::Create().
  static absl::StatusOr<RecordSplitter> Create(const storage::FieldRule& rule,
                                               int64_t label_offset,
                                               const Schema& schema);

  // Sets the fields. `used`: as FieldRule::Split() has it; `which`: the numbers
  // of the fields that are used. DataLoss: the record is damaged.
  absl::Status Split(absl::Span<const uint8_t> record,
                     const std::vector<bool>& used, absl::Span<const int> which,
                     RecordFields* fields) const;

  // `value` with the offset. DataLoss: it is no class index.
  absl::StatusOr<int64_t> ClassIndex(int64_t value) const;

  const storage::FieldRule& rule() const { return *rule_; }
  const SampleCheck& check() const { return check_; }
  // The numbers of all fields.
  const std::vector<int>& all() const { return all_; }

 private:
  RecordSplitter(const storage::FieldRule& rule, int64_t label_offset,
                 SampleCheck check)
      : rule_(&rule), label_offset_(label_offset), check_(std::move(check)) {}

  const storage::FieldRule* rule_;
  int64_t label_offset_;
  SampleCheck check_;
  std::vector<int> all_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_RECORD_SPLITTER_H_
