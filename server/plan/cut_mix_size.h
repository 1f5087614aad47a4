// The one size that all images of a cut_mix have: cut_mix replaces the same
// rectangle in each of them.
//
// Pure function, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(const CutSize size, CutMixSize(spec, info, place));

#ifndef MILLRACE_SERVER_PLAN_CUT_MIX_SIZE_H_
#define MILLRACE_SERVER_PLAN_CUT_MIX_SIZE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::plan {

struct CutSize {
  int64_t height = 0;  // pixels
  int64_t width = 0;
};

// `spec` has passed CheckSpec(), spec.transforms(place) is a cut_mix whose
// defaults are written out, and its fields exist in `info`. InvalidArgument:
// two of its fields have different sizes, or a field does not fit as in
// TraceField().
absl::StatusOr<CutSize> CutMixSize(const PipelineSpec& spec,
                                   const DatasetInfo& info, int place);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_CUT_MIX_SIZE_H_
