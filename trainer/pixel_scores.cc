#include "trainer/pixel_scores.h"

#include <ATen/Functions.h>

#include "trainer/class_loss.h"

namespace millrace::trainer {
namespace {

enum Row { kBoth, kSaid, kWanted, kRight, kCounted, kRows };

}  // namespace

PixelScores::PixelScores(int64_t channels, torch::Device device)
    : counts_(at::zeros({kRows, channels},
                        torch::TensorOptions(torch::kDouble).device(device))) {}

void PixelScores::AddClasses(const torch::Tensor& logits,
                             const torch::Tensor& target) {
  const torch::NoGradGuard no_grad;
  const int64_t channels = counts_.size(1);
  const torch::Tensor counted = target.ne(kIgnoredLabel);
  const torch::Tensor wanted = target.masked_select(counted);
  const torch::Tensor said = logits.argmax(1).masked_select(counted);
  const torch::Tensor both = wanted.masked_select(wanted.eq(said));
  const auto add = [&](Row row, const torch::Tensor& classes) {
    counts_[row] += at::bincount(classes, {}, channels);
  };
  add(kBoth, both);
  add(kRight, both);
  add(kSaid, said);
  add(kWanted, wanted);
  add(kCounted, wanted);
}

void PixelScores::AddYesNo(const torch::Tensor& logits,
                           const torch::Tensor& target,
                           std::optional<int64_t> ignore_value) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor counted = ignore_value.has_value()
                                    ? target.ne(*ignore_value)
                                    : at::ones_like(target, torch::kBool);
  const torch::Tensor wanted = target.gt(0.5).logical_and(counted);
  const torch::Tensor said = logits.gt(0).logical_and(counted);
  const auto add = [&](Row row, const torch::Tensor& pixels) {
    counts_[row] += pixels.sum({0, 2, 3});
  };
  add(kBoth, wanted.logical_and(said));
  add(kSaid, said);
  add(kWanted, wanted);
  add(kRight, wanted.eq(said).logical_and(counted));
  add(kCounted, counted);
}

PixelScores::Result PixelScores::Read(const torch::Tensor& counts) {
  const auto count = counts.accessor<double, 2>();
  double right = 0;
  double counted = 0;
  double iou = 0;
  int64_t present = 0;
  for (int64_t channel = 0; channel < counts.size(1); ++channel) {
    right += count[kRight][channel];
    counted += count[kCounted][channel];
    const double either =
        count[kSaid][channel] + count[kWanted][channel] - count[kBoth][channel];
    if (either == 0) continue;
    iou += count[kBoth][channel] / either;
    ++present;
  }
  Result result;
  if (counted > 0) result.accuracy = right / counted;
  if (present > 0) result.mean_iou = iou / static_cast<double>(present);
  return result;
}

}  // namespace millrace::trainer
