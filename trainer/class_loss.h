// Cross entropy and accuracy over the valid rows of a batch, for targets of
// three kinds: class indices int64 [rows] and, of each pixel, int64 [rows,
// height, width], where -100 is left out, and shares of classes float32 [rows,
// classes] as MixUp and CutMix make them, where a row of zeros is left out.
//
// Pure functions on tensors, on any device; libtorch's exceptions pass.
//
//   const torch::Tensor target = Masked(reader.Target(batch), batch);
//   torch::Tensor loss = SumOfLosses(logits, target);

#ifndef MILLRACE_TRAINER_CLASS_LOSS_H_
#define MILLRACE_TRAINER_CLASS_LOSS_H_

#include <torch/types.h>

#include <cstdint>

#include "client/loader.h"

namespace millrace::trainer {

// The label of rows that hold no sample.
inline constexpr int64_t kIgnoredLabel = -100;

// Returns `target` with the rows that hold no sample marked as ignored.
torch::Tensor Masked(const torch::Tensor& target, const Batch& batch);

// Sum over the rows that count; for targets of pixels, the sum over these rows
// of the mean over the pixels that count. `logits`: [rows, classes], or [rows,
// classes, height, width]. `label_smoothing`, from 0 to below 1, is the share
// of each label that is spread over all classes evenly (Szegedy et al.,
// "Rethinking the Inception Architecture", 2015).
torch::Tensor SumOfLosses(const torch::Tensor& logits,
                          const torch::Tensor& target,
                          double label_smoothing = 0);

// Number of counting rows whose class, or class with the largest share, has one
// of the `among` largest logits. Not for pixels; see pixel_scores.h.
torch::Tensor CountCorrect(const torch::Tensor& logits,
                           const torch::Tensor& target, int64_t among = 1);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_CLASS_LOSS_H_
