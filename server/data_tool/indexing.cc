#include "server/data_tool/indexing.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/cgroup.h"
#include "common/stop_signals.h"
#include "server/data_tool/progress.h"

namespace millrace::data_tool {
namespace {

// Reads wait for storage more than they compute.
constexpr uint32_t kMinIndexThreads = 8;

}  // namespace

absl::StatusOr<storage::IndexedDataset> IndexWithProgress(
    const std::string& uri, const storage::OpenSourceOptions& options,
    bool headers_only) {
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
       .headers_only = headers_only,
       .progress = update});
}

}  // namespace millrace::data_tool
