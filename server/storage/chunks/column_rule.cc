#include "server/storage/chunks/column_rule.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "server/storage/little_endian.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {
namespace {

constexpr uint32_t kRuleVersion = 1;

// The value of a column that begins at `at` of the record.
template <typename Name>
absl::StatusOr<absl::Span<const uint8_t>> ValueAt(
    absl::Span<const uint8_t> record, uint64_t at, uint64_t bytes,
    const Name& name) {
  if (bytes > record.size() - at) {
    return absl::DataLossError(absl::StrCat(
        "field '", name(), "': its value has ", bytes, " bytes from byte ", at,
        " of the record on, and the record has ", record.size(), " bytes"));
  }
  return record.subspan(at, bytes);
}

// Calls `visit(i, value)` with the value of each column. `name(i)` is the name
// for errors.
template <typename Name, typename Visit>
absl::Status VisitColumns(absl::Span<const uint8_t> record,
                          const std::vector<ChunkColumn>& columns,
                          const Name& name, const Visit& visit) {
  uint64_t head = 0;
  for (const ChunkColumn& column : columns) {
    if (column.bytes == 0) head += sizeof(uint32_t);
  }
  if (record.size() < head) {
    return absl::DataLossError(absl::StrCat(
        "byte 0 of the record: the sizes of ", head / sizeof(uint32_t),
        " columns take ", head, " bytes, and the record has ", record.size()));
  }
  const uint8_t* size = record.data();
  uint64_t at = head;
  for (size_t i = 0; i < columns.size(); ++i) {
    uint64_t bytes = columns[i].bytes;
    if (bytes == 0) {
      bytes = LoadU32(size);
      size += sizeof(uint32_t);
    }
    MR_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> value,
                        ValueAt(record, at, bytes, [&] { return name(i); }));
    at += bytes;
    MR_RETURN_IF_ERROR(visit(i, value));
  }
  if (at != record.size()) {
    return absl::DataLossError(
        absl::StrCat("byte ", at, " of the record: ", record.size() - at,
                     " bytes follow the last column"));
  }
  return absl::OkStatus();
}

uint64_t ElementsOf(const Field& field) {
  if (field.kind() != FIELD_KIND_TENSOR) return 0;
  uint64_t elements = 1;
  for (const int64_t extent : field.shape()) elements *= extent;
  return elements;
}

// Whether values of `column` can be those of `field`.
bool Fits(const ChunkColumn& column, const Field& field) {
  switch (field.kind()) {
    case FIELD_KIND_ENCODED_IMAGE:
      return column.stored == StoredType::kBytes && column.header.empty();
    case FIELD_KIND_RAGGED:
      return column.header.empty() &&
             (column.stored == StoredType::kBytes
                  ? field.dtype() == DTYPE_UINT8
                  : IsSame(column.stored, field.dtype()));
    case FIELD_KIND_TENSOR: {
      if (!CanConvert(column.stored, field.dtype())) return false;
      const uint64_t element = StoredBytes(column.stored);
      // A text holds one number.
      if (element == 0) {
        return field.shape().empty() && column.header.empty() &&
               column.bytes == 0;
      }
      return column.bytes == 0 ||
             column.bytes == column.header.size() + element * ElementsOf(field);
    }
    default:
      return false;
  }
}

absl::Status NoRule(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("the rule of the columns ", why));
}

}  // namespace

absl::Status SplitColumns(absl::Span<const uint8_t> record,
                          const std::vector<ChunkColumn>& columns,
                          std::vector<absl::Span<const uint8_t>>* values) {
  values->assign(columns.size(), {});
  return VisitColumns(
      record, columns, [&](size_t i) { return columns[i].name; },
      [&](size_t i, absl::Span<const uint8_t> value) {
        (*values)[i] = value;
        return absl::OkStatus();
      });
}

absl::StatusOr<std::unique_ptr<ColumnRule>> ColumnRule::Create(
    Schema schema, std::vector<ChunkColumn> columns, int class_field) {
  MR_RETURN_IF_ERROR(SampleCheck::Create(schema).status());
  if (columns.size() != static_cast<size_t>(schema.fields_size()) ||
      columns.size() > kMaxColumns) {
    return absl::InvalidArgumentError(absl::StrCat(
        columns.size(), " columns for ", schema.fields_size(),
        " fields; there must be as many, and at most ", kMaxColumns));
  }
  std::vector<bool> taken(columns.size());
  for (const ChunkColumn& column : columns) {
    if (column.field < 0 || column.field >= schema.fields_size() ||
        taken[column.field]) {
      return absl::InvalidArgumentError(
          absl::StrCat("column '", column.name, "' has no field of its own"));
    }
    taken[column.field] = true;
    const Field& field = schema.fields(column.field);
    if (!Fits(column, field)) {
      return absl::InvalidArgumentError(absl::StrCat("column '", column.name,
                                                     "' does not fit field '",
                                                     field.name(), "'"));
    }
  }
  const auto is_class = [&](int i) {
    return i >= 0 && i < schema.fields_size() &&
           schema.fields(i).kind() == FIELD_KIND_TENSOR &&
           schema.fields(i).dtype() == DTYPE_INT64 &&
           schema.fields(i).shape().empty();
  };
  if (class_field != -1 && !is_class(class_field)) {
    return absl::InvalidArgumentError("the class index is no int64 scalar");
  }
  auto rule = std::unique_ptr<ColumnRule>(new ColumnRule);
  for (const Field& field : schema.fields()) {
    rule->elements_.push_back(ElementsOf(field));
  }
  rule->schema_ = std::move(schema);
  rule->columns_ = std::move(columns);
  rule->class_field_ = class_field;
  return rule;
}

