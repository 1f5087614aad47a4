// FolderFaults remembers which files of a folder are not what they were when
// the folder was listed, so that a server can say so until they are again.
//
// Thread-safe.
//
//   faults.Add(17, "/data/cat/1.jpg was overwritten");
//   absl::Status status = faults.Check([&](int64_t i) { return WhyChanged(i);
//   });

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_FAULTS_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_FAULTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/mutex.h"

namespace millrace::storage {

class FolderFaults {
 public:
  // More files than this are not remembered.
  static constexpr size_t kMaxFaults = 100;

  // Remembers and logs that file `index` has changed, once. True: it is the
  // first fault since the start.
  bool Add(int64_t index, const std::string& sentence);

  // Looks at the remembered files again: `why` is empty if a file is as it was
  // listed, and it is forgotten then. Unavailable: the first that is not.
  absl::Status Check(absl::FunctionRef<std::string(int64_t index)> why);

 private:
  // Whether there has been a fault. Never cleared.
  std::atomic<bool> any_{false};
  Mutex mu_;
  std::map<int64_t, std::string> faults_ MR_GUARDED_BY(mu_);  // sentences
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_FAULTS_H_
