#include "server/storage/sample_check.h"

#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/dtype.h"

namespace millrace::storage {
namespace {

// A larger tensor of one sample is a mistake or damage.
constexpr int64_t kMaxTensorBytes = int64_t{1} << 31;

int64_t ReadInt64(absl::Span<const uint8_t> bytes) {
  int64_t value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

}  // namespace

absl::StatusOr<SampleCheck> SampleCheck::Create(const Schema& schema) {
  if (schema.fields_size() == 0) {
    return absl::InvalidArgumentError("the schema has no fields");
  }
  SampleCheck check;
  std::set<std::string> names;
  for (const Field& field : schema.fields()) {
    const auto wrong = [&field](const auto&... what) {
      return absl::InvalidArgumentError(
          absl::StrCat("field '", field.name(), "' ", what...));
    };
    if (field.name().empty()) {
      return absl::InvalidArgumentError("the schema has a field without name");
    }
    if (!names.insert(field.name()).second) return wrong("appears twice");
    FieldRule rule;
    rule.name = field.name();
    rule.num_classes = field.num_classes();
    switch (field.kind()) {
      case FIELD_KIND_ENCODED_IMAGE:
        break;
      case FIELD_KIND_RAGGED:
        rule.multiple = ElementBytes(field.dtype());
        if (rule.multiple == 0) return wrong("has no known element type");
        break;
      case FIELD_KIND_TENSOR: {
        rule.bytes = ElementBytes(field.dtype());
        if (rule.bytes == 0) return wrong("has no known element type");
        for (const int64_t extent : field.shape()) {
          if (extent <= 0 || extent > kMaxTensorBytes / rule.bytes) {
            return wrong("has a dimension of ", extent);
          }
          rule.bytes *= extent;
        }
        break;
      }
      default:
        return wrong("is of kind ", static_cast<int>(field.kind()),
                     ", which this version does not know");
    }
    const bool int64_scalar = field.kind() == FIELD_KIND_TENSOR &&
                              field.dtype() == DTYPE_INT64 &&
                              field.shape_size() == 0;
    if (field.num_classes() < 0 || (field.num_classes() > 0 && !int64_scalar)) {
      return wrong("has ", field.num_classes(),
                   " classes, but only an int64 scalar can be a class index");
    }
    if (field.class_names_size() != 0 &&
        field.class_names_size() != field.num_classes()) {
      return wrong("has ", field.num_classes(), " classes but ",
                   field.class_names_size(), " class names");
    }
    check.fields_.push_back(std::move(rule));
  }
  return check;
}

bool SampleCheck::IsGood(const FieldRule& rule,
                         absl::Span<const uint8_t> field) {
  const int64_t size = static_cast<int64_t>(field.size());
  if (rule.bytes >= 0) {
    if (size != rule.bytes) return false;
  } else if (rule.multiple > 1) {
    if (size % rule.multiple != 0) return false;
  }
  // One unsigned comparison also refuses negative numbers.
  return rule.num_classes <= 0 || static_cast<uint64_t>(ReadInt64(field)) <
                                      static_cast<uint64_t>(rule.num_classes);
}

absl::Status SampleCheck::Check(
    absl::Span<const absl::Span<const uint8_t>> fields) const {
  bool good = fields.size() == fields_.size();
  for (size_t i = 0; good && i < fields.size(); ++i) {
    good = IsGood(fields_[i], fields[i]);
  }
  return good ? absl::OkStatus() : Explain(fields);
}

absl::Status SampleCheck::Check(
    absl::Span<const absl::Span<const uint8_t>> fields,
    absl::Span<const int> which) const {
  for (const int i : which) {
    if (!IsGood(fields_[i], fields[i])) return ExplainField(i, fields[i]);
  }
  return absl::OkStatus();
}

absl::Status SampleCheck::Explain(
    absl::Span<const absl::Span<const uint8_t>> fields) const {
  if (fields.size() != fields_.size()) {
    return absl::DataLossError(absl::StrCat("the sample has ", fields.size(),
                                            " fields, the schema ",
                                            fields_.size()));
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!IsGood(fields_[i], fields[i])) {
      return ExplainField(static_cast<int>(i), fields[i]);
    }
  }
  return absl::InternalError("a sample was refused without a reason");
}

absl::Status SampleCheck::ExplainField(int i,
                                       absl::Span<const uint8_t> field) const {
  const FieldRule& rule = fields_[i];
  const int64_t size = static_cast<int64_t>(field.size());
  if (rule.bytes >= 0 && size != rule.bytes) {
    return absl::DataLossError(absl::StrCat("field '", rule.name, "' has ",
                                            size, " bytes instead of ",
                                            rule.bytes));
  }
  if (rule.bytes < 0 && size % rule.multiple != 0) {
    return absl::DataLossError(absl::StrCat(
        "field '", rule.name, "' has ", size,
        " bytes, not a multiple of its element's ", rule.multiple));
  }
  return absl::DataLossError(
      absl::StrCat("field '", rule.name, "' is class ", ReadInt64(field),
                   ", but there are only ", rule.num_classes, " classes (0 to ",
                   rule.num_classes - 1, ")"));
}

}  // namespace millrace::storage
