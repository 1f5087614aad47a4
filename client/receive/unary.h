// Sends one unary request to all servers of an endpoint at once. Requests and
// answers are serialised messages, so that one function serves every method.
//
// Blocks the caller; owns no thread.

#ifndef MILLRACE_CLIENT_RECEIVE_UNARY_H_
#define MILLRACE_CLIENT_RECEIVE_UNARY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/receive/channel.h"

namespace millrace {

struct UnaryOptions {
  absl::Duration timeout = absl::Seconds(5);
  // Ask a server that cannot be reached again until the timeout: it may be
  // starting. Likewise a busy one, after the delay that it names.
  bool insist = false;
  // Once a server has answered with OK, wait at most so long for the others.
  absl::Duration grace = absl::InfiniteDuration();
  // Checks each answer. A server whose answer it refuses is asked once more; a
  // second such answer counts as no answer. May be empty.
  std::function<absl::Status(const std::string&)> check;
};

// The answer of each server. Unavailable: not reached; DeadlineExceeded: no
// answer in time.
std::vector<absl::StatusOr<std::string>> AskServers(
    absl::Span<const ServerChannel> servers, const std::string& method,
    const std::string& request, const UnaryOptions& options);

// One sentence for answers of which none is OK: names each server and why.
// Its code is that of the first server that has answered, with an error that is
// not Unavailable where there is one. Unavailable, "no data server answers" or,
// where a connection is there, "is connected and has not answered": none has.
absl::Status NoAnswerError(
    absl::string_view endpoint, absl::Span<const ServerChannel> servers,
    absl::Span<const absl::StatusOr<std::string>> answers);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_UNARY_H_
