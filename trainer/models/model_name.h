// The models by name, as --model says them: mlp, cnn, resnet18, resnet34,
// resnet50, unet or torchscript:FILE. Knows no libtorch.
//
// Pure, but that IdentityOf() reads the file.
//
//   MR_ASSIGN_OR_RETURN(ModelName model, ParseModelName("torchscript:net.pt"));

#ifndef MILLRACE_TRAINER_MODELS_MODEL_NAME_H_
#define MILLRACE_TRAINER_MODELS_MODEL_NAME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

struct ModelName {
  std::string name;        // "torchscript" for a file
  std::string file;        // empty: one of the trainer's own
  bool of_pixels = false;  // gives values for each pixel; of a file: unknown
};

// InvalidArgument says what there is.
absl::StatusOr<ModelName> ParseModelName(absl::string_view text);

// What a checkpoint keeps of --model, so that another one is not resumed: the
// name, or "torchscript:" and the hash of the file's bytes (XXH3-128,
// hexadecimal), wherever the file lies. NotFound: no such file.
absl::StatusOr<std::string> IdentityOf(const ModelName& model);

// XXH3-128 of `bytes`, 32 hexadecimal digits.
std::string ContentHash(absl::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_MODELS_MODEL_NAME_H_
