#include "trainer/models/script_model.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::models {
namespace {

using Seen = std::set<const c10::TensorImpl*>;

// Registers the tensors of `script` in `module`, and those of each of its
// children in a child of `module`.
void Register(const torch::jit::Module& script, torch::nn::Module& module,
              Seen& seen) {
  for (const auto& parameter : script.named_parameters(/*recurse=*/false)) {
    if (!seen.insert(parameter.value.unsafeGetTensorImpl()).second) continue;
    module.register_parameter(parameter.name, parameter.value,
                              parameter.value.requires_grad());
  }
  for (const auto& buffer : script.named_buffers(/*recurse=*/false)) {
    if (!seen.insert(buffer.value.unsafeGetTensorImpl()).second) continue;
    module.register_buffer(buffer.name, buffer.value);
  }
  for (const auto& child : script.named_children()) {
    auto holder = std::make_shared<torch::nn::Module>(child.name);
    Register(child.value, *holder, seen);
    module.register_module(child.name, std::move(holder));
  }
}

}  // namespace

ScriptModel::ScriptModel(const ScriptFile& file) : file_(file) {
  Seen seen;
  Register(file_.module(), *this, seen);
}

torch::Tensor ScriptModel::forward(torch::Tensor images) {
  const c10::IValue output = file_.Forward({std::move(images)});
  TORCH_CHECK(output.isTensor(), file_.path(),
              " returns no tensor but a value of type ", output.tagKind(),
              "; its forward must return one tensor");
  return output.toTensor();
}

void ScriptModel::train(bool on) {
  torch::nn::Module::train(on);
  file_.module().train(on);
}

absl::StatusOr<std::shared_ptr<ScriptModel>> MakeScriptModel(
    const std::string& path, torch::Device device) {
  MR_ASSIGN_OR_RETURN(const ScriptFile file, ScriptFile::Load(path, device));
  auto model = std::make_shared<ScriptModel>(file);
  bool trainable = false;
  for (const auto& parameter : model->named_parameters()) {
    trainable = trainable || parameter.value().requires_grad();
    const torch::ScalarType type = parameter.value().scalar_type();
    if (type == torch::kFloat) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has weights that are not float32: ", parameter.key(), " is ",
        c10::toString(type),
        "; call module.float() in Python before you save it, and set the type "
        "for computing with --precision"));
  }
  if (!trainable) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " has no parameters to train; it was perhaps frozen, or saved with "
        "requires_grad off: save torch.jit.script(module.train())"));
  }
  return model;
}

}  // namespace millrace::models
