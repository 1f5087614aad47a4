// A SampleReader over another whose samples have gone through the beginning of
// a pipeline (`millrace-data pack --apply`), computed as a server computes it.
//
// Several samples are converted at the same time; samples come in the other's
// order, and their bytes do not depend on the threads. Belongs to one thread at
// a time.
//
//   MR_ASSIGN_OR_RETURN(auto applying,
//                       MakeApplying(std::move(reader), {.applied = &spec}));

#ifndef MILLRACE_SERVER_DATA_TOOL_APPLYING_READER_H_
#define MILLRACE_SERVER_DATA_TOOL_APPLYING_READER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "proto/pipeline.pb.h"
#include "server/data_tool/pipeline_beginning.h"
#include "server/data_tool/sample_reader.h"
#include "server/operators/operators.h"

namespace millrace::data_tool {

struct ApplyOptions {
  PipelineSpec applied;  // PipelineBeginning::applied
  StoredAs stored_as = StoredAs::kPng;
  int quality = 90;      // of JPEGs
  uint32_t threads = 1;  // at least 1
  // Libraries of the decoders that the pipeline names; they outlive the reader.
  const operators::Operators* operators = nullptr;
};

// InvalidArgument: a transform does not fit a field; with StoredAs::kTensor,
// the images have no single size.
absl::StatusOr<std::unique_ptr<SampleReader>> MakeApplying(
    std::unique_ptr<SampleReader> reader, const ApplyOptions& options);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_APPLYING_READER_H_
