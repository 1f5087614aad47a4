#include "server/storage/columns/features_json.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "proto/dtype.h"

namespace millrace::storage {
namespace {

int64_t Elements(const Field& field) {
  int64_t elements = 1;
  for (const int64_t extent : field.shape()) elements *= extent;
  return elements;
}

std::string ValueJson(absl::string_view dtype) {
  return JsonObject().Add("dtype", dtype).Add("_type", "Value").Json();
}

std::string FeatureJson(const Field& field) {
  if (field.kind() == FIELD_KIND_ENCODED_IMAGE) {
    return JsonObject().Add("_type", "Image").Json();
  }
  if (field.kind() == FIELD_KIND_RAGGED) return ValueJson("binary");
  if (field.num_classes() > 0) {
    std::vector<std::string> names(field.class_names().begin(),
                                   field.class_names().end());
    if (names.empty()) {
      for (int64_t i = 0; i < field.num_classes(); ++i) {
        names.push_back(absl::StrCat(i));
      }
    }
    return JsonObject().Add("names", names).Add("_type", "ClassLabel").Json();
  }
  const std::string value = ValueJson(DTypeName(field.dtype()));
  if (field.shape().empty()) return value;
  return JsonObject()
      .AddJson("feature", value)
      .Add("length", Elements(field))
      .Add("_type", "Sequence")
      .Json();
}

// The member `name` of a JSON object; null: there is none.
const google::protobuf::Value* Find(const google::protobuf::Struct& object,
                                    const std::string& name) {
  const auto found = object.fields().find(name);
  return found == object.fields().end() ? nullptr : &found->second;
}

absl::Status Parse(absl::string_view json, google::protobuf::Struct* document) {
  if (google::protobuf::util::JsonStringToMessage(std::string(json), document)
          .ok()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("the metadata is not JSON");
}

// The features by column; null: there are none. dataset_info.json has them at
// the top.
const google::protobuf::Struct* FeaturesOf(
    const google::protobuf::Struct& document) {
  const google::protobuf::Value* const info = Find(document, "info");
  const google::protobuf::Value* const features =
      Find(info == nullptr ? document : info->struct_value(), "features");
  return features == nullptr ? nullptr : &features->struct_value();
}

std::string TypeOf(const google::protobuf::Struct& feature) {
  const google::protobuf::Value* const type = Find(feature, "_type");
  return type == nullptr ? "" : type->string_value();
}

}  // namespace

std::string FeaturesJson(const Schema& schema) {
  JsonObject features;
  for (const Field& field : schema.fields()) {
    features.AddJson(field.name(), FeatureJson(field));
  }
  return JsonObject()
      .AddJson("info", JsonObject().AddJson("features", features.Json()).Json())
      .Json();
}

absl::StatusOr<std::map<std::string, ClassLabelFeature>> ParseClassLabels(
    absl::string_view json) {
  google::protobuf::Struct document;
  MR_RETURN_IF_ERROR(Parse(json, &document));
  std::map<std::string, ClassLabelFeature> labels;
  const google::protobuf::Struct* features = FeaturesOf(document);
  if (features == nullptr) return labels;
  for (const auto& [column, feature] : features->fields()) {
    const google::protobuf::Struct& object = feature.struct_value();
    if (TypeOf(object) != "ClassLabel") continue;
    ClassLabelFeature label;
    if (const auto* names = Find(object, "names")) {
      for (const auto& name : names->list_value().values()) {
        label.names.push_back(name.string_value());
      }
    }
    label.num_classes = static_cast<int64_t>(label.names.size());
    if (const auto* count = Find(object, "num_classes");
        count != nullptr && label.names.empty()) {
      const double number = count->number_value();
      if (number >= 1 && number <= 1e9) {
        label.num_classes = static_cast<int64_t>(number);
      }
    }
    if (label.num_classes > 0) labels[column] = std::move(label);
  }
  return labels;
}

absl::StatusOr<ColumnFeatures> ParseColumnFeatures(absl::string_view json) {
  google::protobuf::Struct document;
  MR_RETURN_IF_ERROR(Parse(json, &document));
  ColumnFeatures found;
  const google::protobuf::Struct* features = FeaturesOf(document);
  if (features == nullptr) return found;
  for (const auto& [column, feature] : features->fields()) {
    const google::protobuf::Struct& object = feature.struct_value();
    const std::string type = TypeOf(object);
    if (type == "Audio" || type == "Video" || type == "Pdf") {
      found.media.insert(column);
    }
    const google::protobuf::Value* const shape = Find(object, "shape");
    if (shape == nullptr || !absl::StartsWith(type, "Array")) continue;
    std::vector<int64_t>& extents = found.arrays[column];
    for (const auto& extent : shape->list_value().values()) {
      const double number = extent.number_value();
      extents.push_back(
          number >= 1 && number <= 1e9 ? static_cast<int64_t>(number) : -1);
    }
  }
  return found;
}

}  // namespace millrace::storage
