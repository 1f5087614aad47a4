// ConnectionDoubt says whether the end of a call speaks against the connection
// that carried it. One flipped bit in the state that HTTP/2 keeps for a whole
// connection (header tables, flow control windows, settings) spoils every later
// call on that connection, and none on a new connection.
//
// The transport attaches the doubt to a status, because it knows the statuses
// of gRPC; BatchFetcher acts on it. The doubt is a payload of the status that
// never leaves this process.
//
// Pure functions, safe from any thread.
//
//   return WithDoubt(status, ConnectionDoubt::kLost);
//   if (DoubtOf(status) == ConnectionDoubt::kDamaged) ... reconnect ...

#ifndef MILLRACE_CLIENT_PREFETCH_CONNECTION_DOUBT_H_
#define MILLRACE_CLIENT_PREFETCH_CONNECTION_DOUBT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace::prefetch {

enum class ConnectionDoubt {
  kNone,  // the status comes from the server, or no connection could be made
  kLost,  // the connection has ended; the next call makes another one
  // The server ended the call without an answer, or because the client took
  // nothing. A server that stops and a client that was paused cause one such
  // end. Two in a row on one connection speak against the connection.
  kSuspect,
  kDamaged,  // no millrace-server ends a call with this status
};

// For log lines and errors, after ": ".
inline constexpr absl::string_view kProbablyDamaged =
    "bytes on this connection were probably damaged on the way (proxy, network "
    "card, memory)";

// OK stays OK, and kNone attaches nothing.
absl::Status WithDoubt(absl::Status status, ConnectionDoubt doubt);

ConnectionDoubt DoubtOf(const absl::Status& status);

// The meaning of more than one damaged connection in a row.
inline constexpr absl::string_view kDamagingLink =
    "another program answers at that address, or the link to it damages bytes "
    "(check proxies, network cards and the memory of both machines)";

// "3 connections in a row have failed like this: ...". Empty for fewer than 2.
std::string FailedConnectionsText(uint32_t connections);

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_CONNECTION_DOUBT_H_
