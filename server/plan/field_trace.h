// FieldTrace follows one stored field through the transforms of a spec: which
// of them touch it, where they are computed, and what comes out, on the wire
// and on the trainer's device. It computes no pixel.
//
// Pure function, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(const FieldTrace trace, TraceField(spec, field));
//   if (!trace.shape) return Refuse(field.name(), trace.why_not_fixed);

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
  // What geometric transforms take the field for, and of a mask or boxes the
  // image that they belong to.
  FieldRole::Role role = FieldRole::IMAGE;
  std::string image;

  // Places in the spec of what is computed for each sample on the server, in
  // order: decode_image, geometry, colour, operators. Empty: the stored bytes
  // are the result.
  std::vector<uint32_t> image_places;
  // Places of mix_up and cut_mix, which the server computes for each batch,
  // behind those. Of a label too: then it is mixed, float32 [num_classes].
  std::vector<uint32_t> batch_places;
  bool mixed_label = false;
  // Place of normalize, behind those; -1: none.
  int normalize_place = -1;
  Placement normalize_on = PLACEMENT_CLIENT;
  // Place of to_dtype, last; -1: none.
  int to_dtype_place = -1;
  Placement to_dtype_on = PLACEMENT_CLIENT;

  // Of a sample on the wire; images are [height, width, channels]. `shape` is
  // absent when samples differ in size; `why_not_fixed` then says so in words.
  DType dtype = DTYPE_UNSPECIFIED;
  std::optional<std::vector<int64_t>> shape;
  std::string why_not_fixed;

  // What the trainer gets of a sample. Normalised images are
  // [channels, height, width] unless the output's layout says otherwise.
  DType device_dtype = DTYPE_UNSPECIFIED;
  std::optional<std::vector<int64_t>> device_shape;
};

// `spec` has passed CheckSpec(). InvalidArgument: a transform or a role does
// not fit the field; Unimplemented: a conversion that is not built. Both name
// the place and the field.
absl::StatusOr<FieldTrace> TraceField(const PipelineSpec& spec,
                                      const Field& field);

// What the class indices 0 .. num_classes - 1 and the -100 of rows without a
// sample travel in by default: int16 where it holds them, which holds the 255
// that datasets store for "ignore" as well, then int32 and int64.
DType LabelWireType(int64_t num_classes);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_FIELD_TRACE_H_
