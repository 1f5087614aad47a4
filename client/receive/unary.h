// Sends one unary request to all servers of an endpoint at once. Requests and
// answers are serialised messages, so that one function serves every method.
//
// Blocks the caller; owns no thread.

#ifndef MILLRACE_CLIENT_RECEIVE_UNARY_H_
#define MILLRACE_CLIENT_RECEIVE_UNARY_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/receive/channel.h"

namespace millrace {

struct UnaryOptions {
  absl::Duration timeout = absl::Seconds(5);
  // A server that does not answer for this time is sent the request once more,
  // over a new connection, beside the first one, which a busy server may still
  // answer: damage of the request's length keeps a server waiting for the rest.
  absl::Duration silence = absl::InfiniteDuration();
  // Send the request again, until the timeout, to a server that cannot be
  // reached: it may be starting. Likewise to a busy one, after the delay that
  // it names.
  bool insist = false;
  // Once a server has answered with OK, wait at most so long for the others.
  absl::Duration grace = absl::InfiniteDuration();
};

// Parses the answer of servers[`server`], and keeps what the caller wants of
// it. DataLoss without ErrorDetail (NoMessageError()): the answer is damaged.
using TakeAnswer =
    std::function<absl::Status(size_t server, const std::string& answer)>;

// DataLoss: "it sent an answer that is no message of the data service".
absl::Status NoMessageError();

// Sends the request, with a digest, to each server; `take` is called on this
// thread with each answer whose digest is right, or whose server sends none
// (proto/wire/message_digest.h). A server is sent the request once more, over a
// new connection, which takes the old one's place in `servers`:
//   - when the digest is wrong, or what `take` says, or what the server says of
//     the request, is damage (IsDamaged());
//   - when the end of the call speaks against the connection (ConnectionDoubt),
//     or the server is silent (UnaryOptions::silence).
//
// Of each server: OK: its answer was taken. Unavailable: not reached.
// DeadlineExceeded: no answer in time. Otherwise what `take` or the server
// says.
std::vector<absl::Status> AskServers(absl::Span<ServerChannel> servers,
                                     const std::string& method,
                                     const std::string& request,
                                     const UnaryOptions& options,
                                     const TakeAnswer& take);

// One sentence for results of which none is OK: names each server and why.
// Its code is that of the first server that has answered, with an error that is
// not Unavailable where there is one. Unavailable, "no data server answers" or,
// where a connection is there, "is connected and has not answered": none has.
absl::Status NoAnswerError(absl::string_view endpoint,
                           absl::Span<const ServerChannel> servers,
                           absl::Span<const absl::Status> results);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_UNARY_H_
