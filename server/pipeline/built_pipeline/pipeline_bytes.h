// How much memory a built pipeline takes: an upper estimate from its spec,
// known before anything is built.
//
// A pure function. tests/server/pipeline/built_pipeline/pipeline_bytes_test.cc
// compares it with what malloc gives.

#ifndef MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_PIPELINE_BYTES_H_
#define MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_PIPELINE_BYTES_H_

#include <algorithm>
#include <cstdint>

#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::pipeline {

// A lower bound of PipelineBytes() of what `spec` is resolved to, which has as
// many sources and no fewer transforms and outputs, at least one.
inline uint64_t MinPipelineBytes(const PipelineSpec& spec) {
  constexpr uint64_t kBase = 16 << 10;
  // Each source has columns of its own, and a stage runs the transforms.
  constexpr uint64_t kSource = 2 << 10;
  constexpr uint64_t kColumn = 1 << 10;
  constexpr uint64_t kTransform = 512;
  const uint64_t sources = spec.sources_size();
  const uint64_t outputs = std::max(1, spec.outputs_size());
  return kBase + sources * (kSource + outputs * kColumn +
                            spec.transforms_size() * kTransform);
}

// Of a resolved spec.
inline uint64_t PipelineBytes(const PipelineSpec& resolved) {
  // The plan keeps the spec, the answer to Open has it again, the cache finds
  // pipelines by its bytes.
  constexpr uint64_t kOfSpec = 16;
  return kOfSpec * resolved.ByteSizeLong() + MinPipelineBytes(resolved);
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_PIPELINE_BYTES_H_
