#include "absl/strings/str_cat.h"
#include "server/plan/sample_shape.h"
#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 16;

void CheckOperator(const CustomTransform& custom, TransformProblems& problems) {
  if (custom.name().empty()) {
    AddProblem(problems, "name",
               "a custom transform has no name: write the name of an operator "
               "that the server has loaded");
  }
  if (custom.config().size() > kMaxConfigBytes) {
    AddProblem(problems, "config",
               absl::StrCat("config has ", custom.config().size(),
                            " bytes; the maximum is ", kMaxConfigBytes));
  }
  const std::string& hash = custom.library_hash();
  if (!hash.empty() &&
      (hash.size() != 32 ||
       hash.find_first_not_of("0123456789abcdef") != std::string::npos)) {
    AddProblem(problems, "library_hash",
               "library_hash must have 32 hexadecimal digits: remove it, and "
               "the server sets it");
  }
  if (custom.result_dtype() == DTYPE_UNSPECIFIED
          ? custom.result_shape_size() > 0
          : !ShapeIsSane(custom.result_dtype(), custom.result_shape())) {
    AddProblem(problems, "result_shape",
               "result_dtype and result_shape must be those of a tensor of "
               "fixed size: remove both, and the server sets them");
  }
}

// The result of an operator on tensors is what the server has written into the
// spec.
absl::Status TakeResult(const CustomTransform& custom, TracedField& field) {
  if (!field.trace.shape || custom.result_dtype() == DTYPE_UNSPECIFIED) {
    return absl::OkStatus();
  }
  field.trace.dtype = custom.result_dtype();
  field.trace.shape.emplace(custom.result_shape().begin(),
                            custom.result_shape().end());
  field.operator_result = true;
  return absl::OkStatus();
}

}  // namespace

TransformKind CustomKind() {
  TransformKind kind(Transform::kCustom);
  kind.any_tensor = true;
  kind.Plain("name", "must be set");
  kind.Plain("version", "the server's");
  kind.Plain("config", "empty",
             absl::StrCat("at most ", kMaxConfigBytes, " bytes"));
  for (const char* name : {"library_hash", "result_dtype", "result_shape"}) {
    kind.Plain(name, "written by `Open`");
  }
  kind.Rule(&CheckOperator);
  kind.Probability(1);
  kind.Trace(&TakeResult);
  return kind;
}

}  // namespace millrace::plan
