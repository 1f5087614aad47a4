// An endpoint names the data servers: "host:port", several separated by commas,
// or one DNS name with several addresses. ParseEndpoint() parses it, and
// ResolveHosts() resolves it with the system's resolver.
//
// Thread-safe functions. ResolveHosts() blocks, for at most a few seconds for
// each DNS server that does not answer.
//
//   MR_ASSIGN_OR_RETURN(std::vector<HostPort> hosts, ParseEndpoint(endpoint));
//   MR_ASSIGN_OR_RETURN(std::vector<Address> addresses, ResolveHosts(hosts));

#ifndef MILLRACE_CLIENT_RECEIVE_ENDPOINT_H_
#define MILLRACE_CLIENT_RECEIVE_ENDPOINT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace millrace::receive {

struct HostPort {
  std::string host;  // a name, or a numeric address without brackets
  std::string port;
  std::string text;  // "host:port" as given
  bool numeric = false;
};

// One server's address.
struct Address {
  std::string target;     // for gRPC: "ipv4:10.0.0.7:7001"
  std::string authority;  // the name that resolved to it: "data:7001"
  std::string text;       // for people: "data:7001 (10.0.0.7)"
  // Round trip time of the network; nullopt: not measured (round_trip.h).
  std::optional<absl::Duration> round_trip = std::nullopt;
};

// InvalidArgument: names the malformed part.
absl::StatusOr<std::vector<HostPort>> ParseEndpoint(absl::string_view endpoint);

// The addresses of all hosts, each once, in the order of `hosts`. Of a name
// with IPv4 and IPv6 addresses only the IPv4 ones count, because both belong to
// the same machines. Hosts without an address are left out; `trouble`, if
// given, names them. Unavailable: no host has an address.
absl::StatusOr<std::vector<Address>> ResolveHosts(
    absl::Span<const HostPort> hosts, std::string* trouble = nullptr);

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_ENDPOINT_H_
