#include "server/data_tool/known_classes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cgroup.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "server/data_tool/progress.h"
#include "server/storage/index_dataset.h"
#include "server/storage/open.h"
#include "server/storage/schemes.h"

namespace millrace::data_tool {
namespace {

// Reads wait for storage more than they compute.
constexpr uint32_t kMinIndexThreads = 8;

// Whether the records must be read before the number of classes is known.
bool MayLackClasses(const DatasetInfo& info) {
  if (!storage::ReadsFiles(absl::StrCat(info.format(), ":")) ||
      !info.shards(0).content_sum().empty()) {
    return false;
  }
  bool may_lack = false;
  for (const Field& field : info.schema().fields()) {
    if (field.num_classes() > 0) return false;
    may_lack =
        may_lack || (field.kind() == FIELD_KIND_TENSOR &&
                     field.dtype() == DTYPE_INT64 && field.shape().empty());
  }
  return may_lack;
}

absl::Status Index(const std::string& uri,
                   const storage::OpenSourceOptions& options) {
  std::optional<ToolProgress> progress;
  int64_t total = 0;
  // The total changes once, from files to records.
  const auto update = [&](int64_t done, int64_t all, int64_t bytes) {
    if (!progress.has_value() || all != total) {
      progress.emplace("indexing", all);
      total = all;
    }
    progress->Update(done, bytes);
    return StopSignals::signal() == 0;
  };
  return storage::IndexDataset(
             uri, options,
             {.threads = std::max(kMinIndexThreads, AvailableCpus()),
              .progress = update})
      .status();
}

}  // namespace

absl::StatusOr<OpenedSource> OpenWithClasses(
    const std::string& uri, const storage::OpenSourceOptions& options,
    bool skip_bad) {
  OpenedSource opened;
  MR_ASSIGN_OR_RETURN(opened.source, storage::OpenRecordSource(uri, options));
  if (!MayLackClasses(opened.source->info())) return opened;
  const absl::Status indexed = Index(uri, options);
  if (indexed.ok()) {
    opened.source.reset();  // gives back what it has of the budgets
    MR_ASSIGN_OR_RETURN(opened.source, storage::OpenRecordSource(uri, options));
    return opened;
  }
  if (absl::IsCancelled(indexed) || (absl::IsDataLoss(indexed) && !skip_bad)) {
    return indexed;
  }
  opened.doubt = absl::StrCat("the number of classes of ", uri,
                              " is not known, because the dataset cannot be "
                              "indexed: ",
                              indexed.message());
  return opened;
}

}  // namespace millrace::data_tool
