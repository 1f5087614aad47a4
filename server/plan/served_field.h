// The rules for a field that is in the batch. TraceField() checks that the
// transforms fit every field; these rules refuse what the server cannot compute
// of a field, so a field that is no output does not have to obey them.
//
// Pure function, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(const FieldTrace trace, TraceField(spec, field));
//   if (is_output) MR_RETURN_IF_ERROR(CheckServed(spec, field, trace));

#ifndef MILLRACE_SERVER_PLAN_SERVED_FIELD_H_
#define MILLRACE_SERVER_PLAN_SERVED_FIELD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/dataset.pb.h"
#include "proto/pipeline.pb.h"
#include "server/plan/field_trace.h"

namespace millrace::plan {

// Max height, width and channels of raw pixels that a transform works on.
inline constexpr int64_t kMaxRawSide = 65535;

// `trace` is that of the field. InvalidArgument: raw pixels with a side above
// kMaxRawSide, or boxes in an image whose edges are mirrored or repeated.
// Unimplemented: interpolation of images of other than 1 and 3 channels. The
// error names the transform and the field.
absl::Status CheckServed(const PipelineSpec& spec, const Field& field,
                         const FieldTrace& trace);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_SERVED_FIELD_H_
