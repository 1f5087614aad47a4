// FieldTrace follows one stored field through the transforms of a spec: which
// transforms apply to it, where they are computed, and the result on the wire
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

namespace millrace::plan {

struct FieldTrace {
  // The role of the field for geometric transforms. For a mask or boxes,
  // `image` is the image that they belong to.
  FieldRole::Role role = FieldRole::IMAGE;
  std::string image;

  // Places in the spec of the transforms that the server computes for each
  // sample, in order: decode_image, geometry, colour, operators. Empty: the
  // result is the stored bytes.
  std::vector<uint32_t> image_places;
  // Places of mix_up and cut_mix, which the server computes for each batch
  // after image_places. A label has them, too; it is then mixed: float32
  // [num_classes].
  std::vector<uint32_t> batch_places;
  bool mixed_label = false;
  // Place of normalize, after batch_places; -1: none.
  int normalize_place = -1;
  Placement normalize_on = PLACEMENT_CLIENT;
  // Place of to_dtype, last; -1: none.
  int to_dtype_place = -1;
  Placement to_dtype_on = PLACEMENT_CLIENT;

  // Type and shape of a sample on the wire; images are [height, width,
  // channels]. `shape` is absent if samples differ in size; `why_not_fixed`
  // then has the reason as text.
  DType dtype = DTYPE_UNSPECIFIED;
  std::optional<std::vector<int64_t>> shape;
  std::string why_not_fixed;

  // Type and shape of a sample in the trainer. Normalised images are [channels,
  // height, width] unless the output's layout says otherwise.
  DType device_dtype = DTYPE_UNSPECIFIED;
  std::optional<std::vector<int64_t>> device_shape;
};

// `spec` has passed CheckSpec(). InvalidArgument: a transform or a role does
// not fit the field. Unimplemented: a conversion that does not exist. Both name
// the place and the field.
absl::StatusOr<FieldTrace> TraceField(const PipelineSpec& spec,
                                      const Field& field);

// The default wire type of class indices 0 .. num_classes - 1 and of the -100
// of rows without a sample: the first of int16, int32 and int64 that holds
// them. int16 also holds the 255 that datasets store for "ignore".
DType LabelWireType(int64_t num_classes);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_FIELD_TRACE_H_
