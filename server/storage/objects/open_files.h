// OpenFiles is the bound of the descriptors that the datasets of a process
// keep for files which are read as they are, such as tar shards. A file stays
// open for later reads, and the file that was used longest ago is closed for
// another one.
//
// It opens files and reads nothing (checked_file.h does).
//
// Thread-safe. A thread waits only when all files of the bound are in use.
// Owns the descriptors.
//
//   OpenFiles::Use file(OpenFiles::OfProcess(), this, "/data/0.tar");
//   if (file.fd() < 0) return FileError(file.error(), "open", "/data/0.tar");

#ifndef MILLRACE_SERVER_STORAGE_OBJECTS_OPEN_FILES_H_
#define MILLRACE_SERVER_STORAGE_OBJECTS_OPEN_FILES_H_

#include <list>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/mutex.h"
#include "common/unique_fd.h"

namespace millrace::storage {

class OpenFiles {
 public:
  // `max_open`: upper bound of open files, at least 1.
  explicit OpenFiles(int max_open) : max_open_(max_open) {}
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  // Of all datasets. Bound: MaxOpenFiles(), as it is at the first call.
  static OpenFiles& OfProcess();

  class Use;    // a file
  class Place;  // room for a file of the caller's
  class Hold;   // room for a descriptor that lives long

  // Closes the files of `owner`, of which none is in use.
  void Close(const void* owner);

  // Files that are open or being opened, and places.
  int open_files() const;

 private:
  // Owners do not share descriptors: a name may stand for another file when the
  // other owner opens it.
  using Key = std::pair<const void*, std::string>;
  struct File {
    Key key;
    UniqueFd fd;
    int users = 0;
  };
  using Files = std::list<File>;  // the file that was used last comes first

  // Null, and `*error`: it cannot be opened.
  File* Acquire(Key key, int* error);
  void Release(File* file);
  File* UseOf(Files::iterator file) MR_REQUIRES(mu_);
  // False: all files are in use. `closed` gets the file that made room: to be
  // destroyed without the lock, and before another one is opened.
  bool TryTakePlace(Files* closed) MR_REQUIRES(mu_);
  void GivePlace() MR_EXCLUDES(mu_);

  const int max_open_;
  mutable Mutex mu_;
  CondVar idle_;  // a file is in use no more, or a place is free
  // At most max_open_.
  int places_ MR_GUARDED_BY(mu_) = 0;
  int held_ MR_GUARDED_BY(mu_) = 0;
  Files files_ MR_GUARDED_BY(mu_);
  absl::flat_hash_map<Key, Files::iterator> by_key_ MR_GUARDED_BY(mu_);
};

// An open file that is not closed meanwhile. Belongs to one thread.
class OpenFiles::Use {
 public:
  // Opens the file unless it is open. May wait.
  Use(OpenFiles& files, const void* owner, const std::string& path)
      : files_(files), file_(files.Acquire({owner, path}, &error_)) {}
  ~Use() {
    if (file_ != nullptr) files_.Release(file_);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  int fd() const { return file_ == nullptr ? -1 : file_->fd.get(); }
  // Why there is no descriptor: an errno.
  int error() const { return error_; }

 private:
  OpenFiles& files_;
  int error_ = 0;  // before file_, whose initialiser sets it
  File* const file_;
};

// For a file that is read once. Belongs to one thread, which must not wait for
// another thread that reads files while it has one.
class OpenFiles::Place {
 public:
  explicit Place(OpenFiles& files);  // may wait
  ~Place() { files_.GivePlace(); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  OpenFiles& files_;
};

// As many descriptors as there may be open files may be held besides, such as
// those of mapped indexes. Never waits.
class OpenFiles::Hold {
 public:
  explicit Hold(OpenFiles& files);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  bool granted() const { return granted_; }

 private:
  OpenFiles& files_;
  bool granted_ = false;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_OBJECTS_OPEN_FILES_H_
