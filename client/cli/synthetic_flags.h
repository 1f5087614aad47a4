// SyntheticFlags are the flags with which `millrace bench` requests synthetic
// data (Source.synthetic). They make a pipeline spec.
//
// Not thread-safe, and must not move between AddTo() and FlagSet::Parse().
//
//   SyntheticFlags synthetic;
//   synthetic.AddTo(flags);
//   MR_RETURN_IF_ERROR(flags.Parse(arguments));
//   if (synthetic.wanted()) {
//     MR_ASSIGN_OR_RETURN(spec, synthetic.MakeSpec());
//   }

#ifndef MILLRACE_CLIENT_CLI_SYNTHETIC_FLAGS_H_
#define MILLRACE_CLIENT_CLI_SYNTHETIC_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/program/flag_set.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::cli {

struct SyntheticFlags {
  bool synthetic = false;
  uint32_t latency_us = 0;
  std::optional<uint32_t> ready_batches;  // 4, or 0 with a latency
  std::string shape = "224,224,3";
  std::string dtype = "uint8";
  uint64_t samples = 1'000'000'000;

  void AddTo(program::FlagSet& flags);

  // Whether the flags request synthetic data.
  bool wanted() const { return synthetic || latency_us > 0; }

  // A spec with a field `image` of --shape, and a label; without batch size and
  // seed, which other flags set. InvalidArgument: names the flag and the valid
  // values.
  absl::StatusOr<PipelineSpec> MakeSpec() const;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_SYNTHETIC_FLAGS_H_
