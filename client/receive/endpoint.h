// An endpoint is what a person types to name the data servers: "host:port",
// several separated by commas, or one DNS name with several addresses behind
// it. This file takes it apart and asks the system's resolver.
//
// Thread-safe functions. ResolveHosts() blocks; it is bounded to a few seconds
// for each DNS server that does not answer.

#ifndef MILLRACE_CLIENT_RECEIVE_ENDPOINT_H_
#define MILLRACE_CLIENT_RECEIVE_ENDPOINT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace millrace {

struct HostPort {
  std::string host;  // a name, or a numeric address without brackets
  std::string port;
  std::string text;  // "host:port" as it was given
  bool numeric = false;
};

// One server's address.
struct Address {
  std::string target;     // for gRPC: "ipv4:10.0.0.7:7001"
  std::string authority;  // the name that it was found under: "data:7001"
  std::string text;       // for people: "data:7001 (10.0.0.7)"
  // Of the network, where it was measured (round_trip.h).
  std::optional<absl::Duration> round_trip = std::nullopt;
};

// InvalidArgument names the part that is wrong.
absl::StatusOr<std::vector<HostPort>> ParseEndpoint(absl::string_view endpoint);

// The addresses of all hosts, each once, in the order given. A name that has
// addresses of both families counts with its IPv4 ones: the others are the
// same machines. Unavailable when no host has one; a part of the hosts that
// has none is left out and, when `trouble` is given, named there.
absl::StatusOr<std::vector<Address>> ResolveHosts(
    absl::Span<const HostPort> hosts, std::string* trouble = nullptr);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_ENDPOINT_H_
