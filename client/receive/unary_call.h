// AskServers() sends one unary request to all servers of an endpoint in
// parallel. Requests and answers are serialised messages, so that one function
// serves every method.
//
// What it is not: it does not know what the messages mean (server_queries.h,
// open_host_loader.h).
//
// Blocks the caller; owns no thread. Safe from any thread.
//
//   const auto results = AskServers(absl::MakeSpan(servers), method, request,
//                                   {.timeout = absl::Seconds(5)}, take);

#ifndef MILLRACE_CLIENT_RECEIVE_UNARY_CALL_H_
#define MILLRACE_CLIENT_RECEIVE_UNARY_CALL_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/receive/channel.h"

namespace millrace::receive {

// Set by any thread to end a blocking call soon: it looks at the flag 20 times
// a second.
using CancelFlag = std::atomic<bool>;

struct UnaryOptions {
  absl::Duration timeout = absl::Seconds(5);
  // A server that does not answer for this time gets the request once more over
  // a new connection, because damage of a request's length makes a server wait
  // for the rest. The first request stays outstanding: a busy server may still
  // answer it.
  absl::Duration silence = absl::InfiniteDuration();
  // Until the timeout, repeat the request to a server that cannot be reached,
  // because it may be starting, and to a busy server after the delay that it
  // names.
  bool insist = false;
  // Max wait for the other servers once a server has answered with OK.
  absl::Duration grace = absl::InfiniteDuration();
  const CancelFlag* cancelled = nullptr;  // null: cannot be cancelled
};

// Takes the answer of servers[`server`]. DataLoss without ErrorDetail
// (NoMessageError()): the answer is damaged.
using TakeAnswer =
    std::function<absl::Status(size_t server, const std::string& answer)>;

// DataLoss: "it sent an answer that is not a message of the data service".
absl::Status NoMessageError();

// Sends the request, with a digest, to each server. Calls `take` on this thread
// with each answer whose digest is right, or whose server sends no digest
// (proto/wire/message_digest.h). A server gets the request once more over a new
// connection, which replaces the old one in `servers`,
//   - when the request or its answer is damaged: the digest is wrong, `take` or
//     the server says so (IsDamaged());
//   - when the end of the call speaks against the connection (ConnectionDoubt),
//     or the server is silent (UnaryOptions::silence).
//
// Returns a status for each server. OK: its answer was taken. Unavailable: the
// server cannot be reached. DeadlineExceeded: no answer in time. Cancelled: the
// flag was set before the answer came. Others: the status of `take` or of the
// server.
std::vector<absl::Status> AskServers(absl::Span<ServerChannel> servers,
                                     const std::string& method,
                                     const std::string& request,
                                     const UnaryOptions& options,
                                     const TakeAnswer& take);

// One error for results of which none is OK. It names each server and the
// reason. Its code is that of the first server that answered, preferably with
// an error other than Unavailable. If no server answered: Unavailable, "no data
// server answers" or, if there is a connection, "is connected and has not
// answered".
absl::Status NoAnswerError(absl::string_view endpoint,
                           absl::Span<const ServerChannel> servers,
                           absl::Span<const absl::Status> results);

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_UNARY_CALL_H_
