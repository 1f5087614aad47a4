// FileFaults logs which files of a dataset are not what they were when the
// dataset was listed: each once, and not more than a few.
//
// Thread-safe.
//
//   faults.Add(17, "/data/cat/1.jpg was overwritten");

#ifndef MILLRACE_SERVER_STORAGE_FILE_FAULTS_H_
#define MILLRACE_SERVER_STORAGE_FILE_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "common/mutex.h"

namespace millrace::storage {

class FileFaults {
 public:
  // More files than this are not logged.
  static constexpr size_t kMaxFaults = 100;

  // Logs that file `index` has changed. True: it is the first fault.
  bool Add(int64_t index, const std::string& sentence);

 private:
  Mutex mu_;
  std::set<int64_t> faults_ MR_GUARDED_BY(mu_);  // that were logged
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FILE_FAULTS_H_
