#include "server/storage/extents/record_splitter.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::storage {

absl::StatusOr<RecordSplitter> RecordSplitter::Create(
    const storage::FieldRule& rule, int64_t label_offset,
    const Schema& schema) {
  MR_ASSIGN_OR_RETURN(SampleCheck check, SampleCheck::Create(schema));
  RecordSplitter splitter(rule, label_offset, std::move(check));
  for (int i = 0; i < schema.fields_size(); ++i) splitter.all_.push_back(i);
  return splitter;
}

absl::Status RecordSplitter::Split(absl::Span<const uint8_t> record,
                                   const std::vector<bool>& used,
                                   absl::Span<const int> which,
                                   RecordFields* fields) const {
  fields->Clear();
  MR_RETURN_IF_ERROR(rule_->Split(record, used, fields));
  const int label = rule_->class_field();
  if (label >= 0 && (used.empty() || used[label])) {
    const absl::Span<const uint8_t> field = fields->all()[label];
    int64_t value;
    if (field.size() == sizeof(value)) {  // otherwise refused below
      std::memcpy(&value, field.data(), sizeof(value));
      MR_ASSIGN_OR_RETURN(value, ClassIndex(value));
      if (label_offset_ != 0) {
        std::memcpy(fields->Make(label, sizeof(value)), &value, sizeof(value));
      }
    }
  }
  return check_.Check(fields->all(), which);
}

absl::StatusOr<int64_t> RecordSplitter::ClassIndex(int64_t value) const {
  int64_t index;
  if (!__builtin_add_overflow(value, label_offset_, &index) && index >= 0) {
    return index;
  }
  const std::string& name = rule_->schema().fields(rule_->class_field()).name();
  return absl::DataLossError(absl::StrCat(
      "field '", name, "' is ", value,
      label_offset_ == 0 ? ""
                         : absl::StrCat(", with label_offset=", label_offset_),
      ", and a class index must not be negative: ",
      value >= 0 ? "remove the option label_offset, or set it so that class "
                   "indices begin at 0"
                 : "the option label_offset (?label_offset=1) adds to each "
                   "class index"));
}

}  // namespace millrace::storage
