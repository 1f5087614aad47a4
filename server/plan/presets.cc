#include "server/plan/presets.h"

#include <google/protobuf/text_format.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/plan/bytes_as_images.h"
#include "server/plan/find_field.h"
#include "server/plan/image_field.h"

namespace millrace::plan {
namespace {

struct Preset {
  absl::string_view name;
  // Size of a raw `image`; -1: any size.
  int64_t height;
  int64_t width;
  int64_t channels;
  // In text format: the first transforms if `image` is encoded, and the rest.
  const char* decoding;
  const char* transforms;
  // Needs a field `mask` beside the image.
  bool masks = false;
};

// Pixel statistics of ImageNet's training set, as torchvision has them.
#define MR_IMAGENET_STATISTICS \
  "mean: [0.485, 0.456, 0.406] stddev: [0.229, 0.224, 0.225]"

constexpr char kDecodeGray28[] =
    "transforms { decode_image { color: GRAY mode: EXACT } } "
    "transforms { center_crop { height: 28 width: 28 } }";

// Sorted by name.
constexpr Preset kPresets[] = {
    // The usual pipeline of Albumentations benchmarks and articles; every
    // transform is always applied.
    {"article_albumentations", -1, -1, 3, "transforms { decode_image {} }",
     "transforms { random_resized_crop { height: 224 width: 224 } } "
     "transforms { horizontal_flip { p: 0.5 } } "
     "transforms { color_jitter { brightness_min: 0.8 brightness_max: 1.2 "
     "  contrast_min: 0.8 contrast_max: 1.2 saturation_min: 0.8 "
     "  saturation_max: 1.2 hue_min: -0.1 hue_max: 0.1 } } "
     "transforms { normalize { " MR_IMAGENET_STATISTICS " } }"},
    // Mean and deviation of CIFAR-10's training pixels.
    {"cifar_eval", 32, 32, 3,
     "transforms { decode_image { mode: EXACT } } "
     "transforms { center_crop { height: 32 width: 32 } }",
     "transforms { normalize { mean: [0.4914, 0.4822, 0.4465] "
     "  stddev: [0.2470, 0.2435, 0.2616] } }"},
    // K. He et al., "Deep Residual Learning for Image Recognition", 4.2.
    {"cifar_train", 32, 32, 3, "transforms { decode_image { mode: EXACT } } ",
     "transforms { random_crop { height: 32 width: 32 padding: 4 } } "
     "transforms { horizontal_flip { p: 0.5 } } "
     "transforms { normalize { mean: [0.4914, 0.4822, 0.4465] "
     "  stddev: [0.2470, 0.2435, 0.2616] } }"},
    {"fashion_mnist", 28, 28, 1, kDecodeGray28,
     "transforms { normalize { mean: 0.2860 stddev: 0.3530 } }"},
    // torchvision's references/classification, the plain recipe.
    {"imagenet_eval", -1, -1, 3, "transforms { decode_image {} }",
     "transforms { resize { short_side: 256 } } "
     "transforms { center_crop { height: 224 width: 224 } } "
     "transforms { normalize { " MR_IMAGENET_STATISTICS " } }"},
    // The same with the recipe of the IMAGENET1K_V2 weights: --val-resize-size
    // 232 --val-crop-size 224.
    {"imagenet_eval_v2", -1, -1, 3, "transforms { decode_image {} }",
     "transforms { resize { short_side: 232 } } "
     "transforms { center_crop { height: 224 width: 224 } } "
     "transforms { normalize { " MR_IMAGENET_STATISTICS " } }"},
    {"imagenet_train", -1, -1, 3, "transforms { decode_image {} }",
     "transforms { random_resized_crop { height: 224 width: 224 } } "
     "transforms { horizontal_flip { p: 0.5 } } "
     "transforms { normalize { " MR_IMAGENET_STATISTICS " } }"},
    // --train-crop-size 176 --auto-augment ta_wide --random-erase 0.1
    // --mixup-alpha 0.2 --cutmix-alpha 1.0. The recipe erases normalised pixels
    // with 0, which is 255 * mean before normalisation. One of the two mixings
    // is drawn for each batch.
    {"imagenet_train_v2", -1, -1, 3, "transforms { decode_image {} }",
     "transforms { random_resized_crop { height: 176 width: 176 } } "
     "transforms { horizontal_flip { p: 0.5 } } "
     "transforms { trivial_augment_wide { "
     "  interpolation: INTERPOLATION_BILINEAR } } "
     "transforms { random_erasing { p: 0.1 value: [124, 116, 104] } } "
     "transforms { mix_up { alpha: 0.2 p: 0.5 } } "
     "transforms { cut_mix { alpha: 1 } } "
     "transforms { normalize { " MR_IMAGENET_STATISTICS " } }"},
    // Mean and deviation of MNIST's training pixels. For larger images, the
    // middle is used.
    {"mnist", 28, 28, 1, kDecodeGray28,
     "transforms { normalize { mean: 0.1307 stddev: 0.3081 } }"},
    // After torchvision's references/segmentation: crop 480, flip 0.5. The
    // recipe's RandomResize of 0.5 .. 2 times 520 and its crop are one crop
    // here.
    {"segmentation_train", -1, -1, 3,
     "transforms { decode_image {} } "
     "transforms { decode_image { field: 'mask' color: INDEX } }",
     "transforms { random_resized_crop { fields: ['image', 'mask'] "
     "  height: 480 width: 480 scale_min: 0.25 scale_max: 1 } } "
     "transforms { horizontal_flip { fields: ['image', 'mask'] p: 0.5 } } "
     "transforms { normalize { " MR_IMAGENET_STATISTICS " } } "
     "transforms { to_dtype { fields: 'mask' dtype: DTYPE_INT64 } }",
     /*masks=*/true},
};

#undef MR_IMAGENET_STATISTICS

const Preset* FindPreset(absl::string_view name) {
  const auto* it =
      std::find_if(std::begin(kPresets), std::end(kPresets),
                   [&](const Preset& p) { return p.name == name; });
  return it == std::end(kPresets) ? nullptr : it;
}

bool FitsRaw(const Preset& preset, const Field& image) {
  return IsRawImage(image) && image.shape(2) == preset.channels &&
         (preset.height < 0 || image.shape(0) == preset.height) &&
         (preset.width < 0 || image.shape(1) == preset.width);
}

std::string Wanted(const Preset& preset) {
  const auto side = [](int64_t size, const char* any) {
    return size < 0 ? std::string(any) : absl::StrCat(size);
  };
  return absl::StrCat("encoded images or uint8 [", side(preset.height, "H"),
                      ", ", side(preset.width, "W"), ", ", preset.channels,
                      "]");
}

absl::Status DoesNotFit(absl::string_view preset, const DatasetInfo& info,
                        const Field& field, absl::string_view wanted) {
  const std::string found =
      field.kind() == FIELD_KIND_TENSOR
          ? absl::StrCat(v1::DType_Name(field.dtype()), " [",
                         absl::StrJoin(field.shape(), ", "), "]")
      : HoldsBytes(field) ? "strings or bytes"
                          : v1::FieldKind_Name(field.kind());
  return absl::InvalidArgumentError(absl::StrCat(
      "preset ", preset, " needs field ", field.name(), " to be ", wanted,
      ", but in ", info.name(), " it is ", found,
      HoldsBytes(field) ? absl::StrCat("; ", BytesAsImages(field))
                        : ": choose another preset or write a pipeline file"));
}

absl::StatusOr<const Field*> PresetField(absl::string_view preset,
                                         const DatasetInfo& info,
                                         absl::string_view name) {
  if (const Field* const field = FindField(info, name); field != nullptr) {
    return field;
  }
  const std::string missing =
      absl::StrCat("preset ", preset, " works on a field named ", name,
                   ", which dataset ", info.name(), " does not have");
  if (name != "image") {
    return absl::NotFoundError(
        absl::StrCat(missing, ": write a pipeline file"));
  }
  const auto& fields = info.schema().fields();
  const auto encoded =
      std::find_if(fields.begin(), fields.end(), [](const Field& field) {
        return field.kind() == FIELD_KIND_ENCODED_IMAGE;
      });
  if (encoded != fields.end()) {
    return absl::NotFoundError(
        absl::StrCat(missing,
                     ": write a pipeline file that begins with transforms { "
                     "decode_image { field: \"",
                     encoded->name(), "\" } }"));
  }
  const std::string hint = BytesFieldHint(info);
  return absl::NotFoundError(
      absl::StrCat(missing, hint.empty() ? ": write a pipeline file" : hint));
}

void Append(const char* text, PipelineSpec& spec) {
  PipelineSpec parsed;
  MR_CHECK(google::protobuf::TextFormat::ParseFromString(text, &parsed))
      << text;
  spec.MergeFrom(parsed);
}

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

absl::Status CheckPresetName(absl::string_view preset) {
  if (FindPreset(preset) != nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      "there is no preset \"", preset, "\": the presets are ",
      absl::StrJoin(PresetNames(), ", "), "; write other pipelines as a file"));
}

absl::Status ExpandPreset(const DatasetInfo& info, PipelineSpec& spec) {
  MR_RETURN_IF_ERROR(CheckPresetName(spec.preset()));
  const Preset& preset = *FindPreset(spec.preset());
  MR_ASSIGN_OR_RETURN(const Field* image,
                      PresetField(preset.name, info, "image"));
  const bool encoded = image->kind() == FIELD_KIND_ENCODED_IMAGE;
  if (!encoded && !FitsRaw(preset, *image)) {
    return DoesNotFit(preset.name, info, *image, Wanted(preset));
  }
  if (preset.masks) {
    MR_ASSIGN_OR_RETURN(const Field* mask,
                        PresetField(preset.name, info, "mask"));
    const bool fits = encoded ? mask->kind() == FIELD_KIND_ENCODED_IMAGE
                              : IsRawImage(*mask) && mask->shape(2) == 1;
    if (!fits) {
      return DoesNotFit(
          preset.name, info, *mask,
          encoded ? "an encoded image as well" : "uint8 [H, W, 1]");
    }
    const auto& roles = spec.field_roles();
    if (std::none_of(roles.begin(), roles.end(), [](const FieldRole& role) {
          return role.field() == "mask";
        })) {
      FieldRole& role = *spec.add_field_roles();
      role.set_field("mask");
      role.set_role(FieldRole::MASK);
    }
  }
  spec.clear_preset();
  if (encoded) Append(preset.decoding, spec);
  Append(preset.transforms, spec);
  return absl::OkStatus();
}

}  // namespace millrace::plan
