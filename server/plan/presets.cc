#include "server/plan/presets.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace {
namespace {

constexpr std::array<absl::string_view, 3> kPresets = {
    "imagenet_eval", "imagenet_train", "mnist"};

bool IsRawImage(const Field& field) {
  return field.kind() == FIELD_KIND_TENSOR && field.dtype() == DTYPE_UINT8 &&
         field.shape_size() == 3;
}

class Expansion {
 public:
  Transform& Add() { return transforms_.emplace_back(); }

  void Normalise(std::initializer_list<float> mean,
                 std::initializer_list<float> stddev) {
    Normalize& normalize = *Add().mutable_normalize();
    for (float m : mean) normalize.add_mean(m);
    for (float s : stddev) normalize.add_stddev(s);
  }

  std::vector<Transform> Take() { return std::move(transforms_); }

 private:
  std::vector<Transform> transforms_;
};

absl::Status DoesNotFit(absl::string_view preset, const DatasetInfo& info,
                        const Field& field, absl::string_view wanted) {
  std::string found;
  switch (field.kind()) {
    case FIELD_KIND_TENSOR:
      found = absl::StrCat(v1::DType_Name(field.dtype()), " [",
                           absl::StrJoin(field.shape(), ", "), "]");
      break;
    default:
      found = v1::FieldKind_Name(field.kind());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("preset ", preset, " wants field image to be ", wanted,
                   ", but in ", info.name(), " it is ", found,
                   ": choose another preset or write a pipeline file"));
}

}  // namespace

absl::Status CheckPresetName(absl::string_view preset) {
  if (std::find(kPresets.begin(), kPresets.end(), preset) != kPresets.end()) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat("there is no preset \"", preset, "\": the presets are ",
                   absl::StrJoin(kPresets, ", "),
                   "; anything else is written as a pipeline file"));
}

absl::StatusOr<std::vector<Transform>> ExpandPreset(absl::string_view preset,
                                                    const DatasetInfo& info) {
  if (absl::Status known = CheckPresetName(preset); !known.ok()) return known;
  const auto& fields = info.schema().fields();
  const auto image =
      std::find_if(fields.begin(), fields.end(),
                   [](const Field& f) { return f.name() == "image"; });
  if (image == fields.end()) {
    return absl::NotFoundError(absl::StrCat(
        "preset ", preset, " works on a field named image, which dataset ",
        info.name(), " does not have: write a pipeline file"));
  }
  const bool encoded = image->kind() == FIELD_KIND_ENCODED_IMAGE;
  Expansion out;
  if (preset == "mnist") {
    if (encoded) {
      DecodeImage& decode = *out.Add().mutable_decode_image();
      decode.set_color(DecodeImage::GRAY);
      decode.set_mode(DecodeImage::EXACT);
      CenterCrop& crop = *out.Add().mutable_center_crop();
      crop.set_height(28);
      crop.set_width(28);
    } else if (!IsRawImage(*image) || image->shape(0) != 28 ||
               image->shape(1) != 28 || image->shape(2) != 1) {
      return DoesNotFit(preset, info, *image,
                        "encoded images or uint8 [28, 28, 1]");
    }
    out.Normalise({0.1307f}, {0.3081f});
    return out.Take();
  }
  if (encoded) {
    out.Add().mutable_decode_image();
  } else if (!IsRawImage(*image) || image->shape(2) != 3) {
    return DoesNotFit(preset, info, *image,
                      "encoded images or uint8 [H, W, 3]");
  }
  if (preset == "imagenet_train") {
    RandomResizedCrop& crop = *out.Add().mutable_random_resized_crop();
    crop.set_height(224);
    crop.set_width(224);
    out.Add().mutable_horizontal_flip()->set_p(0.5);
  } else {
    out.Add().mutable_resize()->set_short_side(256);
    CenterCrop& crop = *out.Add().mutable_center_crop();
    crop.set_height(224);
    crop.set_width(224);
  }
  out.Normalise({0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f});
  return out.Take();
}

}  // namespace millrace
