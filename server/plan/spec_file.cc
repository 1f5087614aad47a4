#include "server/plan/spec_file.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "server/plan/spec_check.h"

namespace millrace {
namespace {

using google::protobuf::TextFormat;

// Where the innermost field of `path` that the text mentions stands.
SpecMistake Locate(const std::vector<SpecPathStep>& path,
                   const TextFormat::ParseInfoTree& root) {
  SpecMistake mistake;
  const TextFormat::ParseInfoTree* tree = &root;
  for (const SpecPathStep& step : path) {
    // A list as a whole stands where its first element does.
    const int index = step.field->is_repeated() ? std::max(step.index, 0) : -1;
    // Of a list in brackets only its begin is known.
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

}  // namespace

std::vector<SpecMistake> CheckSpecText(absl::string_view text) {
  PipelineSpec spec;
  TextFormat::ParseInfoTree locations;
  std::vector<SpecMistake> mistakes =
      ParseSpecTextWithMistakes(text, spec, &locations);
  if (!mistakes.empty()) return mistakes;
  // Programs fill these in from their flags.
  if (spec.sources_size() == 0) spec.add_sources()->set_dataset("NAME");
  if (spec.sources(0).dataset().empty() && !spec.sources(0).has_synthetic()) {
    spec.mutable_sources(0)->set_dataset("NAME");
  }
  const auto* batch_size = PipelineSpec::descriptor()->FindFieldByNumber(
      PipelineSpec::kBatchSizeFieldNumber);
  if (locations.GetLocation(batch_size, -1).line < 0) spec.set_batch_size(1);
  for (const SpecProblem& problem : FindSpecProblems(spec)) {
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

}  // namespace millrace
