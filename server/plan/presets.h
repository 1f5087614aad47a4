// Presets: lists of transforms by name. They change neither order, batch size
// nor the choice of samples.
//
//   mnist           28 x 28 x 1: normalise (mean 0.1307, std 0.3081 of MNIST's
//                   training pixels). Stored images are decoded to gray first
//                   and their middle 28 x 28 is taken, which is all of an image
//                   of that size.
//   imagenet_train  decode, RandomResizedCrop 224, flip 0.5, normalise
//   imagenet_eval   decode, short side to 256, middle 224, normalise
//                   (mean and std of ImageNet's pixels, as torchvision has
//                   them); raw uint8 [H, W, 3] fields are not decoded.
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

namespace millrace {

// OK, or NotFound with the names that are known.
absl::Status CheckPresetName(absl::string_view preset);

// What the preset stands for over this dataset. NotFound: no such preset, or
// no field `image`. InvalidArgument: the field does not fit.
absl::StatusOr<std::vector<Transform>> ExpandPreset(absl::string_view preset,
                                                    const DatasetInfo& info);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_PRESETS_H_
