#include "server/storage/tfrecord/example_schema.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/first_of.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "server/storage/imagefolder/image_names.h"
#include "server/storage/tfrecord/example_wire.h"

namespace millrace::storage {
namespace {

using Bytes = absl::Span<const uint8_t>;

constexpr size_t kMaxQuotedBytes = 200;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", CleanText(text, kMaxQuotedBytes), "'");
}

// The features of the record by their names, in bytewise order.
using Features = std::map<std::string, FeatureValues, std::less<>>;

absl::Status NoExample(absl::string_view why) {
  return absl::UnimplementedError(absl::StrCat(
      "byte 0 of the first record: ", why,
      ", and Millrace reads TFRecord files of tf.train.Example: write such "
      "records, or pack the original data with `millrace-data pack`"));
}

absl::StatusOr<Features> FindFeatures(Bytes payload) {
  std::map<std::string, Bytes, std::less<>> entries;
  const uint8_t* damage = nullptr;
  if (!ForEachFeature(payload, &damage,
                      [&](absl::string_view name, Bytes entry) {
                        entries.insert_or_assign(std::string(name), entry);
                      })) {
    return NoExample("its payload is no tf.train.Example");
  }
  if (HasFeatureLists(payload)) {
    return NoExample("its payload is a tf.train.SequenceExample");
  }
  if (entries.empty()) {
    return NoExample("its payload is no tf.train.Example with features");
  }
  Features features;
  for (const auto& [name, entry] : entries) {
    if (!FindValues(entry, &damage, &features[name])) {
      return NoExample("its payload is no tf.train.Example");
    }
  }
  return features;
}

bool LooksLikeImage(Bytes bytes) {
  return WhyNoImage({reinterpret_cast<const char*>(bytes.data()),
                     std::min(bytes.size(), kImageStartBytes)})
      .empty();
}

// The names of the features that become fields without an option.
std::string Usable(const Features& features) {
  std::vector<std::string> names;
  for (const auto& [name, values] : features) {
    const bool usable =
        values.kind == ListKind::kBytes ? values.count == 1 : values.count >= 1;
    if (usable) names.push_back(CleanText(name, kMaxQuotedBytes));
  }
  return FirstOf(names, ",", static_cast<int64_t>(names.size()));
}

std::string NameFields(const Features& features) {
  const std::string usable = Usable(features);
  if (usable.empty()) return "name the features that are fields (fields=A,B)";
  return absl::StrCat("name the features that are fields, for example fields=",
                      usable);
}

class Inference {
 public:
  Inference(const Features& features, const ExampleOptions& options)
      : features_(features), options_(options) {}

  absl::StatusOr<std::unique_ptr<ExampleRule>> Infer() {
    const bool imagenet = IsImagenet();
    const std::string image =
        imagenet ? std::string(kImagenetImage) : options_.image;
    const std::string label =
        imagenet ? std::string(kImagenetLabel) : options_.label;
    MR_RETURN_IF_ERROR(CheckNames());
    if (!image.empty()) MR_RETURN_IF_ERROR(AddImage(image));
    if (!label.empty()) MR_RETURN_IF_ERROR(AddLabel("label", label));
    for (const std::string& name : options_.fields) {
      MR_RETURN_IF_ERROR(Add(name));
    }
    if (image.empty() && label.empty() && options_.fields.empty()) {
      MR_RETURN_IF_ERROR(AddAll());
    }
    MR_RETURN_IF_ERROR(CheckRaggedAreFields(imagenet));
    return ExampleRule::Create(std::move(schema_), std::move(names_),
                               class_field_,
                               imagenet ? kImagenetFirstLabel : 0);
  }

 private:
  bool Has(absl::string_view name) const {
    return features_.find(name) != features_.end();
  }

  bool IsImagenet() const {
    if (options_.preset != ExamplePreset::kAutomatic) {
      return options_.preset == ExamplePreset::kImagenet;
    }
    return options_.image.empty() && options_.label.empty() &&
           options_.fields.empty() && Has(kImagenetImage) &&
           Has(kImagenetLabel);
  }

  // The features that options name exist.
  absl::Status CheckNames() const {
    for (const std::string& name : options_.ragged) {
      MR_RETURN_IF_ERROR(Find(name).status());
    }
    return absl::OkStatus();
  }

