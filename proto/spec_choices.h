// SpecChoices are the flags or options that say which pipeline a user wants:
// where the pipeline comes from, and the values that replace its own. All
// programs and the C interface make their specs here, so that one precedence
// and one set of sentences hold for all of them.
//
// What it is not: it declares no flag (client/cli/spec_flags.h,
// trainer/flags.h), and does not check what a spec means: servers do.
//
// Plain data, one thread at a time.
//
//   SpecChoices choices;
//   choices.pipeline = "my.textproto";
//   choices.batch_size = 256;
//   MR_ASSIGN_OR_RETURN(PipelineSpec spec, choices.Start(recommended));
//   MR_RETURN_IF_ERROR(choices.Replace({.pipeline = choices.pipeline}, spec));

#ifndef MILLRACE_PROTO_SPEC_CHOICES_H_
#define MILLRACE_PROTO_SPEC_CHOICES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

// Samples of a global batch when neither a flag nor the pipeline has a number.
inline constexpr uint64_t kDefaultBatchSize = 64;

struct SpecChoices {
  // Where the pipeline comes from; at most one of the two.
  std::string pipeline;  // a file
  std::string preset;
  // What replaces the pipeline's values. Empty or absent: the pipeline's value
  // stays.
  std::string dataset;
  std::string outputs;  // names of fields, separated by commas
  std::optional<uint64_t> batch_size;
  std::optional<uint64_t> seed;
  std::string shuffle;      // global or sequential
  std::string last_batch;   // drop, pad or partial
  std::string compression;  // none or zstd

  // The pipeline before Replace(): that of the file, otherwise the preset,
  // otherwise the preset that `recommended` names ("" for none: samples as they
  // are stored). Errors of ReadSpecFile() and of `recommended`.
  absl::StatusOr<PipelineSpec> Start(
      absl::FunctionRef<absl::StatusOr<std::string>()> recommended) const;

  struct Names {
    absl::string_view prefix = "--";  // of a choice, in a sentence
    absl::string_view pipeline;       // of the pipeline, in a sentence
    uint64_t default_batch_size = kDefaultBatchSize;  // 0: none
  };

  // Replaces values of `spec`. InvalidArgument with the mark of UsageError():
  // `dataset` cannot replace several sources, or `outputs` is malformed.
  absl::Status Replace(const Names& names, PipelineSpec& spec) const;
};

}  // namespace millrace

#endif  // MILLRACE_PROTO_SPEC_CHOICES_H_