std::string ColumnRule::Encode() const {
  std::string out;
  AppendU32(kRuleVersion, &out);
  AppendU32(static_cast<uint32_t>(class_field_ + 1), &out);
  AppendText(schema_.SerializeAsString(), &out);
  AppendU32(static_cast<uint32_t>(columns_.size()), &out);
  for (const ChunkColumn& column : columns_) {
    AppendText(column.name, &out);
    AppendU64(column.bytes, &out);
    AppendU32(static_cast<uint32_t>(column.stored), &out);
    AppendText(column.header, &out);
    AppendU32(static_cast<uint32_t>(column.field), &out);
  }
  return out;
}

absl::StatusOr<std::unique_ptr<ColumnRule>> ColumnRule::Restore(
    absl::string_view encoded) {
  LittleEndianReader reader(encoded);
  if (reader.U32() != kRuleVersion) return NoRule("is of another version");
  const uint32_t class_field = reader.U32();
  Schema schema;
  const absl::string_view schema_bytes = reader.Text();
  const uint32_t count = reader.U32();
  if (!reader.ok() || count > kMaxColumns || class_field > count ||
      !schema.ParseFromArray(schema_bytes.data(),
                             static_cast<int>(schema_bytes.size()))) {
    return NoRule("is damaged");
  }
  std::vector<ChunkColumn> columns(count);
  for (ChunkColumn& column : columns) {
    column.name = std::string(reader.Text());
    column.bytes = reader.U64();
    const uint32_t stored = reader.U32();
    column.header = std::string(reader.Text());
    const uint32_t field = reader.U32();
    if (!reader.ok() || stored >= kStoredTypes || field >= count) {
      return NoRule("is damaged");
    }
    column.stored = static_cast<StoredType>(stored);
    column.field = static_cast<int>(field);
  }
  if (!reader.AtEnd()) return NoRule("is damaged");
  auto rule = Create(std::move(schema), std::move(columns),
                     static_cast<int>(class_field) - 1);
  if (!rule.ok()) {
    return NoRule(absl::StrCat("is damaged: ", rule.status().message()));
  }
  return rule;
}

absl::Status ColumnRule::Split(absl::Span<const uint8_t> record,
                               const std::vector<bool>& used,
                               RecordFields* fields) const {
  return VisitColumns(
      record, columns_,
      [&](size_t i) { return schema_.fields(columns_[i].field).name(); },
      [&](size_t i, absl::Span<const uint8_t> value) {
        const ChunkColumn& column = columns_[i];
        if (!used.empty() && !used[column.field]) return absl::OkStatus();
        return SetField(column, value, fields);
      });
}

absl::Status ColumnRule::SetField(const ChunkColumn& column,
                                  absl::Span<const uint8_t> value,
                                  RecordFields* fields) const {
  const Field& field = schema_.fields(column.field);
  const auto damaged = [&](const auto&... what) {
    return absl::DataLossError(
        absl::StrCat("field '", field.name(), "': ", what...));
  };
  if (!column.header.empty()) {
    if (value.size() < column.header.size() ||
        std::memcmp(value.data(), column.header.data(), column.header.size()) !=
            0) {
      return damaged(
          "type or shape differ from those of the first sample; for arrays of "
          "different shapes, add ragged=",
          column.name, " to the URI, which passes their bytes as they are");
    }
    value.remove_prefix(column.header.size());
  }
  const uint64_t element = StoredBytes(column.stored);
  const uint64_t elements = elements_[column.field];
  if (field.kind() == FIELD_KIND_TENSOR && element > 0 &&
      value.size() != element * elements) {
    // Only the option tensor gives arrays whose size varies a shape.
    const bool chosen =
        column.bytes == 0 && column.header.empty() && !field.shape().empty();
    return damaged(
        "the value has ", value.size(), " bytes, not the ", element * elements,
        " of its type and shape",
        chosen
            ? absl::StrCat("; for arrays of different lengths, write ragged=",
                           column.name, " in the place of tensor=", column.name,
                           " in the URI")
            : "");
  }
  if (element > 1 && value.size() % element != 0) {
    return damaged("the value has ", value.size(),
                   " bytes, which is no multiple of the ", element,
                   " of an element");
  }
  absl::Status status;
  if (column.stored == StoredType::kBool) status = CheckBools(value);
  if (column.stored == StoredType::kBytes ||
      IsSame(column.stored, field.dtype())) {
    fields->Set(column.field, value);
  } else {
    status = Convert(
        column.stored, value, field.dtype(),
        fields->Make(column.field, elements * ElementBytes(field.dtype())));
  }
  return status.ok() ? status : damaged(status.message());
}

}  // namespace millrace::storage
