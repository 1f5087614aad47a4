#include "server/plan/cut_mix_size.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/plan/field_trace.h"
#include "server/plan/find_field.h"

namespace millrace::plan {

absl::StatusOr<CutSize> CutMixSize(const PipelineSpec& spec,
                                   const DatasetInfo& info, int place) {
  CutSize size;
  for (const std::string& name : spec.transforms(place).cut_mix().fields()) {
    const Field* const field = FindField(info, name);
    MR_CHECK(field != nullptr) << name;
    MR_ASSIGN_OR_RETURN(const FieldTrace trace, TraceField(spec, *field));
    // TraceField() refuses a cut_mix of images without a fixed size.
    MR_CHECK(trace.shape && trace.shape->size() == 3) << name;
    const int64_t height = trace.shape->at(0);
    const int64_t width = trace.shape->at(1);
    if (size.height == 0) {
      size = {height, width};
    } else if (size.height != height || size.width != width) {
      return absl::InvalidArgumentError(absl::StrCat(
          "transforms[", place, "].cut_mix: field ", name, " is ", height,
          " x ", width, ", another of its fields ", size.height, " x ",
          size.width,
          ": cut_mix cuts one rectangle from all of its fields, so give them "
          "one size"));
    }
  }
  return size;
}

}  // namespace millrace::plan
