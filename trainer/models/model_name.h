// Names of the models, as --model takes them: mlp, cnn, resnet18, resnet34,
// resnet50, unet or torchscript:FILE. Does not use libtorch.
//
// Pure, except that IdentityOf() reads the file.
//
//   MR_ASSIGN_OR_RETURN(ModelName model, ParseModelName("torchscript:net.pt"));

#ifndef MILLRACE_TRAINER_MODELS_MODEL_NAME_H_
#define MILLRACE_TRAINER_MODELS_MODEL_NAME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::models {

struct ModelName {
  std::string name;        // "torchscript" for a file
  std::string file;        // empty: a built-in model
  bool of_pixels = false;  // outputs values for each pixel; false for a file
};

// InvalidArgument: an unknown name; the message lists the names.
absl::StatusOr<ModelName> ParseModelName(absl::string_view text);

// The identity of --model that a checkpoint keeps, so that another model is not
// resumed: the name, or "torchscript:" and the hash of the file's bytes
// (XXH3-128, hexadecimal), whatever its path. NotFound: no such file.
absl::StatusOr<std::string> IdentityOf(const ModelName& model);

// XXH3-128 of `bytes`, 32 hexadecimal digits.
std::string ContentHash(absl::string_view bytes);

}  // namespace millrace::models

#endif  // MILLRACE_TRAINER_MODELS_MODEL_NAME_H_
