#include "client/c/process.h"

#include <atomic>

#include "absl/strings/str_cat.h"

namespace millrace::c {
namespace {

constexpr char kAdvice[] =
    "start the process with exec instead (in Python: the start method "
    "\"spawn\" "
    "or \"forkserver\"), or open the loader in the parent";

}  // namespace

absl::Status HomeProcess::Check(absl::string_view object) const {
  if (here()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      object, " belongs to process ", pid_,
      " and does not work in its forked child ", getpid(), "; ", kAdvice));
}

absl::Status CheckMayOpenHere() {
  // Of the first process that has opened a loader; 0: none has.
  static std::atomic<pid_t> first{0};
  pid_t none = 0;
  const pid_t here = getpid();
  if (first.compare_exchange_strong(none, here) || none == here) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "process ", none, " has opened a loader and then forked this ",
      "process ", here, ": gRPC does not work here; ", kAdvice));
}

}  // namespace millrace::c
