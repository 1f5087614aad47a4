#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/count_text.h"
#include "proto/dtype.h"
#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

// Bounds of the mean of pixels of 0 .. 1. A mean below 0 and a stddev slightly
// above 1 are a user-defined scale.
constexpr int kMinMean = -1;
constexpr int kMaxMean = 1;
constexpr int kMaxStddev = 5;

// Reports statistics of pixels of 0 .. 255, as other programs print them.
void AddScaleProblem(const char* name, double value, int bound, int i,
                     TransformProblems& problems) {
  const bool negative = value < 0;
  const double positive = negative ? -value : value;
  AddProblem(
      problems, name,
      absl::StrCat(
          name, " ", value, negative ? " is below " : " is above ", bound,
          ": normalize divides pixels by 255 "
          "first, so mean and stddev are on the scale of 0 .. 1",
          negative ? " and the mean is subtracted: write it without the sign"
                   : "",
          positive <= 255
              ? absl::StrCat("; divide statistics of 0 .. 255 by 255, here ",
                             absl::StrFormat("%.4g", positive / 255))
              : ""),
      i);
}

void CheckStatistics(const Normalize& normalize, TransformProblems& problems) {
  if (normalize.mean_size() == 0) {
    AddProblem(problems, "",
               "normalize has no mean: write one mean and one stddev for each "
               "channel");
  }
  if (normalize.mean_size() != normalize.stddev_size()) {
    AddProblem(
        problems, "",
        absl::StrCat("normalize has ", CountText(normalize.mean_size(), "mean"),
                     " and ", CountText(normalize.stddev_size(), "stddev"),
                     ": write one mean and one stddev for each channel"));
  }
  for (int i = 0; i < normalize.mean_size(); ++i) {
    if (normalize.mean(i) > kMaxMean) {
      AddScaleProblem("mean", normalize.mean(i), kMaxMean, i, problems);
    } else if (normalize.mean(i) < kMinMean) {
      AddScaleProblem("mean", normalize.mean(i), kMinMean, i, problems);
    }
  }
  for (int i = 0; i < normalize.stddev_size(); ++i) {
    if (!(normalize.stddev(i) > 0)) {
      AddProblem(
          problems, "stddev",
          absl::StrCat("stddev ", normalize.stddev(i), ": it must be above 0"),
          i);
    } else if (normalize.stddev(i) > kMaxStddev) {
      AddScaleProblem("stddev", normalize.stddev(i), kMaxStddev, i, problems);
    }
  }
}

int64_t LastDimension(const FieldTrace& trace) {
  return trace.shape && !trace.shape->empty() ? trace.shape->back() : 0;
}

absl::Status MakeFloats(const Normalize& normalize, TracedField& field) {
  FieldTrace& trace = field.trace;
  trace.normalize_on = normalize.placement();
  if (trace.dtype != DTYPE_UINT8) {
    return field.Refuse(absl::StrCat("is ", DTypeName(trace.dtype),
                                     ", normalize works on uint8"));
  }
  const int64_t channels = field.encoded() && !trace.shape
                               ? field.decoded_channels
                               : LastDimension(trace);
  if (channels == 0)
    return field.Refuse("has no channels: decode the image first");
  if (channels != normalize.mean_size()) {
    return field.Refuse(absl::StrCat("has ", CountText(channels, "channel"),
                                     ", but normalize.mean has ",
                                     CountText(normalize.mean_size(), "value"),
                                     ": write one value for each channel"));
  }
  trace.device_dtype = DTYPE_FLOAT32;
  if (trace.normalize_on == PLACEMENT_SERVER) trace.dtype = DTYPE_FLOAT32;
  return absl::OkStatus();
}

}  // namespace

TransformKind NormalizeKind() {
  TransformKind kind(Transform::kNormalize);
  kind.phase = TransformPhase::kNormalize;
  kind.Plain("mean", "must be set, one a channel, of pixels of 0 .. 1",
             absl::StrCat(kMinMean, " .. ", kMaxMean));
  kind.Plain("stddev", "must be set, one a channel, of the same",
             absl::StrCat("above 0, up to ", kMaxStddev));
  kind.Plain("placement", "`PLACEMENT_CLIENT`");
  kind.Rule(&CheckStatistics);
  kind.Trace(&MakeFloats);
  return kind;
}

}  // namespace millrace::plan
