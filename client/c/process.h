// HomeProcess remembers the process that has made an object, so that the object
// can refuse its service in a forked child: the threads that it needs do not
// exist there, and locks may be held for ever.
//
// Thread-safe; takes no lock. One system call (getpid) a question.
//
//   HomeProcess home_;                                  // a member
//   MR_RETURN_IF_ERROR(home_.Check("the loader"));

#ifndef MILLRACE_CLIENT_C_PROCESS_H_
#define MILLRACE_CLIENT_C_PROCESS_H_

#include <sys/types.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace::c {

class HomeProcess {
 public:
  HomeProcess() : pid_(getpid()) {}

  bool here() const { return getpid() == pid_; }

  // FailedPrecondition: this is a forked child; names `object`.
  absl::Status Check(absl::string_view object) const;

 private:
  const pid_t pid_;
};

// FailedPrecondition: a process that has opened a loader has forked this one.
// gRPC works in the process only that has used it first.
absl::Status CheckMayOpenHere();

}  // namespace millrace::c

#endif  // MILLRACE_CLIENT_C_PROCESS_H_
