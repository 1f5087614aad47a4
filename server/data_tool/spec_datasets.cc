#include "server/data_tool/spec_datasets.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/usage_error.h"

namespace millrace::data_tool {
namespace {

// Max bytes of a name, below the limit of a spec.
constexpr size_t kMaxNameBytes = 200;

}  // namespace

void NameSource(const std::string& uri, PipelineSpec& spec) {
  if (spec.sources_size() > 1) return;
  if (spec.sources_size() == 0) spec.add_sources();
  Source& source = *spec.mutable_sources(0);
  if (source.has_synthetic() || !source.dataset().empty()) return;
  absl::string_view path = uri;
  path.remove_prefix(path.find(':') + 1);  // no scheme: removes nothing
  while (absl::ConsumeSuffix(&path, "/")) {
  }
  const std::string file = FileName(path);
  absl::string_view name = file;
  if (!absl::ConsumeSuffix(&name, ".lmdb")) {
    absl::ConsumeSuffix(&name, ".parquet");
  }
  // A path may contain bytes that are no valid text.
  if (!name.empty()) source.set_dataset(CleanText(name, kMaxNameBytes));
}

absl::StatusOr<NamedDatasets> NameDatasets(
    const std::vector<std::shared_ptr<const storage::RecordSource>>& datasets,
    PipelineSpec& spec) {
  if (spec.sources_size() == 0) spec.add_sources();
  if (spec.sources(0).has_synthetic()) {
    return UsageError(absl::InvalidArgumentError(
        "the pipeline's source is synthetic and reads no dataset: remove "
        "--dataset, or name a dataset in the pipeline"));
  }
  if (spec.sources(0).dataset().empty()) {
    spec.mutable_sources(0)->set_dataset("NAME");
  }
  NamedDatasets named;
  for (const Source& source : spec.sources()) {
    const size_t next = named.size();
    const auto [at, added] = named.emplace(source.dataset(), nullptr);
    if (added && next < datasets.size()) at->second = datasets[next];
  }
  if (named.size() == datasets.size()) return named;
  return UsageError(absl::InvalidArgumentError(absl::StrCat(
      "the pipeline names ", CountText(named.size(), "dataset"), ", and ",
      datasets.size(), datasets.size() == 1 ? " is" : " are",
      " given: give --dataset once for each, in their order")));
}

}  // namespace millrace::data_tool
