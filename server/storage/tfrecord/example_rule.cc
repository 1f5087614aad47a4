#include "server/storage/tfrecord/example_rule.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/status_macros.h"
#include "server/storage/little_endian.h"
#include "server/storage/sample_check.h"
#include "server/storage/tfrecord/example_options.h"
#include "server/storage/tfrecord/tfrecord_scanner.h"

namespace millrace::storage {
namespace {

using Bytes = absl::Span<const uint8_t>;

constexpr size_t kMaxQuotedBytes = 200;
constexpr uint32_t kEncodingVersion = 1;
// Of the class names and field names together, in an encoded rule.
constexpr uint32_t kMaxPartBytes = 64 << 20;

// The list and the number of values of a field; false: of no feature.
bool ListOf(const Field& field, ListKind* kind, int64_t* count) {
  switch (field.kind()) {
    case FIELD_KIND_ENCODED_IMAGE:
      *kind = ListKind::kBytes;
      *count = 1;
      return true;
    case FIELD_KIND_RAGGED:
      *kind = field.dtype() == DTYPE_UINT8     ? ListKind::kBytes
              : field.dtype() == DTYPE_FLOAT32 ? ListKind::kFloat
                                               : ListKind::kInt64;
      *count = *kind == ListKind::kBytes ? 1 : -1;
      return *kind != ListKind::kInt64 || field.dtype() == DTYPE_INT64;
    case FIELD_KIND_TENSOR:
      *kind =
          field.dtype() == DTYPE_FLOAT32 ? ListKind::kFloat : ListKind::kInt64;
      *count = field.shape_size() == 0 ? 1 : field.shape(0);
      return field.shape_size() <= 1 &&
             (field.dtype() == DTYPE_FLOAT32 || field.dtype() == DTYPE_INT64);
    default:
      return false;
  }
}

absl::Status Damaged(Bytes payload, const uint8_t* damage) {
  return absl::DataLossError(absl::StrCat(
      "byte ", damage - payload.data(),
      " of the record: the record is no tf.train.Example, although its "
      "checksum is right"));
}

}  // namespace

ExampleRule::ExampleRule(Schema schema, std::vector<std::string> features,
                         int class_field, int64_t first_label)
    : schema_(std::move(schema)),
      features_(std::move(features)),
      class_field_(class_field),
      first_label_(first_label) {
  for (int i = 0; i < schema_.fields_size(); ++i) {
    ListKind kind = ListKind::kNone;
    int64_t count = -1;
    ListOf(schema_.fields(i), &kind, &count);
    kinds_.push_back(kind);
    counts_.push_back(count);
    fields_by_feature_.emplace(features_[i], i);
  }
}

absl::StatusOr<std::unique_ptr<ExampleRule>> ExampleRule::Create(
    Schema schema, std::vector<std::string> features, int class_field,
    int64_t first_label) {
  MR_RETURN_IF_ERROR(SampleCheck::Create(schema).status());
  const auto refused = [](absl::string_view what, absl::string_view field) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " '", CleanText(field, kMaxQuotedBytes), "'"));
  };
  if (static_cast<int>(features.size()) != schema.fields_size() ||
      class_field < -1 || class_field >= schema.fields_size() ||
      first_label < 0) {
    return absl::InvalidArgumentError(
        "the fields and the features of a tfrecord: dataset do not belong "
        "together");
  }
  absl::flat_hash_map<std::string, int> seen;
  for (int i = 0; i < schema.fields_size(); ++i) {
    const Field& field = schema.fields(i);
    ListKind kind;
    int64_t count;
    if (!ListOf(field, &kind, &count) ||
        (i == class_field &&
         (kind != ListKind::kInt64 || field.kind() != FIELD_KIND_TENSOR ||
          field.shape_size() != 0))) {
      return refused("no feature of a tf.train.Example becomes field",
                     field.name());
    }
    if (!seen.emplace(features[i], i).second) {
      return refused("two fields are made of feature", features[i]);
    }
  }
  return absl::WrapUnique(new ExampleRule(
      std::move(schema), std::move(features), class_field, first_label));
}

std::string ExampleRule::Encode() const {
  std::string bytes;
  AppendU32(kEncodingVersion, &bytes);
  AppendLittleEndian(static_cast<int32_t>(class_field_), &bytes);
  AppendLittleEndian(first_label_, &bytes);
  // Deterministic: a Schema has no maps.
  AppendText(schema_.SerializeAsString(), &bytes);
  for (const std::string& feature : features_) AppendText(feature, &bytes);
  return bytes;
}

