// A TorchScript module of a user's file as a model to train: its parameters and
// buffers appear under their names in Python and are the module's own tensors,
// so a change of one changes the other.
//
// One thread. The file is loaded onto the training's device. A tensor that two
// names share appears under the first of them.
//
//   MR_ASSIGN_OR_RETURN(auto model, MakeScriptModel("net.pt", device));

#ifndef MILLRACE_TRAINER_MODELS_SCRIPT_MODEL_H_
#define MILLRACE_TRAINER_MODELS_SCRIPT_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/models/model.h"
#include "trainer/models/script_file.h"

namespace millrace::models {

class ScriptModel final : public Classifier {
 public:
  explicit ScriptModel(const ScriptFile& file);

  torch::Tensor forward(torch::Tensor images) override;
  void train(bool on = true) override;

  // Lets libtorch's executor fuse and rearrange the module's operations.
  void Optimize() { file_.Optimize(); }

 private:
  ScriptFile file_;
};

// NotFound, DataLoss: as ScriptFile::Load(). InvalidArgument: the file has no
// parameters to train, or weights that are not float32.
absl::StatusOr<std::shared_ptr<ScriptModel>> MakeScriptModel(
    const std::string& path, torch::Device device);

}  // namespace millrace::models

#endif  // MILLRACE_TRAINER_MODELS_SCRIPT_MODEL_H_
