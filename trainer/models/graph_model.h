// GraphModel runs a model as a graph: libtorch's tracer writes down which
// operations the model's forward does with a batch, and its graph executor,
// which rearranges, differentiates and on a GPU fuses them as a whole, does
// them from then on. This is what C++ has; torch.compile is Python's.
//
// The graph computes with the model's own parameters and buffers, which appear
// under the same names. There is one graph for each of what a trace holds fast:
// the shape and type of the batch, training or evaluation, gradients or none,
// and the types that autocast chooses. A batch that is new in one of these,
// such as a smaller last one, is traced with its own first step: nothing is
// computed twice, and running statistics and random numbers move on once.
//
// Sums may be rounded differently than without a graph. After kMostGraphs
// kinds of batches further kinds run without. One thread.
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

namespace millrace {

class GraphModel final : public Classifier {
 public:
  static constexpr size_t kMostGraphs = 16;

  // The model is in its place: on its device, in its layout.
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
  // The same tensors, as the tracer and its graphs look them up.
  torch::jit::Module mirror_;
  std::map<Key, torch::jit::GraphExecutor> graphs_;
};

// `model` as a graph. One from a TorchScript file is a graph already: the
// executor is told to optimise it.
std::shared_ptr<Classifier> GraphOf(std::shared_ptr<Classifier> model);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_MODELS_GRAPH_MODEL_H_
