#include "proto/spec_choices.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/output_names.h"
#include "proto/read_spec.h"

namespace millrace {

absl::StatusOr<PipelineSpec> SpecChoices::Start(
    absl::FunctionRef<absl::StatusOr<std::string>()> recommended) const {
  if (!pipeline.empty()) return ReadSpecFile(pipeline);
  PipelineSpec spec;
  if (!preset.empty()) {
    spec.set_preset(preset);
  } else {
    MR_ASSIGN_OR_RETURN(*spec.mutable_preset(), recommended());
  }
  return spec;
}

absl::Status SpecChoices::Replace(const Names& names,
                                  PipelineSpec& spec) const {
  if (!dataset.empty()) {
    if (spec.sources_size() > 1) {
      return UsageError(absl::InvalidArgumentError(absl::StrCat(
          names.prefix, "dataset=", dataset, " cannot replace the ",
          spec.sources_size(), " sources of ", names.pipeline)));
    }
    if (spec.sources().empty()) spec.add_sources();
    spec.mutable_sources(0)->set_dataset(dataset);
  }
  MR_RETURN_IF_ERROR(UsageError(SelectOutputs(outputs, spec)));
  if (batch_size.has_value()) spec.set_batch_size(*batch_size);
  if (spec.batch_size() == 0) spec.set_batch_size(names.default_batch_size);
  if (seed.has_value()) spec.set_seed(*seed);
  if (!shuffle.empty()) {
    spec.mutable_shuffle()->Clear();
    spec.mutable_shuffle()->set_mode(shuffle == "global" ? Shuffle::GLOBAL
                                                         : Shuffle::SEQUENTIAL);
  }
  if (!last_batch.empty()) {
    spec.set_last_batch(last_batch == "drop"  ? LAST_BATCH_DROP
                        : last_batch == "pad" ? LAST_BATCH_PAD
                                              : LAST_BATCH_PARTIAL);
  }
  if (!compression.empty()) {
    spec.set_compression(compression == "zstd" ? COMPRESSION_ZSTD
                                               : COMPRESSION_NONE);
  }
  return absl::OkStatus();
}

}  // namespace millrace
