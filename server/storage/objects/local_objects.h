// LocalObjects reads ranges of local files. Files stay open up to a bound, and
// the file that was used longest ago is closed for another one.
//
// A file is compared with the expected identity before and after each read, by
// its open descriptor. A file that was overwritten, truncated, deleted, or
// replaced by another file under its name differs: removing or replacing a name
// changes the file's link count, and so its time of change.
//
// It is no cache of bytes and follows links.
//
// Thread-safe. Reads of different threads run in parallel; a thread waits only
// when all files of the bound are being read.
//
//   LocalObjects objects;
//   MR_ASSIGN_OR_RETURN(ObjectIdentity id, objects.Stat("/data/0.tar"));
//   MR_RETURN_IF_ERROR(objects.Read("/data/0.tar", id, 512, buffer));

#ifndef MILLRACE_SERVER_STORAGE_OBJECTS_LOCAL_OBJECTS_H_
#define MILLRACE_SERVER_STORAGE_OBJECTS_LOCAL_OBJECTS_H_

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "server/storage/max_open_files.h"
#include "server/storage/objects/object_reader.h"

namespace millrace::storage {

class LocalObjects final : public ObjectReader {
 public:
  // `max_open`: upper bound of open files, at least 1.
  explicit LocalObjects(int max_open = MaxOpenFiles()) : max_open_(max_open) {}
  LocalObjects(const LocalObjects&) = delete;
  LocalObjects& operator=(const LocalObjects&) = delete;

  // `name` is a path. InvalidArgument: it is no regular file.
  absl::StatusOr<ObjectIdentity> Stat(const std::string& name) override;

  // DataLoss also if permissions are missing, because no attempt succeeds
  // before a person has changed them.
  absl::Status Read(const std::string& name, const ObjectIdentity& expected,
                    uint64_t offset, absl::Span<uint8_t> data) override;

  int open_files() const;

 private:
  struct File {
    std::string name;
    UniqueFd fd;
    int readers = 0;  // that use `fd` now
  };
  using Files = std::list<File>;  // the file that was used last comes first

  // An open file that is not closed before Release().
  absl::StatusOr<Files::iterator> Acquire(const std::string& name);
  void Release(Files::iterator file);
  Files::iterator Use(Files::iterator file) MR_REQUIRES(mu_);

  const int max_open_;
  mutable Mutex mu_;
  CondVar idle_;  // a file has no reader any more, or a place is free
  // Files that are open or being opened: at most max_open_.
  int places_ MR_GUARDED_BY(mu_) = 0;
  Files files_ MR_GUARDED_BY(mu_);
  std::unordered_map<std::string, Files::iterator> by_name_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_OBJECTS_LOCAL_OBJECTS_H_
