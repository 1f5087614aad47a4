#include "trainer/models/graph_model.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/models/script_model.h"

namespace millrace::models {
namespace {

// Copies the tree of modules around the same tensors. Every type gets its own
// name.
torch::jit::Module Mirror(const torch::nn::Module& module,
                          const std::string& type) {
  torch::jit::Module mirror{c10::QualifiedName(type)};
  for (const auto& named : module.named_parameters(/*recurse=*/false)) {
    mirror.register_parameter(named.key(), named.value(), /*is_buffer=*/false);
  }
  for (const auto& named : module.named_buffers(/*recurse=*/false)) {
    mirror.register_parameter(named.key(), named.value(), /*is_buffer=*/true);
  }
  for (const auto& child : module.named_children()) {
    mirror.register_module(
        child.key(),
        Mirror(*child.value(), absl::StrCat(type, "_", child.key())));
  }
  return mirror;
}

}  // namespace

GraphModel::GraphModel(std::shared_ptr<Classifier> model)
    : model_(std::move(model)), mirror_(Mirror(*model_, "__torch__.traced")) {
  // Not the model as a child: its name would prefix all others.
  for (const auto& named : model_->named_parameters(/*recurse=*/false)) {
    register_parameter(named.key(), named.value(),
                       named.value().requires_grad());
  }
  for (const auto& named : model_->named_buffers(/*recurse=*/false)) {
    register_buffer(named.key(), named.value());
  }
  for (const auto& child : model_->named_children()) {
    register_module(child.key(), child.value());
  }
}

void GraphModel::train(bool on) {
  torch::nn::Module::train(on);
  model_->train(on);
}

GraphModel::Key GraphModel::KeyOf(const torch::Tensor& images) const {
  const c10::DeviceType device = images.device().type();
  const bool autocast = at::autocast::is_autocast_enabled(device);
  return {images.sizes().vec(),
          images.scalar_type(),
          is_training(),
          at::GradMode::is_enabled(),
          autocast,
          autocast ? at::autocast::get_autocast_dtype(device)
                   : images.scalar_type()};
}

torch::Tensor GraphModel::forward(torch::Tensor images) {
  Key key = KeyOf(images);
  if (const auto known = graphs_.find(key); known != graphs_.end()) {
    torch::jit::Stack stack = {mirror_._ivalue(), std::move(images)};
    known->second.run(stack);
    return stack.at(0).toTensor();
  }
  if (graphs_.size() >= kMaxGraphs) return model_->forward(std::move(images));
  // A weight that autocast converted before the trace would be unknown to it.
  at::autocast::clear_cache();
  auto [state, outputs] = torch::jit::tracer::trace(
      {std::move(images)},
      [this](torch::jit::Stack inputs) -> torch::jit::Stack {
        return {model_->forward(inputs.at(0).toTensor())};
      },
      [](const torch::Tensor&) { return std::string(); }, /*strict=*/true,
      /*force_outplace=*/false, &mirror_, {"images"});
  graphs_.emplace(std::move(key),
                  torch::jit::GraphExecutor(state->graph, "forward"));
  return outputs.at(0).toTensor();
}

std::shared_ptr<Classifier> GraphOf(std::shared_ptr<Classifier> model) {
  if (auto script = std::dynamic_pointer_cast<ScriptModel>(model)) {
    script->Optimize();
    return model;
  }
  return std::make_shared<GraphModel>(std::move(model));
}

}  // namespace millrace::models
