#include "trainer/ddp/master_name.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/retry_schedule.h"

namespace millrace::ddp {
namespace {

// A resolver answers from its cache for longer than this.
constexpr RetrySchedule kLookupRetry = {.first = absl::Milliseconds(500),
                                        .max = absl::Milliseconds(500)};

}  // namespace

std::string WhyUnresolved(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code == EAI_SYSTEM) return std::strerror(errno);
  if (code != 0) return gai_strerror(code);
  freeaddrinfo(found);
  return "";
}

absl::Status AwaitMasterName(const std::string& host, absl::Duration patience,
                             const ResolveName& resolve) {
  const SteadyTime deadline = SteadyDeadline(patience);
  for (bool first = true;; first = false) {
    const std::string why = resolve(host);
    if (why.empty()) return absl::OkStatus();
    if (SteadyTime::clock::now() >= deadline) {
      return absl::UnavailableError(absl::StrCat(
          "the name ", host, " of rank 0's machine has no address (", why,
          ", looked up for ", absl::FormatDuration(patience),
          "); correct --master_addr (MASTER_ADDR under torchrun), make the "
          "name known on this machine, or give the machine's IP address"));
    }
    if (first) {
      MR_LOG(WARNING) << "the name " << host
                      << " of rank 0's machine has no address yet (" << why
                      << "); it is looked up again for "
                      << absl::FormatDuration(patience);
    }
    absl::SleepFor(kLookupRetry.Delay());
  }
}

}  // namespace millrace::ddp
