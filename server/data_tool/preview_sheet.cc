#include "server/data_tool/preview_sheet.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/count_text.h"
#include "common/status_macros.h"
#include "server/data_tool/report.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::data_tool {
namespace {

const Transform& TransformOf(const PipelineSpec& spec,
                             const DrawnValues& drawn) {
  return spec.transforms(static_cast<int>(drawn.place));
}

// Returns "random_erasing: not applied"; the texts of some transforms contain
// the name already.
std::string LineOf(const PipelineSpec& spec, const DrawnValues& drawn) {
  const std::string name = plan::TransformName(TransformOf(spec, drawn));
  return Readable(absl::StartsWith(drawn.what, name)
                      ? drawn.what
                      : absl::StrCat(name, ": ", drawn.what));
}

// Returns "sample 17 of photos", with the dataset if there are several.
std::string SampleText(const PipelineSpec& spec, int64_t index,
                       int32_t source) {
  return absl::StrCat(
      "sample ", index,
      spec.sources_size() > 1
          ? absl::StrCat(" of ", Readable(spec.sources(source).dataset()))
          : "");
}

std::string TitleOf(const PreviewBatch& batch, int64_t row) {
  const int64_t index = batch.sample_index(row);
  return absl::StrCat(
      "row ", row, ": ",
      index < 0 ? "padding"
                : SampleText(batch.resolved_spec(), index, batch.source(row)),
      index < 0 || batch.valid(row) ? "" : ", damaged and left empty");
}

SheetHead HeadOf(const PreviewBatch& batch, const ExplainedBatch& explained,
                 const PreviewFacts& facts) {
  const PipelineSpec& spec = batch.resolved_spec();
  std::set<std::string> datasets;
  for (const Source& source : spec.sources()) {
    datasets.insert(Readable(source.dataset()));
  }
  SheetHead head;
  head.title = absl::StrCat(absl::StrJoin(datasets, ", "), ": ",
                            Readable(facts.pipeline));
  head.lines.push_back(absl::StrCat(
      "transforms: ",
      absl::StrJoin(spec.transforms(), ", ",
                    [](std::string* out, const Transform& transform) {
                      out->append(plan::TransformName(transform));
                    })));
  head.lines.push_back(absl::StrCat(
      "epoch ", facts.epoch, ", step ", facts.step, " of ",
      batch.steps_per_epoch(), ", seed ", spec.seed(), ", batch of ",
      CountText(spec.batch_size(), "sample"), ", ", batch.rows(), " shown"));
  for (const DrawnValues& drawn : explained.drawn) {
    head.lines.push_back(
        absl::StrCat("drawn for the batch: ", LineOf(spec, drawn)));
  }
  return head;
}

// The sample that mix_up or cut_mix has mixed into a row; empty: none.
std::string PartnerText(const PreviewBatch& batch, const DrawnValues& drawn,
                        const std::string& field, int64_t row) {
  const PipelineSpec& spec = batch.resolved_spec();
  const Transform& transform = TransformOf(spec, drawn);
  const std::vector<std::string> fields = plan::TransformFields(transform);
  const int64_t other = batch.partner(row);
  if (other < 0 ||
      std::find(fields.begin(), fields.end(), field) == fields.end()) {
    return "";
  }
  return absl::StrCat(
      plan::TransformName(transform), ": with row ", other, ", ",
      SampleText(spec, batch.sample_index(other), batch.source(other)));
}

}  // namespace

absl::StatusOr<picture::Picture> PreviewSheet(const PreviewBatch& batch,
                                              const ExplainedBatch& explained,
                                              const PreviewFacts& facts,
                                              const SheetOptions& options) {
  const PipelineSpec& spec = batch.resolved_spec();
  std::map<int64_t, uint64_t> keys;
  for (const ExplainedSample& sample : explained.samples) {
    if (sample.here) keys[sample.row] = sample.key;
  }
  MR_ASSIGN_OR_RETURN(const std::string field, batch.image_field());
  MR_ASSIGN_OR_RETURN(std::vector<SheetPair> pairs, batch.Pairs(keys));
  for (int64_t row = 0; row < batch.rows(); ++row) {
    pairs[row].title = TitleOf(batch, row);
    const std::string label = batch.valid(row) ? batch.label(row) : "";
    if (!label.empty()) {
      pairs[row].lines.push_back(absl::StrCat("label: ", Readable(label)));
    }
  }
  for (const ExplainedSample& sample : explained.samples) {
    std::vector<std::string>& lines = pairs[sample.row].lines;
    if (!sample.here) {
      lines.push_back(absl::StrCat(
          SampleText(spec, sample.index, static_cast<int32_t>(sample.source)),
          " is damaged and replaced"));
      continue;
    }
    for (const DrawnValues& drawn : sample.drawn) {
      if (drawn.field == field) lines.push_back(LineOf(spec, drawn));
    }
    for (const DrawnValues& drawn : explained.drawn) {
      const std::string text = PartnerText(batch, drawn, field, sample.row);
      if (!text.empty()) lines.push_back(text);
    }
  }
  SheetHead head = HeadOf(batch, explained, facts);
  if (std::any_of(pairs.begin(), pairs.end(),
                  [](const SheetPair& pair) { return !pair.kept.empty(); })) {
    head.lines.push_back(
        "frame: the region of the stored picture that the crop keeps");
  }
  return LayOutContactSheet(head, pairs, options);
}

}  // namespace millrace::data_tool
