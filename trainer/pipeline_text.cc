#include "trainer/pipeline_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::trainer {
namespace {

std::string NameOf(const Transform& transform) {
  if (transform.has_custom()) return transform.custom().name();
  const auto* const kind = transform.GetReflection()->GetOneofFieldDescriptor(
      transform, transform.GetDescriptor()->oneof_decl(0));
  return kind == nullptr ? "?" : kind->name();
}

struct Named {
  std::string name;
  std::string text;
  bool operator==(const Named&) const = default;
};

std::vector<Named> TransformsOf(const PipelineSpec& spec) {
  std::vector<Named> transforms;
  for (const Transform& transform : spec.transforms()) {
    transforms.push_back({NameOf(transform), transform.SerializeAsString()});
  }
  return transforms;
}

// The transforms of `all` that are missing in `others`, also under an
// equivalent.
template <typename Same>
std::vector<Named> Without(const std::vector<Named>& all,
                           std::vector<Named> others, Same same) {
  std::vector<Named> rest;
  for (const Named& one : all) {
    const auto found =
        std::find_if(others.begin(), others.end(),
                     [&](const Named& other) { return same(one, other); });
    if (found == others.end()) {
      rest.push_back(one);
    } else {
      others.erase(found);
    }
  }
  return rest;
}

std::string Names(const std::vector<Named>& transforms) {
  return absl::StrJoin(
      transforms, ", ",
      [](std::string* out, const Named& one) { out->append(one.name); });
}

// Empty: the same transforms in the same order.
std::string DifferenceOfTransforms(const PipelineSpec& training,
                                   const PipelineSpec& evaluation) {
  const std::vector<Named> of_training = TransformsOf(training);
  const std::vector<Named> of_evaluation = TransformsOf(evaluation);
  if (of_training == of_evaluation) return "";
  const auto equal = [](const Named& a, const Named& b) { return a == b; };
  const auto alike = [](const Named& a, const Named& b) {
    return a.name == b.name;
  };
  const std::vector<Named> train = Without(of_training, of_evaluation, equal);
  const std::vector<Named> eval = Without(of_evaluation, of_training, equal);
  const std::vector<Named> train_alone = Without(train, eval, alike);
  const std::vector<Named> eval_alone = Without(eval, train, alike);
  const std::vector<Named> changed = Without(train, train_alone, equal);
  std::vector<std::string> parts;
  if (!train_alone.empty()) {
    parts.push_back(absl::StrCat("training alone has ", Names(train_alone)));
  }
  if (!eval_alone.empty()) {
    parts.push_back(absl::StrCat("evaluation alone has ", Names(eval_alone)));
  }
  if (!changed.empty()) {
    parts.push_back(absl::StrCat(Names(changed),
                                 changed.size() == 1 ? " has" : " have",
                                 " other parameters"));
  }
  if (parts.empty()) parts.push_back("their order");
  return absl::StrCat("transforms (", absl::StrJoin(parts, "; "), ")");
}

template <typename Messages>
std::string Bytes(const Messages& messages) {
  std::string bytes;
  for (const auto& message : messages) {
    absl::StrAppend(&bytes, message.ByteSizeLong(), ":",
                    message.SerializeAsString());
  }
  return bytes;
}

}  // namespace

std::string DifferenceOfPipelines(const PipelineSpec& training,
                                  const PipelineSpec& evaluation) {
  std::vector<std::string> parts;
  if (std::string transforms = DifferenceOfTransforms(training, evaluation);
      !transforms.empty()) {
    parts.push_back(std::move(transforms));
  }
  if (Bytes(training.outputs()) != Bytes(evaluation.outputs())) {
    parts.push_back("outputs");
  }
  if (Bytes(training.field_roles()) != Bytes(evaluation.field_roles())) {
    parts.push_back("field_roles");
  }
  const auto for_training = training.bad_samples().action();
  const auto for_evaluation = evaluation.bad_samples().action();
  if (for_training != for_evaluation) {
    parts.push_back(absl::StrCat(
        "bad_samples (", BadSamplePolicy::Action_Name(for_training),
        " for training, ", BadSamplePolicy::Action_Name(for_evaluation),
        " for evaluation)"));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace millrace::trainer
