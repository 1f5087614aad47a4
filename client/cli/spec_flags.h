// SpecFlags are the flags of a command that say what to load and how. They make
// the pipeline spec and the options of a loader.
//
// Not thread-safe, and must not move between AddTo() and FlagSet::Parse().
//
//   SpecFlags spec;
//   spec.AddTo(flags);
//   MR_RETURN_IF_ERROR(flags.Parse(arguments));
//   MR_RETURN_IF_ERROR(spec.Validate());
//   HostLoaderOptions options = spec.MakeOptions();
//   MR_ASSIGN_OR_RETURN(options.spec, spec.MakeSpec());

#ifndef MILLRACE_CLIENT_CLI_SPEC_FLAGS_H_
#define MILLRACE_CLIENT_CLI_SPEC_FLAGS_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/flags/loader_flags.h"
#include "client/prefetch/host_loader.h"
#include "common/program/flag_set.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "proto/spec_choices.h"

namespace millrace::cli {

struct SpecFlags {
  flags::LoaderFlags loader;  // how to load
  SpecChoices choices;        // what to load; there is no --shuffle
  // Not a flag: a spec that the flags modify, instead of a dataset, a preset or
  // a file.
  std::optional<PipelineSpec> base;

  void AddTo(program::FlagSet& flags);

  // InvalidArgument: a flag is missing, or cannot be used together with another
  // one.
  absl::Status Validate() const;

  // The part of Validate() that concerns how to load.
  absl::Status ValidateHow() const;

  // Whether a flag is given that says what to load.
  bool SaysWhatToLoad() const {
    return !choices.dataset.empty() || !choices.preset.empty() ||
           !choices.pipeline.empty() || !choices.outputs.empty() ||
           choices.batch_size.has_value() || choices.seed.has_value() ||
           !choices.last_batch.empty() || !choices.compression.empty();
  }

  // Options of a loader for a command: endpoint, timeouts and the like, without
  // the spec. Requires flags that Validate() accepted.
  HostLoaderOptions MakeOptions() const;

  // Reads the file of --pipeline. Asks the endpoint for the dataset's own
  // preset when neither --preset nor --pipeline is given. Flags override the
  // file. Errors with the mark of UsageError(): a file that cannot be read or
  // is not a pipeline, and a dataset that no server has.
  absl::StatusOr<PipelineSpec> MakeSpec() const;
};

// Marks an answer of a server as a UsageError() when a flag is the reason: it
// names a dataset, preset, field or position that does not exist. These answers
// are NotFound, InvalidArgument, and Unimplemented when a server says it of the
// pipeline. Passes on all others.
absl::Status OfRequest(absl::Status answer);

template <typename T>
absl::StatusOr<T> OfRequest(absl::StatusOr<T> answer) {
  if (answer.ok()) return answer;
  return OfRequest(std::move(answer).status());
}

// InvalidArgument: --world ranks cannot share the batches of `spec`, which
// MakeSpec() made, equally.
absl::Status CheckShares(const PipelineSpec& spec, uint32_t world);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_SPEC_FLAGS_H_
