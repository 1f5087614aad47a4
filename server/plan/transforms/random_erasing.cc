#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

void CheckOneValue(const RandomErasing& erasing, TransformProblems& problems) {
  if (!erasing.random_value() || erasing.value_size() == 0) return;
  AddProblem(problems, "random_value",
             "value and random_value cannot be used together: remove one of "
             "them");
}

void WriteValue(RandomErasing& erasing) {
  if (!erasing.random_value() && erasing.value_size() == 0) {
    erasing.add_value(0);
  }
}

}  // namespace

TransformKind RandomErasingKind() {
  TransformKind kind(Transform::kRandomErasing);
  kind.Probability(0.5);
  kind.Range("scale", {.low = 0,
                       .high = 1,
                       .above = true,
                       .otherwise = {{0.02, 0.33}},
                       .left_out = "0.02 .. 0.33"});
  kind.Range("ratio", {.low = 0.01,
                       .high = 100,
                       .otherwise = {{0.3, 3.3}},
                       .left_out = "0.3 .. 3.3"});
  kind.Levels("value");
  kind.Default(&WriteValue);
  kind.Plain("random_value", "false");
  kind.Rule(&CheckOneValue);
  return kind;
}

}  // namespace millrace::plan
