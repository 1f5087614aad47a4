#include "server/storage/extents/task_run.h"

#include <algorithm>
#include <vector>

#include "common/thread.h"

namespace millrace::storage {
namespace {

absl::Status Stopped() {
  return absl::CancelledError("interrupted; no index was written");
}

}  // namespace

absl::Status TaskRun::Run(int64_t count, uint32_t threads,
                          const std::function<Task()>& new_worker,
                          const std::function<bool()>& go_on) {
  count_ = count;
  if (!go_on()) return Stopped();
  {
    std::vector<NamedThread> others;
    const int64_t wanted = std::min<int64_t>(threads, count);
    for (int64_t i = 1; i < wanted; ++i) {
      others.emplace_back("mr-index", [this, &new_worker] {
        Work(new_worker(), [] { return true; });
      });
    }
    Work(new_worker(), go_on);
  }
  MutexLock lock(mu_);
  if (!failed_.ok()) return failed_;
  return cancelled_ ? Stopped() : absl::OkStatus();
}

void TaskRun::Work(const Task& task, const std::function<bool()>& go_on) {
  while (!stopped_) {
    const int64_t i = next_++;
    if (i >= count_) break;
    if (const absl::Status status = task(i); !status.ok()) {
      stopped_ = true;
      MutexLock lock(mu_);
      if (failed_.ok() || i < failed_task_) {
        failed_ = status;
        failed_task_ = i;
      }
    } else if (!go_on()) {
      stopped_ = true;
      cancelled_ = true;
    }
  }
}

}  // namespace millrace::storage
