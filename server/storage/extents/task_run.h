// TaskRun runs numbered tasks on a few threads, for the making of an index:
// scans of objects, reads of records.
//
// It keeps no thread after Run(). For one call of Run(), from one thread.
//
//   TaskRun run;
//   MR_RETURN_IF_ERROR(run.Run(count, 8, [] { return ScanTask(); }, go_on));

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_TASK_RUN_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_TASK_RUN_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "common/mutex.h"

namespace millrace::storage {

class TaskRun {
 public:
  using Task = std::function<absl::Status(int64_t task)>;

  // Runs tasks 0 .. count-1 on threads, of which the calling one is the first.
  // `new_worker` makes the function of one thread. `go_on`: called on the
  // calling thread before the first task and after each of its tasks; false:
  // stop. The first task in their order that failed, as far as it was run,
  // gives the error. Cancelled: `go_on` said so.
  absl::Status Run(int64_t count, uint32_t threads,
                   const std::function<Task()>& new_worker,
                   const std::function<bool()>& go_on);

 private:
  void Work(const Task& task, const std::function<bool()>& go_on);

  int64_t count_ = 0;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> cancelled_{false};
  Mutex mu_;
  absl::Status failed_ MR_GUARDED_BY(mu_);
  int64_t failed_task_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_TASK_RUN_H_
