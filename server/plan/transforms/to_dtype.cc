#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

void CheckDtype(const ToDtype& to, TransformProblems& problems) {
  if (to.dtype() == DTYPE_UNSPECIFIED) {
    AddProblem(problems, "dtype",
               "to_dtype has no dtype: write one, for example DTYPE_FLOAT32");
  } else if (to.scale() && !IsFloatingPoint(to.dtype())) {
    AddProblem(problems, "scale",
               absl::StrCat(
                   "scale divides by 255, which ", DTypeName(to.dtype()),
                   " cannot hold: use a floating-point type, or remove scale"));
  }
}

absl::Status CheckConversion(DType from, DType to, const TracedField& field) {
  if (from == to || (IsFloatingPoint(from) && IsFloatingPoint(to))) {
    return absl::OkStatus();
  }
  const std::optional<ValueRange> values = field.Values(from);
  if (!values) {
    return field.Refuse(absl::StrCat("is ", DTypeName(from),
                                     ": fractions would be lost in ",
                                     DTypeName(to)));
  }
  if (!Holds(to, *values)) {
    return field.Refuse(absl::StrCat("holds values of ", values->min, " .. ",
                                     values->max, ", which ", DTypeName(to),
                                     " does not hold",
                                     from == DTYPE_INT64 && !field.is_class()
                                         ? ": pack it in the type that you want"
                                         : ""));
  }
  return absl::OkStatus();
}

absl::Status Convert(const ToDtype& to, TracedField& field) {
  FieldTrace& trace = field.trace;
  trace.to_dtype_on = to.placement();
  MR_RETURN_IF_ERROR(field.NeedDecoded());
  const bool normalised = trace.normalize_place >= 0;
  const DType from = normalised ? DTYPE_FLOAT32 : trace.dtype;
  if (to.scale() && from != DTYPE_UINT8) {
    return field.Refuse(absl::StrCat(
        "is ", DTypeName(from),
        normalised ? " after normalize, which has divided by 255: " : ": ",
        "scale works only on uint8, so remove it"));
  }
  if (normalised && trace.normalize_on == PLACEMENT_CLIENT &&
      to.placement() == PLACEMENT_SERVER) {
    return field.Refuse(
        "is normalised by the client, so the server cannot convert it "
        "afterwards: give both transforms the same placement");
  }
  MR_RETURN_IF_ERROR(CheckConversion(from, to.dtype(), field));
  trace.device_dtype = to.dtype();
  if (to.placement() == PLACEMENT_SERVER) trace.dtype = to.dtype();
  return absl::OkStatus();
}

}  // namespace

TransformKind ToDtypeKind() {
  TransformKind kind(Transform::kToDtype);
  kind.phase = TransformPhase::kDtype;
  kind.Plain("dtype", "must be set");
  kind.Plain("scale", "false");
  kind.Plain("placement", "`PLACEMENT_CLIENT`");
  kind.Rule(&CheckDtype);
  kind.Trace(&Convert);
  return kind;
}

}  // namespace millrace::plan