absl::StatusOr<std::unique_ptr<ExampleRule>> ExampleRule::Restore(
    absl::string_view encoded) {
  const auto damaged = [] {
    return absl::DataLossError("the rule of a tfrecord: dataset is damaged");
  };
  LittleEndianReader reader(encoded);
  const uint32_t version = reader.U32();
  const auto class_field = static_cast<int32_t>(reader.U32());
  const auto first_label = static_cast<int64_t>(reader.U64());
  const absl::string_view encoded_schema = reader.Text();
  Schema schema;
  if (!reader.ok() || version != kEncodingVersion ||
      encoded_schema.size() > kMaxPartBytes ||
      !schema.ParseFromArray(encoded_schema.data(),
                             static_cast<int>(encoded_schema.size()))) {
    return damaged();
  }
  std::vector<std::string> features;
  for (int i = 0; i < schema.fields_size(); ++i) {
    const absl::string_view feature = reader.Text();
    if (!reader.ok() || feature.size() > kMaxPartBytes) return damaged();
    features.emplace_back(feature);
  }
  if (!reader.AtEnd()) return damaged();
  auto rule =
      Create(std::move(schema), std::move(features), class_field, first_label);
  if (!rule.ok()) return damaged();
  return rule;
}

std::string ExampleRule::FieldText(int i) const {
  const std::string field =
      CleanText(schema_.fields(i).name(), kMaxQuotedBytes);
  const std::string feature = CleanText(features_[i], kMaxQuotedBytes);
  if (field == feature) return absl::StrCat("field '", field, "'");
  return absl::StrCat("field '", field, "' (feature '", feature, "')");
}

absl::Status ExampleRule::SetLabel(int i, RecordFields* fields) const {
  if (first_label_ == 0) return absl::OkStatus();
  int64_t label;
  std::memcpy(&label, fields->all()[i].data(), sizeof(label));
  if (label < first_label_) {
    return absl::DataLossError(
        absl::StrCat(FieldText(i), " is ", label,
                     ", and labels of preset=imagenet begin at ", first_label_,
                     ": if these begin at 0, write image=", kImagenetImage,
                     "&label=", kImagenetLabel, " in place of the preset"));
  }
  label -= first_label_;
  std::memcpy(fields->Make(i, sizeof(label)), &label, sizeof(label));
  return absl::OkStatus();
}

absl::Status ExampleRule::SetField(int i, Bytes entry, Bytes payload,
                                   RecordFields* fields) const {
  const uint8_t* damage = nullptr;
  FeatureValues values;
  if (!FindValues(entry, &damage, &values)) return Damaged(payload, damage);
  const auto wrong = [&](absl::string_view what_to_do) {
    return absl::DataLossError(absl::StrCat(
        FieldText(i), " has ",
        values.count == 0 ? "no values"
                          : CountText(values.count, ListKindText(values.kind)),
        " in this record, and ",
        counts_[i] < 0 ? absl::StrCat(ListKindText(kinds_[i]), "s")
                       : CountText(counts_[i], ListKindText(kinds_[i])),
        " in the first record of the dataset: ", what_to_do));
  };
  // A writer may leave out the kind of an empty list.
  if (values.kind != kinds_[i] &&
      !(values.kind == ListKind::kNone && counts_[i] == -1)) {
    return wrong(
        "write all records with the same types, or leave the feature "
        "out (fields=)");
  }
  if (counts_[i] >= 0 && values.count != static_cast<uint64_t>(counts_[i])) {
    if (kinds_[i] == ListKind::kBytes || i == class_field_) {
      return wrong(
          "write one value in each record, or leave the feature out "
          "(fields=)");
    }
    return wrong(absl::StrCat(
        "add the option ragged=", CleanText(features_[i], kMaxQuotedBytes),
        " if the number differs between records"));
  }
  if (kinds_[i] == ListKind::kBytes || !values.view.empty()) {
    fields->Set(i, values.view);
    return absl::OkStatus();
  }
  const bool floats = kinds_[i] == ListKind::kFloat;
  uint8_t* const out = fields->Make(
      i, values.count * (floats ? sizeof(float) : sizeof(int64_t)));
  if (!(floats ? CopyFloats(entry, values, &damage, out)
               : CopyInt64s(entry, values, &damage, out))) {
    return Damaged(payload, damage);
  }
  return i == class_field_ ? SetLabel(i, fields) : absl::OkStatus();
}

absl::Status ExampleRule::Split(Bytes record, const std::vector<bool>& used,
                                RecordFields* fields) const {
  MR_ASSIGN_OR_RETURN(const Bytes payload, CheckPayload(record));
  // Of each field, the entry that counts: the last of its name.
  absl::InlinedVector<Bytes, 16> entries(features_.size());
  const uint8_t* damage = nullptr;
  if (!ForEachFeature(payload, &damage,
                      [&](absl::string_view name, Bytes entry) {
                        const auto found = fields_by_feature_.find(name);
                        if (found != fields_by_feature_.end()) {
                          entries[found->second] = entry;
                        }
                      })) {
    return Damaged(payload, damage);
  }
  for (int i = 0; i < schema_.fields_size(); ++i) {
    if (!used.empty() && !used[i]) continue;
    if (entries[i].data() == nullptr) {
      return absl::DataLossError(absl::StrCat(
          FieldText(i),
          " is missing: the record has no such feature, and the first record "
          "of the dataset has it; write it in all records, or leave it out "
          "(fields=)"));
    }
    MR_RETURN_IF_ERROR(SetField(i, entries[i], payload, fields));
  }
  return absl::OkStatus();
}

}  // namespace millrace::storage
