// PixelScores scores predictions for each pixel by counting: the share of
// correct pixels, and the mean over the channels of intersection over union
// (Everingham et al., "The PASCAL Visual Object Classes Challenge", 2010) over
// all pixels of all images. The mean leaves out a channel that neither the
// model nor the target has anywhere.
//
// One thread. Counts stay on the device, because reading one would stop it; sum
// counts() over the ranks before they are read.
//
//   PixelScores scores(classes, device);
//   scores.AddClasses(logits, Masked(target, batch));
//   MR_RETURN_IF_ERROR(ranks.Sum(counts = scores.counts().cpu()));
//   PixelScores::Result result = PixelScores::Read(counts);

#ifndef MILLRACE_TRAINER_PIXEL_SCORES_H_
#define MILLRACE_TRAINER_PIXEL_SCORES_H_

#include <torch/types.h>

#include <cstdint>
#include <optional>

namespace millrace::trainer {

class PixelScores {
 public:
  struct Result {
    std::optional<double> accuracy;  // absent: no pixel counts
    std::optional<double> mean_iou;  // absent: no channel occurs
  };

  PixelScores(int64_t channels, torch::Device device);

  // `logits`: [rows, channels, height, width]; the largest is the predicted
  // class. `target`: int64 [rows, height, width]; -100 does not count.
  void AddClasses(const torch::Tensor& logits, const torch::Tensor& target);

  // Each channel is yes or no: a logit above 0, a target above 0.5. `target`:
  // the shape of the logits. Pixels with `ignore_value` do not count.
  void AddYesNo(const torch::Tensor& logits, const torch::Tensor& target,
                std::optional<int64_t> ignore_value);

  // float64 [5, channels], counts of pixels: both say yes, the model does, the
  // target does, correct, counted.
  const torch::Tensor& counts() const { return counts_; }

  // `counts`: on the CPU.
  static Result Read(const torch::Tensor& counts);

 private:
  torch::Tensor counts_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_PIXEL_SCORES_H_
