// The flags with which `millrace bench` asks for data that the server makes up
// (Source.synthetic), and the spec that they make.

#ifndef MILLRACE_CLIENT_CLI_SYNTHETIC_FLAGS_H_
#define MILLRACE_CLIENT_CLI_SYNTHETIC_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/program/flag_set.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

struct SyntheticFlags {
  bool synthetic = false;
  uint32_t latency_us = 0;
  std::optional<uint32_t> ready_batches;  // 4, or 0 with a latency
  std::string shape = "224,224,3";
  std::string dtype = "uint8";
  uint64_t samples = 1'000'000'000;

  void AddTo(FlagSet& flags);

  // Made-up data are asked for.
  bool wanted() const { return synthetic || latency_us > 0; }

  // A field `image` of the shape, and a label. Without a batch size and a seed,
  // which other flags say. InvalidArgument: names the flag and what can be.
  absl::StatusOr<PipelineSpec> MakeSpec() const;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_SYNTHETIC_FLAGS_H_
