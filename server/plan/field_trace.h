// FieldTrace follows one stored field through the transforms of a spec: which
// of them touch it, and what comes out. It computes no pixel.
//
// Pure function, safe from any thread.

#ifndef MILLRACE_SERVER_PLAN_FIELD_TRACE_H_
#define MILLRACE_SERVER_PLAN_FIELD_TRACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

struct FieldTrace {
  // Places in the spec of the image operators, in order. Empty: the stored
  // bytes are the result.
  std::vector<uint32_t> image_places;
  // Place of normalize, which the client computes; -1: none.
  int normalize_place = -1;
  // Of the result on the wire. `shape` is absent when samples differ in size;
  // `why_not_fixed` then says so in words.
  DType dtype = DTYPE_UNSPECIFIED;
  std::optional<std::vector<int64_t>> shape;
  std::string why_not_fixed;
};

// `spec` has passed CheckSpec. InvalidArgument: a transform does not fit the
// field; names both.
absl::StatusOr<FieldTrace> TraceField(const PipelineSpec& spec,
                                      const Field& field);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_FIELD_TRACE_H_
