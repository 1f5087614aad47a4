// How much memory a built pipeline takes: an upper estimate from its spec,
// known before anything is built.
//
// A pure function. tests/server/pipeline/pipeline_bytes_test.cc compares it
// with what malloc gives.

#ifndef MILLRACE_SERVER_PIPELINE_PIPELINE_BYTES_H_
#define MILLRACE_SERVER_PIPELINE_PIPELINE_BYTES_H_

#include <cstdint>

#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

// Of a resolved spec.
inline uint64_t PipelineBytes(const PipelineSpec& resolved) {
  constexpr uint64_t kBase = 16 << 10;
  // The plan keeps the spec, the answer to Open has it again, the cache finds
  // pipelines by its bytes.
  constexpr uint64_t kOfSpec = 16;
  // Each source has columns of its own, and a stage runs the transforms.
  constexpr uint64_t kSource = 2 << 10;
  constexpr uint64_t kColumn = 1 << 10;
  constexpr uint64_t kTransform = 512;
  const uint64_t sources = resolved.sources_size();
  return kBase + kOfSpec * resolved.ByteSizeLong() +
         sources * (kSource + resolved.outputs_size() * kColumn +
                    resolved.transforms_size() * kTransform);
}

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_PIPELINE_BYTES_H_
