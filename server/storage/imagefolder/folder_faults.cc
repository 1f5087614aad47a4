#include "server/storage/imagefolder/folder_faults.h"

#include "common/logging.h"

namespace millrace::storage {

bool FolderFaults::Add(int64_t index, const std::string& sentence) {
  const bool first = !any_.exchange(true);
  MutexLock lock(mu_);
  if (faults_.size() >= kMaxFaults ||
      !faults_.emplace(index, sentence).second) {
    return first;
  }
  MR_LOG(ERROR) << sentence;
  if (faults_.size() == kMaxFaults) {
    MR_LOG(ERROR) << "more files may have changed: they are not logged";
  }
  return first;
}

absl::Status FolderFaults::Check(
    absl::FunctionRef<std::string(int64_t index)> why) {
  if (!any_.load(std::memory_order_relaxed)) return absl::OkStatus();
  std::map<int64_t, std::string> faults;
  {
    MutexLock lock(mu_);
    faults = faults_;
  }
  for (const auto& [index, sentence] : faults) {
    if (!why(index).empty()) return absl::UnavailableError(sentence);
    MR_LOG(INFO) << "as it was listed again: " << sentence;
    MutexLock lock(mu_);
    faults_.erase(index);
  }
  return absl::OkStatus();
}

}  // namespace millrace::storage
