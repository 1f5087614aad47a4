// GraphModel runs a model as a graph: libtorch's tracer records the operations
// of the model's forward with a batch, and its graph executor, which
// rearranges, differentiates and on a GPU fuses operations, runs them from then
// on. torch.compile is available only in Python.
//
// The graph uses the model's own parameters and buffers, which appear under the
// same names. There is one graph for each combination that a trace fixes: the
// shape and type of the batch, training or evaluation, gradients or none, and
// autocast's types. A batch with a new combination, such as a smaller last one,
// is traced during its own first step: nothing is computed twice, and running
// statistics and random numbers advance once.
//
// Sums may be rounded differently than without a graph. Beyond kMaxGraphs
// combinations, batches run without a graph. One thread.
//
//   model = GraphOf(model);
//   torch::Tensor logits = model->forward(images);

#ifndef MILLRACE_TRAINER_MODELS_GRAPH_MODEL_H_
#define MILLRACE_TRAINER_MODELS_GRAPH_MODEL_H_

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "trainer/models/model.h"

namespace millrace::models {

class GraphModel final : public Classifier {
 public:
  static constexpr size_t kMaxGraphs = 16;

  // The model is already on its device and in its layout.
  explicit GraphModel(std::shared_ptr<Classifier> model);

  torch::Tensor forward(torch::Tensor images) override;
  void train(bool on = true) override;

  size_t graphs() const { return graphs_.size(); }

 private:
  using Key = std::tuple<std::vector<int64_t>, torch::ScalarType,
                         bool /*training*/, bool /*gradients*/,
                         bool /*autocast*/, torch::ScalarType /*of autocast*/>;

  Key KeyOf(const torch::Tensor& images) const;

  std::shared_ptr<Classifier> model_;
  // The same tensors, in the form that the tracer and its graphs use.
  torch::jit::Module mirror_;
  std::map<Key, torch::jit::GraphExecutor> graphs_;
};

// `model` as a graph. A model from a TorchScript file is a graph already: the
// executor is told to optimise it.
std::shared_ptr<Classifier> GraphOf(std::shared_ptr<Classifier> model);

}  // namespace millrace::models

#endif  // MILLRACE_TRAINER_MODELS_GRAPH_MODEL_H_
