// The flags with which a command says what to load and how, and the pipeline
// spec and the options of a loader that they make.

#ifndef MILLRACE_CLIENT_CLI_SPEC_FLAGS_H_
#define MILLRACE_CLIENT_CLI_SPEC_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/prefetch/host_loader.h"
#include "common/program/flag_set.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

struct SpecFlags {
  std::string endpoint;
  std::string dataset;
  std::string preset;
  std::string pipeline;
  std::string outputs;
  std::optional<uint64_t> batch_size;
  std::optional<uint64_t> seed;
  std::string last_batch;
  std::string compression;
  absl::Duration timeout = absl::Seconds(5);
  // Not a flag: what the others go over, in place of a dataset, a preset or a
  // file.
  std::optional<PipelineSpec> base;
  std::string same_host = "off";
  // As HostLoaderOptions has them.
  absl::Duration step_timeout = HostLoaderOptions().step_timeout;
  double hedge_share = HostLoaderOptions().hedge_share;
  std::optional<absl::Duration> hedge_floor;

  void AddTo(FlagSet& flags);
  // Those of second requests, which a loader makes after 32 steps at the
  // earliest: for commands that receive more than a batch of a loader.
  void AddHedgesTo(FlagSet& flags);

  // InvalidArgument: a flag is missing or contradicts another.
  absl::Status Validate() const;

  // The part of Validate() that says nothing of what to load.
  absl::Status ValidateHow() const;

  // Any of the flags that make the spec is given.
  bool SaysWhatToLoad() const {
    return !dataset.empty() || !preset.empty() || !pipeline.empty() ||
           !outputs.empty() || batch_size.has_value() || seed.has_value() ||
           !last_batch.empty() || !compression.empty();
  }

  // What they say of how to load: endpoint, timeouts and the like, not the
  // spec. Of flags that Validate() has passed.
  void ApplyTo(HostLoaderOptions& options) const;

  // Reads the pipeline's file; asks the endpoint for the dataset's own preset
  // when neither --preset nor --pipeline is given. What is given as a flag
  // overrides what the file says. A file that cannot be read, or is no
  // pipeline, and a dataset that no server knows are errors with the mark of
  // UsageError().
  absl::StatusOr<PipelineSpec> MakeSpec() const;
};

// `answer` to a request for what the flags name: a dataset, a preset, a field,
// a position. NotFound and InvalidArgument, and Unimplemented where a server
// says it (of the pipeline), are then mistakes of the flags and get the mark of
// UsageError(); other errors are passed on.
absl::Status OfRequest(absl::Status answer);

template <typename T>
absl::StatusOr<T> OfRequest(absl::StatusOr<T> answer) {
  if (answer.ok()) return answer;
  return OfRequest(std::move(answer).status());
}

// Of --world and a spec that MakeSpec() made. InvalidArgument: the ranks would
// not get equal parts of a batch.
absl::Status CheckShares(const PipelineSpec& spec, uint32_t world);

// Of --rank and --world. InvalidArgument: names both.
absl::Status CheckRank(uint32_t rank, uint32_t world);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_SPEC_FLAGS_H_
