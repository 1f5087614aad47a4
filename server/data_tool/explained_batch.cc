#include "server/data_tool/explained_batch.h"

#include <iterator>
#include <utility>

#include "common/status_macros.h"
#include "server/augment/parameter_log.h"

namespace millrace::data_tool {
namespace {

class DrawnLog final : public augment::ParameterLog {
 public:
  explicit DrawnLog(ExplainedBatch& batch) : batch_(batch) {}

  void BeginSource(uint32_t source) override { source_ = source; }
  void BeginSample(int64_t index, uint64_t key) override {
    ExplainedSample& sample = batch_.samples.emplace_back();
    sample.source = source_;
    sample.index = index;
    sample.key = key;
    field_.clear();
  }
  void BeginField(const std::string& field) override { field_ = field; }
  void Add(uint32_t place, std::string what) override {
    auto& list =
        batch_.samples.empty() ? batch_.drawn : batch_.samples.back().drawn;
    // Sorted by the order of the transforms in a field, which can differ from
    // the order in which the stages draw: geometry comes first.
    auto at = list.end();
    while (at != list.begin() && std::prev(at)->field == field_ &&
           std::prev(at)->place > place) {
      --at;
    }
    list.insert(at, {field_, place, std::move(what)});
  }

 private:
  ExplainedBatch& batch_;
  uint32_t source_ = 0;
  std::string field_;
};

}  // namespace

absl::StatusOr<ExplainedBatch> ExplainRows(const PreviewBatch& batch) {
  ExplainedBatch explained;
  DrawnLog log(explained);
  MR_RETURN_IF_ERROR(batch.Explain(log));
  std::vector<ExplainedSample>& samples = explained.samples;
  int64_t row = 0;
  auto sample = samples.begin();
  for (; sample != samples.end(); ++sample) {
    while (row < batch.rows() && batch.sample_index(row) < 0) ++row;
    if (row == batch.rows()) break;
    sample->row = row;
    sample->here = batch.sample_index(row) == sample->index &&
                   batch.source(row) == static_cast<int32_t>(sample->source);
    if (sample->here) ++row;
  }
  samples.erase(sample, samples.end());
  return explained;
}

}  // namespace millrace::data_tool
