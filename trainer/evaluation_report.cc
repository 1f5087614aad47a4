#include "trainer/evaluation_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/count_text.h"

namespace millrace::trainer {

std::string EvaluationLine(const Evaluation::Result& result,
                           const std::string& dataset) {
  std::string judged;
  if (result.accuracy.has_value()) {
    judged = absl::StrFormat("accuracy %.4f", *result.accuracy);
  }
  if (result.top5.has_value()) {
    absl::StrAppendFormat(&judged, " (top-5 %.4f)", *result.top5);
  }
  if (result.mean_iou.has_value()) {
    absl::StrAppendFormat(&judged, "%smean IoU %.4f",
                          judged.empty() ? "" : ", ", *result.mean_iou);
  }
  const std::string left_out =
      result.empty_rows == 0
          ? ""
          : absl::StrCat(" (", CountText(result.empty_rows, "damaged sample"),
                         " left out by bad_samples ZERO)");
  return absl::StrFormat("  evaluation on %s: %s%sloss %.4f, %s%s, %.2f s",
                         dataset, judged, judged.empty() ? "" : ", ",
                         result.loss, CountText(result.samples, "sample"),
                         left_out, result.seconds);
}

std::vector<monitoring::Scalar> EvaluationScalars(
    const Evaluation::Result& result) {
  std::vector<monitoring::Scalar> scalars = {{"Loss/val", result.loss}};
  if (result.accuracy.has_value()) {
    scalars.push_back({"Accuracy/val", *result.accuracy});
  }
  if (result.top5.has_value()) {
    scalars.push_back({"Accuracy/val_top5", *result.top5});
  }
  if (result.mean_iou.has_value()) {
    scalars.push_back({"MeanIoU/val", *result.mean_iou});
  }
  return scalars;
}

void AddTo(diagnosis::RunSummary& summary, const Evaluation::Result& result) {
  summary.eval_seconds.push_back(result.seconds);
  summary.eval_accuracy = result.accuracy;
  summary.eval_top5 = result.top5;
  summary.eval_mean_iou = result.mean_iou;
  summary.eval_loss.push_back(result.loss);
}

}  // namespace millrace::trainer
