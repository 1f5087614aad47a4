#include "trainer/class_loss.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <tuple>

namespace millrace::trainer {
namespace {

bool IsSoft(const torch::Tensor& target) { return target.dim() == 2; }

}  // namespace

torch::Tensor Masked(const torch::Tensor& target, const Batch& batch) {
  if (batch.local_valid == batch.rows || !batch.has("valid")) return target;
  const torch::Tensor empty = batch.tensor("valid").logical_not();
  if (IsSoft(target)) return target.masked_fill(empty.unsqueeze(1), 0);
  return target.masked_fill(target.dim() == 3 ? empty.view({-1, 1, 1}) : empty,
                            kIgnoredLabel);
}

torch::Tensor SumOfLosses(const torch::Tensor& logits,
                          const torch::Tensor& target, double label_smoothing) {
  if (IsSoft(target) && label_smoothing > 0) {
    // ATen would also smooth rows of zeros, which do not count.
    const torch::Tensor smooth =
        target * (1 - label_smoothing) +
        target.sum(1, /*keepdim=*/true) *
            (label_smoothing / static_cast<double>(target.size(1)));
    return SumOfLosses(logits, smooth);
  }
  if (target.dim() == 3) {
    TORCH_CHECK(logits.dim() == 4, "the model returned ", logits.sizes(),
                " for a class in each pixel of ", target.sizes());
    const torch::Tensor losses =
        at::cross_entropy_loss(logits, target, {}, at::Reduction::None,
                               kIgnoredLabel, label_smoothing);
    const torch::Tensor counted = target.ne(kIgnoredLabel).sum({1, 2});
    return losses.sum({1, 2}).div(counted.clamp_min(1)).sum();
  }
  // With shares the loss is the sum of -share * log softmax: a row of zeros
  // adds 0.
  return at::cross_entropy_loss(logits, target, {}, at::Reduction::Sum,
                                kIgnoredLabel, label_smoothing);
}

torch::Tensor CountCorrect(const torch::Tensor& logits,
                           const torch::Tensor& target, int64_t among) {
  const torch::Tensor wanted = IsSoft(target) ? target.argmax(1) : target;
  // The ignored label never matches.
  const torch::Tensor right =
      among == 1 ? logits.argmax(1).eq(wanted)
                 : std::get<1>(logits.topk(std::min(among, logits.size(1)), 1))
                       .eq(wanted.unsqueeze(1))
                       .any(1);
  if (!IsSoft(target)) return right.sum();
  return right.logical_and(target.sum(1).gt(0)).sum();
}

}  // namespace millrace::trainer
