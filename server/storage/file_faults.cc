#include "server/storage/file_faults.h"

#include "common/logging.h"

namespace millrace::storage {

bool FileFaults::Add(int64_t index, const std::string& sentence) {
  MutexLock lock(mu_);
  const bool first = faults_.empty();
  if (faults_.size() >= kMaxFaults || !faults_.insert(index).second) {
    return first;
  }
  MR_LOG(ERROR) << sentence;
  if (faults_.size() == kMaxFaults) {
    MR_LOG(ERROR) << "more files may have changed: they are not logged";
  }
  return first;
}

}  // namespace millrace::storage
