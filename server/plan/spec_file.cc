#include "server/plan/spec_file.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "server/plan/field_trace.h"
#include "server/plan/spec_check.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::plan {
namespace {

using google::protobuf::TextFormat;

// The position of the innermost field of `path` that the text contains.
SpecMistake Locate(const std::vector<SpecPathStep>& path,
                   const TextFormat::ParseInfoTree& root) {
  SpecMistake mistake;
  const TextFormat::ParseInfoTree* tree = &root;
  for (const SpecPathStep& step : path) {
    // The position of a list as a whole is that of its first element.
    const int index = step.field->is_repeated() ? std::max(step.index, 0) : -1;
    // For a list in brackets only its begin is known.
    auto location = tree->GetLocation(step.field, index);
    for (int i = index - 1; location.line < 0 && i >= 0; --i) {
      location = tree->GetLocation(step.field, i);
    }
    if (location.line < 0) break;  // left out
    mistake.line = location.line + 1;
    mistake.column = location.column + 1;
    tree = step.field->message_type() == nullptr
               ? nullptr
               : tree->GetTreeForNested(step.field, index);
    if (tree == nullptr) break;
  }
  return mistake;
}

// The inputs of decode_image are encoded images, so they can be traced through
// the transforms without the dataset.
std::vector<SpecProblem> FindUnsizedImages(const PipelineSpec& spec) {
  std::vector<SpecProblem> problems;
  for (int i = 0; i < spec.transforms_size(); ++i) {
    if (!spec.transforms(i).has_decode_image()) continue;
    Field field;
    field.set_name(TransformFields(spec.transforms(i)).front());
    field.set_kind(FIELD_KIND_ENCODED_IMAGE);
    const bool is_output =
        spec.outputs_size() == 0 ||
        std::any_of(spec.outputs().begin(), spec.outputs().end(),
                    [&field](const Output& output) {
                      return output.field() == field.name();
                    });
    const absl::StatusOr<FieldTrace> trace = TraceField(spec, field);
    if (!is_output || !trace.ok() || trace->shape) continue;
    const auto* transforms = PipelineSpec::descriptor()->FindFieldByNumber(
        PipelineSpec::kTransformsFieldNumber);
    const auto* decode = Transform::descriptor()->FindFieldByNumber(
        Transform::kDecodeImageFieldNumber);
    problems.push_back({{{transforms, i}, {decode}},
                        absl::InvalidArgumentError(absl::StrCat(
                            "field ", field.name(), " ", trace->why_not_fixed,
                            ", or list outputs without it"))});
  }
  return problems;
}

}  // namespace

std::vector<SpecMistake> CheckSpecText(absl::string_view text,
                                       uint64_t batch_size) {
  PipelineSpec spec;
  TextFormat::ParseInfoTree locations;
  std::vector<SpecMistake> mistakes =
      ParseSpecTextWithMistakes(text, spec, &locations);
  if (!mistakes.empty()) return mistakes;
  // Programs set these values from their flags.
  if (spec.sources_size() == 0) spec.add_sources()->set_dataset("NAME");
  if (spec.sources(0).dataset().empty() && !spec.sources(0).has_synthetic()) {
    spec.mutable_sources(0)->set_dataset("NAME");
  }
  const auto* field = PipelineSpec::descriptor()->FindFieldByNumber(
      PipelineSpec::kBatchSizeFieldNumber);
  const bool says = locations.GetLocation(field, -1).line >= 0;
  if (batch_size > 0 || !says) {
    spec.set_batch_size(batch_size > 0 ? batch_size : kAssumedBatchSize);
  }
  std::vector<SpecProblem> problems = FindSpecProblems(spec);
  if (problems.empty()) problems = FindUnsizedImages(spec);
  for (const SpecProblem& problem : problems) {
    SpecMistake mistake = Locate(problem.path, locations);
    const std::string path = FormatSpecPath(problem.path);
    mistake.message =
        absl::StrCat(path, path.empty() ? "" : ": ", problem.status.message());
    mistakes.push_back(std::move(mistake));
  }
  std::stable_sort(mistakes.begin(), mistakes.end(),
                   [](const SpecMistake& a, const SpecMistake& b) {
                     return std::tie(a.line, a.column) <
                            std::tie(b.line, b.column);
                   });
  return mistakes;
}

}  // namespace millrace::plan
