// Whether the end of a call speaks against the connection that carried it. One
// flipped bit in what HTTP/2 keeps for a whole connection (header tables, flow
// control windows, settings) spoils every later call on that connection, and
// none on a new one.
//
// The transport attaches the doubt to a status, because it knows gRPC's
// statuses; who retries acts on it. It travels as a payload of the status and
// stays in this process.
//
// Pure functions.

#ifndef MILLRACE_CLIENT_PREFETCH_CONNECTION_DOUBT_H_
#define MILLRACE_CLIENT_PREFETCH_CONNECTION_DOUBT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

enum class ConnectionDoubt {
  kNone,  // the server's own word, or no connection could be made
  kLost,  // the connection has ended; the next call makes another one
  // The server ended the call without an answer, or because nothing of it was
  // taken. A server that stops and a client that was stopped give one such end.
  // Two in a row on one connection speak against it.
  kSuspect,
  kDamaged,  // no millrace-server ends a call so
};

// For log lines and errors, after ": ".
inline constexpr absl::string_view kProbablyDamaged =
    "bytes on this connection were probably damaged on the way (proxy, network "
    "card, memory)";

// OK stays OK, and kNone attaches nothing.
absl::Status WithDoubt(absl::Status status, ConnectionDoubt doubt);

ConnectionDoubt DoubtOf(const absl::Status& status);

// What more than one such connection means.
inline constexpr absl::string_view kDamagingLink =
    "another program answers at that address, or the link to it damages bytes "
    "(check proxies, network cards and the memory of both machines)";

// "3 connections in a row have failed like this: ...". Empty for fewer than 2.
std::string FailedConnectionsText(uint32_t connections);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_CONNECTION_DOUBT_H_
