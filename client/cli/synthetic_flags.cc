#include "client/cli/synthetic_flags.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "proto/synthetic.h"

namespace millrace::cli {
namespace {

constexpr uint32_t kDefaultReadyBatches = 4;
constexpr int64_t kClasses = 1000;

}  // namespace

void SyntheticFlags::AddTo(program::FlagSet& flags) {
  const std::vector<std::string> wanted = {"synthetic", "synthetic_latency_us"};
  flags.Group("Synthetic data, instead of a dataset");
  flags.Add("synthetic", &synthetic, "",
            "Receive batches that the server has made before: measures the "
            "upper bound of the link and of sending");
  flags.Add("synthetic_latency_us", &latency_us, "N",
            "Receive samples that the server makes one by one; each waits N "
            "microseconds, as a read from remote storage does; 0: off");
  flags
      .Add("ready_batches", &ready_batches, "N",
           "Number of prepared batches that --synthetic repeats; 0: every "
           "sample is generated")
      .Default("4, with --synthetic_latency_us 0")
      .Needs(wanted);
  flags.Add("shape", &shape, "N,N,N", "Shape of a synthetic sample")
      .Needs(wanted);
  flags
      .Add("dtype", &dtype, "TYPE",
           "Element type of a synthetic sample, such as float32")
      .Needs(wanted);
  flags.Add("samples", &samples, "N", "Number of synthetic samples")
      .Needs(wanted);
}

absl::StatusOr<PipelineSpec> SyntheticFlags::MakeSpec() const {
  PipelineSpec spec;
  Synthetic& made = *spec.add_sources()->mutable_synthetic();
  made.set_samples(samples);
  made.set_latency_us(latency_us);
  made.set_ready_batches(
      ready_batches.value_or(latency_us > 0 ? 0 : kDefaultReadyBatches));
  SyntheticField& image = *made.add_fields();
  image.set_name("image");
  for (int type = DTYPE_UINT8; v1::DType_IsValid(type); ++type) {
    if (DTypeName(static_cast<DType>(type)) == dtype) {
      image.set_dtype(static_cast<DType>(type));
    }
  }
  if (image.dtype() == DTYPE_UNSPECIFIED) {
    return absl::InvalidArgumentError(absl::StrCat(
        "flag --dtype=", dtype, ": expected an element type, such as uint8"));
  }
  for (const absl::string_view part : absl::StrSplit(shape, ',')) {
    int64_t dim = 0;
    if (!absl::SimpleAtoi(part, &dim) || dim < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("flag --shape=", shape,
                       ": expected numbers from 1, such as 224,224,3"));
    }
    image.add_shape(dim);
  }
  SyntheticField& label = *made.add_fields();
  label.set_name("label");
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(kClasses);
  // The message names a field of the spec, so the flag is named here.
  const absl::Status checked = CheckSynthetic(made);
  if (checked.ok()) return spec;
  const std::string flag =
      samples < 1 || samples > kMaxSyntheticSamples
          ? absl::StrCat("samples=", samples)
      : latency_us > kMaxSyntheticLatencyUs
          ? absl::StrCat("synthetic_latency_us=", latency_us)
      : made.ready_batches() > kMaxReadyBatches || latency_us > 0
          ? absl::StrCat("ready_batches=", made.ready_batches())
          : absl::StrCat("shape=", shape);
  return absl::InvalidArgumentError(
      absl::StrCat("flag --", flag, ": ", checked.message()));
}

}  // namespace millrace::cli
