// FileRule is the FieldRule of datasets whose samples are files of their own:
// the record is field 0, and the index has the values of the other fields.
//
// Immutable and thread-safe.
//
//   const FileRule rule(table.schema(), table.class_field());
//   MR_ASSIGN_OR_RETURN(auto same, FileRule::Restore(rule.Encode()));

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_FILE_RULE_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_FILE_RULE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/extents/field_rule.h"

namespace millrace::storage {

class FileRule final : public FieldRule {
 public:
  FileRule(Schema schema, int class_field)
      : schema_(std::move(schema)), class_field_(class_field) {}

  // DataLoss: the bytes are no such rule.
  static absl::StatusOr<std::unique_ptr<FieldRule>> Restore(
      absl::string_view encoded);

  const Schema& schema() const override { return schema_; }
  int class_field() const override { return class_field_; }
  std::string Encode() const override;

  // Sets field 0 alone.
  absl::Status Split(absl::Span<const uint8_t> record,
                     const std::vector<bool>& used,
                     RecordFields* fields) const override;

 private:
  const Schema schema_;
  const int class_field_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_FILE_RULE_H_
