#include "server/storage/objects/open_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "server/storage/max_open_files.h"
#include "server/storage/objects/checked_file.h"

namespace millrace::storage {

OpenFiles& OpenFiles::OfProcess() {
  // Never destroyed: a dataset may be closed at the end of the process.
  static OpenFiles& files = *new OpenFiles(MaxOpenFiles());
  return files;
}

int OpenFiles::open_files() const {
  MutexLock lock(mu_);
  return places_;
}

OpenFiles::File* OpenFiles::UseOf(Files::iterator file) {
  files_.splice(files_.begin(), files_, file);
  ++file->users;
  return &*file;
}

bool OpenFiles::TryTakePlace(Files* closed) {
  if (places_ < max_open_) {
    ++places_;
    return true;
  }
  const auto idle =
      std::find_if(files_.rbegin(), files_.rend(),
                   [](const File& file) { return file.users == 0; });
  if (idle == files_.rend()) return false;
  const auto file = std::prev(idle.base());
  by_key_.erase(file->key);
  closed->splice(closed->begin(), files_, file);
  return true;  // its place
}

void OpenFiles::GivePlace() {
  MutexLock lock(mu_);
  --places_;
  idle_.NotifyOne();
}

OpenFiles::File* OpenFiles::Acquire(Key key, int* error) {
  {
    Files closed;  // destroyed after the lock
    MutexLock lock(mu_);
    for (;;) {
      const auto found = by_key_.find(key);
      if (found != by_key_.end()) return UseOf(found->second);
      if (TryTakePlace(&closed)) break;
      idle_.Wait(lock);
    }
  }
  UniqueFd fd = OpenToRead(AT_FDCWD, key.second);
  if (!fd.ok()) {
    *error = errno;
    GivePlace();
    return nullptr;
  }
  UniqueFd unneeded;  // closed after the lock
  MutexLock lock(mu_);
  // Another thread may have opened it meanwhile.
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    unneeded = std::move(fd);
    --places_;
    idle_.NotifyOne();
    return UseOf(found->second);
  }
  files_.push_front({.key = key, .fd = std::move(fd)});
  by_key_[std::move(key)] = files_.begin();
  return UseOf(files_.begin());
}

void OpenFiles::Release(File* file) {
  MutexLock lock(mu_);
  if (--file->users == 0) idle_.NotifyOne();
}

void OpenFiles::Close(const void* owner) {
  Files closed;  // destroyed after the lock
  MutexLock lock(mu_);
  for (auto file = files_.begin(); file != files_.end();) {
    const auto next = std::next(file);
    if (file->key.first == owner) {
      by_key_.erase(file->key);
      closed.splice(closed.begin(), files_, file);
      --places_;
      idle_.NotifyOne();
    }
    file = next;
  }
}

OpenFiles::Place::Place(OpenFiles& files) : files_(files) {
  Files closed;  // destroyed after the lock
  MutexLock lock(files_.mu_);
  while (!files_.TryTakePlace(&closed)) files_.idle_.Wait(lock);
}

OpenFiles::Hold::Hold(OpenFiles& files) : files_(files) {
  MutexLock lock(files_.mu_);
  granted_ = files_.held_ < files_.max_open_;
  if (granted_) ++files_.held_;
}

OpenFiles::Hold::~Hold() {
  MutexLock lock(files_.mu_);
  if (granted_) --files_.held_;
}

}  // namespace millrace::storage
