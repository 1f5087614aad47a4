// What stage_bench measures: a line for each pipeline and each transform. A new
// transform is one line here.

#ifndef MILLRACE_TESTS_BENCH_BENCH_SPECS_H_
#define MILLRACE_TESTS_BENCH_BENCH_SPECS_H_

namespace millrace {

struct NamedSpec {
  const char* name;
  const char* text;  // of a pipeline spec without its source
};

// On encoded photographs.
inline constexpr NamedSpec kPipelines[] = {
    {"RandomResizedCrop(224), flip",
     "transforms { decode_image {} }"
     "transforms { random_resized_crop { height: 224 width: 224 } }"
     "transforms { horizontal_flip {} }"},
    {"the same, decode EXACT",
     "transforms { decode_image { mode: EXACT } }"
     "transforms { random_resized_crop { height: 224 width: 224 } }"
     "transforms { horizontal_flip {} }"},
    {"the same, not antialiased",
     "transforms { decode_image {} }"
     "transforms { random_resized_crop { height: 224 width: 224 "
     "no_antialias: true } }"
     "transforms { horizontal_flip {} }"},
    {"the same, 112 x 112",
     "transforms { decode_image {} }"
     "transforms { random_resized_crop { height: 112 width: 112 } }"
     "transforms { horizontal_flip {} }"},
    {"preset imagenet_train", "preset: 'imagenet_train'"},
    {"preset imagenet_eval", "preset: 'imagenet_eval'"},
    {"preset article_albumentations", "preset: 'article_albumentations'"},
    {"the article's, normalised on the server",
     "transforms { decode_image {} }"
     "transforms { random_resized_crop { height: 224 width: 224 } }"
     "transforms { horizontal_flip {} }"
     "transforms { color_jitter { brightness_min: 0.8 brightness_max: 1.2 "
     "contrast_min: 0.8 contrast_max: 1.2 saturation_min: 0.8 "
     "saturation_max: 1.2 hue_min: -0.1 hue_max: 0.1 } }"
     "transforms { normalize { mean: [0.485, 0.456, 0.406] "
     "stddev: [0.229, 0.224, 0.225] placement: PLACEMENT_SERVER } }"},
    {"RandomResizedCrop(176), flip, TrivialAugmentWide, RandomErasing 0.1",
     "transforms { decode_image {} }"
     "transforms { random_resized_crop { height: 176 width: 176 } }"
     "transforms { horizontal_flip {} }"
     "transforms { trivial_augment_wide {} }"
     "transforms { random_erasing { p: 0.1 } }"},
    {"whole photograph to 224 x 224",
     "transforms { decode_image {} }"
     "transforms { resize { height: 224 width: 224 } }"},
};

// On raw uint8 [256, 256, 3]. Every random one is always applied.
inline constexpr NamedSpec kTransforms[] = {
    {"Resize(224)", "transforms { resize { height: 224 width: 224 } }"},
    {"Resize(224), not antialiased",
     "transforms { resize { height: 224 width: 224 no_antialias: true } }"},
    {"Resize(224), nearest",
     "transforms { resize { height: 224 width: 224 "
     "interpolation: INTERPOLATION_NEAREST } }"},
    {"Resize(64)", "transforms { resize { height: 64 width: 64 } }"},
    {"RandomResizedCrop(224)",
     "transforms { random_resized_crop { height: 224 width: 224 } }"},
    {"CenterCrop(224)",
     "transforms { center_crop { height: 224 width: 224 } }"},
    {"RandomCrop(256, padding 32)",
     "transforms { random_crop { height: 256 width: 256 padding: 32 } }"},
    {"Pad(16), reflected",
     "transforms { pad { padding: 16 padding_mode: PADDING_REFLECT } }"},
    {"HorizontalFlip", "transforms { horizontal_flip { p: 1 } }"},
    {"VerticalFlip", "transforms { vertical_flip { p: 1 } }"},
    {"ColorJitter(0.2, 0.2, 0.2, 0.1)",
     "transforms { color_jitter { brightness_min: 0.8 brightness_max: 1.2 "
     "contrast_min: 0.8 contrast_max: 1.2 saturation_min: 0.8 "
     "saturation_max: 1.2 hue_min: -0.1 hue_max: 0.1 } }"},
    {"ColorJitter, brightness alone",
     "transforms { color_jitter { brightness_min: 0.8 brightness_max: 1.2 } }"},
    {"ColorJitter, contrast alone",
     "transforms { color_jitter { contrast_min: 0.8 contrast_max: 1.2 } }"},
    {"ColorJitter, saturation alone",
     "transforms { color_jitter { saturation_min: 0.8 saturation_max: 1.2 } }"},
    {"ColorJitter, hue alone",
     "transforms { color_jitter { hue_min: -0.1 hue_max: 0.1 } }"},
    {"Grayscale", "transforms { grayscale { p: 1 } }"},
    {"GaussianBlur(5)", "transforms { gaussian_blur { kernel_size: 5 } }"},
    {"GaussianBlur(23)", "transforms { gaussian_blur { kernel_size: 23 } }"},
    {"RandomRotation(15), nearest",
     "transforms { random_rotation { degrees_min: -15 degrees_max: 15 "
     "interpolation: INTERPOLATION_NEAREST } }"},
    {"RandomRotation(15), bilinear",
     "transforms { random_rotation { degrees_min: -15 degrees_max: 15 } }"},
    {"RandomAffine(15, 0.1, 0.8-1.2, 10), bilinear",
     "transforms { random_affine { degrees_min: -15 degrees_max: 15 "
     "translate_x: 0.1 translate_y: 0.1 scale_min: 0.8 scale_max: 1.2 "
     "shear_x_min: -10 shear_x_max: 10 } }"},
    {"RandomErasing", "transforms { random_erasing { p: 1 } }"},
    {"RandomErasing, random pixels",
     "transforms { random_erasing { p: 1 random_value: true } }"},
    {"TrivialAugmentWide", "transforms { trivial_augment_wide {} }"},
    {"RandAugment(2, 9)", "transforms { rand_augment {} }"},
    {"MixUp", "transforms { mix_up {} }"},
    {"CutMix", "transforms { cut_mix {} }"},
    {"Normalize on the server",
     "transforms { normalize { mean: [0.485, 0.456, 0.406] "
     "stddev: [0.229, 0.224, 0.225] placement: PLACEMENT_SERVER } }"},
    {"ToDtype(float32, scale) on the server",
     "transforms { to_dtype { dtype: DTYPE_FLOAT32 scale: true "
     "placement: PLACEMENT_SERVER } }"},
    {"ToDtype(float16, scale) on the server",
     "transforms { to_dtype { dtype: DTYPE_FLOAT16 scale: true "
     "placement: PLACEMENT_SERVER } }"},
    {"layout NCHW",
     "outputs { field: 'image' layout: NCHW } outputs { field: 'label' }"},
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_BENCH_BENCH_SPECS_H_