  // Options that choose the features would drop a ragged one without a word.
  absl::Status CheckRaggedAreFields(bool imagenet) const {
    for (const std::string& name : options_.ragged) {
      if (std::find(names_.begin(), names_.end(), name) != names_.end()) {
        continue;
      }
      std::vector<std::string> fields = options_.fields;
      fields.push_back(name);
      return absl::InvalidArgumentError(absl::StrCat(
          "option ragged of a tfrecord: dataset names feature ", Quoted(name),
          ", which is left out because ",
          imagenet ? "preset=imagenet takes image and label alone: write "
                     "preset=imagenet&fields="
                   : "other options choose the features: write fields=",
          CleanText(absl::StrJoin(fields, ","), kMaxQuotedBytes),
          ", or leave it out of ragged"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<const FeatureValues*> Find(absl::string_view name) const {
    const auto found = features_.find(name);
    if (found != features_.end()) return &found->second;
    std::vector<std::string> all;
    for (const auto& [other, values] : features_) {
      all.push_back(CleanText(other, kMaxQuotedBytes));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the first record of the dataset has no feature ",
                     Quoted(name), " that an option names; it has ",
                     FirstOf(all, ", ", static_cast<int64_t>(all.size()))));
  }

  bool IsRagged(absl::string_view name) const {
    return std::find(options_.ragged.begin(), options_.ragged.end(), name) !=
           options_.ragged.end();
  }

  absl::StatusOr<Field*> NewField(absl::string_view name,
                                  const std::string& feature) {
    if (!IsUtf8(name) || name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feature ", Quoted(feature),
          " has a name that is empty or no UTF-8, so it cannot become a "
          "field: ",
          NameFields(features_)));
    }
    for (int i = 0; i < schema_.fields_size(); ++i) {
      if (schema_.fields(i).name() == name || names_[i] == feature) {
        return absl::InvalidArgumentError(absl::StrCat(
            "features ", Quoted(names_[i]), " and ", Quoted(feature),
            " of a tfrecord: dataset become fields ",
            Quoted(schema_.fields(i).name()), " and ", Quoted(name),
            ": name each feature and each field once"));
      }
    }
    Field* const field = schema_.add_fields();
    field->set_name(std::string(name));
    names_.push_back(feature);
    return field;
  }

  absl::Status AddImage(const std::string& feature) {
    MR_ASSIGN_OR_RETURN(const FeatureValues* const values, Find(feature));
    if (values->kind != ListKind::kBytes || values->count != 1) {
      return Unfit(feature, *values, "an image is one byte string");
    }
    MR_ASSIGN_OR_RETURN(Field* const field, NewField("image", feature));
    field->set_kind(FIELD_KIND_ENCODED_IMAGE);
    return absl::OkStatus();
  }

  absl::Status AddLabel(absl::string_view name, const std::string& feature) {
    MR_ASSIGN_OR_RETURN(const FeatureValues* const values, Find(feature));
    if (values->kind != ListKind::kInt64 || values->count != 1) {
      return Unfit(feature, *values, "a label is one integer");
    }
    MR_ASSIGN_OR_RETURN(Field* const field, NewField(name, feature));
    field->set_kind(FIELD_KIND_TENSOR);
    field->set_dtype(DTYPE_INT64);
    class_field_ = schema_.fields_size() - 1;
    return absl::OkStatus();
  }

  absl::Status Unfit(absl::string_view feature, const FeatureValues& values,
                     absl::string_view wanted) const {
    return absl::InvalidArgumentError(
        absl::StrCat("feature ", Quoted(feature), " has ", CountOf(values),
                     " in the first record of the dataset, and ", wanted));
  }

  static std::string CountOf(const FeatureValues& values) {
    if (values.count == 0) return "no values";
    return CountText(values.count, ListKindText(values.kind));
  }

  // A field with the name of its feature.
  absl::Status Add(const std::string& feature) {
    MR_ASSIGN_OR_RETURN(const FeatureValues* const values, Find(feature));
    const bool ragged = IsRagged(feature);
    if (feature == "label" && !ragged && class_field_ < 0 &&
        options_.preset != ExamplePreset::kNone &&
        values->kind == ListKind::kInt64 && values->count == 1) {
      return AddLabel("label", feature);
    }
    if (values->kind == ListKind::kNone) {
      return Unfit(
          feature, *values,
          absl::StrCat("so its type is not known: ", NameFields(features_)));
    }
    if (values->kind == ListKind::kBytes && values->count != 1) {
      return Unfit(feature, *values,
                   absl::StrCat("a field has one: ", NameFields(features_)));
    }
    if (values->count == 0 && !ragged) {
      return Unfit(feature, *values,
                   absl::StrCat("a tensor has some: add the option ragged=",
                                CleanText(feature, kMaxQuotedBytes), ", or ",
                                NameFields(features_)));
    }
    MR_ASSIGN_OR_RETURN(Field* const field, NewField(feature, feature));
    if (values->kind == ListKind::kBytes) {
      if (!ragged && LooksLikeImage(values->view)) {
        field->set_kind(FIELD_KIND_ENCODED_IMAGE);
      } else {
        field->set_kind(FIELD_KIND_RAGGED);
        field->set_dtype(DTYPE_UINT8);
      }
      return absl::OkStatus();
    }
    field->set_kind(ragged ? FIELD_KIND_RAGGED : FIELD_KIND_TENSOR);
    field->set_dtype(values->kind == ListKind::kFloat ? DTYPE_FLOAT32
                                                      : DTYPE_INT64);
    if (!ragged && values->count > 1) {
      field->add_shape(static_cast<int64_t>(values->count));
    }
    return absl::OkStatus();
  }

  absl::Status AddAll() {
    if (features_.size() > kMaxExampleFields) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the first record of the dataset has ",
          GroupedText(static_cast<uint64_t>(features_.size())),
          " features, and at most ", kMaxExampleFields,
          " become fields without being named: ", NameFields(features_)));
    }
    for (const auto& [name, values] : features_) {
      MR_RETURN_IF_ERROR(Add(name));
    }
    return absl::OkStatus();
  }

  const Features& features_;
  const ExampleOptions& options_;
  Schema schema_;
  std::vector<std::string> names_;
  int class_field_ = -1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExampleRule>> InferExampleRule(
    Bytes payload, const ExampleOptions& options) {
  MR_ASSIGN_OR_RETURN(const Features features, FindFeatures(payload));
  return Inference(features, options).Infer();
}

}  // namespace millrace::storage
