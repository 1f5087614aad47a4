// UniqueFd owns a file descriptor and closes it. Movable. Not thread-safe.
//
//   UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
//   if (!file.ok()) return ...;  // errno says why

#ifndef MILLRACE_COMMON_UNIQUE_FD_H_
#define MILLRACE_COMMON_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace millrace {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { Reset(); }

  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }

  // The caller owns the descriptor from now on.
  int Release() { return std::exchange(fd_, -1); }

  void Reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_UNIQUE_FD_H_
