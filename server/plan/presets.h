// Presets: named lists of transforms for common recipes. They change neither
// the order, the batch size nor the choice of samples. docs/transforms.md shows
// each preset with its source.
//
//   mnist, fashion_mnist      normalise 28 x 28 x 1
//   cifar_train, cifar_eval   32 x 32 x 3: crop with padding 4 and flip;
//                             normalise
//   imagenet_train            RandomResizedCrop 224, flip, normalise
//   imagenet_eval             short side 256, middle 224, normalise
//   imagenet_train_v2         crop 176, flip, TrivialAugmentWide, normalise,
//                             erasing 0.1, MixUp 0.2 or CutMix 1
//   imagenet_eval_v2          short side 232, middle 224, normalise
//   article_albumentations    crop 224, flip, ColorJitter, normalise
//   segmentation_train        image and mask: crop 480, flip, normalise
//
// Stored images are decoded first; raw uint8 images are used as they are.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_PLAN_PRESETS_H_
#define MILLRACE_SERVER_PLAN_PRESETS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::plan {

// In the order of the names.
std::vector<std::string> PresetNames();

// OK, or NotFound with the known names.
absl::Status CheckPresetName(absl::string_view preset);

// Replaces the spec's preset by its transforms for this dataset. Adds field
// roles that the preset needs and the spec does not have. `spec` has passed
// CheckSpec() and has a preset. NotFound: no such preset, or the dataset lacks
// a field that the preset needs. InvalidArgument: a field does not fit.
absl::Status ExpandPreset(const DatasetInfo& info, PipelineSpec& spec);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_PRESETS_H_
