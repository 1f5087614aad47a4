#include "server/storage/extents/file_rule.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace millrace::storage {
namespace {

// The encoding: this line, a letter for the class field ('A': none, 'B': field
// 0, and so on), and the schema.
constexpr absl::string_view kStart = "files 1\n";

}  // namespace

std::string FileRule::Encode() const {
  return absl::StrCat(kStart,
                      std::string(1, static_cast<char>('B' + class_field_)),
                      schema_.SerializeAsString());
}

absl::StatusOr<std::unique_ptr<FieldRule>> FileRule::Restore(
    absl::string_view encoded) {
  Schema schema;
  if (!absl::ConsumePrefix(&encoded, kStart) || encoded.empty()) {
    return absl::DataLossError("the rule is not that of files");
  }
  const int class_field = encoded[0] - 'B';
  encoded.remove_prefix(1);
  if (!schema.ParseFromString(std::string(encoded)) || class_field < -1 ||
      class_field >= schema.fields_size()) {
    return absl::DataLossError("the rule of files cannot be parsed");
  }
  return std::make_unique<FileRule>(std::move(schema), class_field);
}

absl::Status FileRule::Split(absl::Span<const uint8_t> record,
                             const std::vector<bool>& used,
                             RecordFields* fields) const {
  if (used.empty() || used[0]) fields->Set(0, record);
  return absl::OkStatus();
}

}  // namespace millrace::storage
