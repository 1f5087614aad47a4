#include "client/receive/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace millrace::receive {
namespace {

bool IsNumeric(const std::string& host) {
  in6_addr bytes;
  return inet_pton(AF_INET, host.c_str(), &bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const auto bad = [text](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("endpoint `", text, "`: ", why,
                     "; write host:port, for example data-1:7001"));
  };
  HostPort result;
  result.text = std::string(text);
  absl::string_view host;
  absl::string_view port;
  if (!text.empty() && text.front() == '[') {
    const size_t end = text.find("]:");
    if (end == absl::string_view::npos) return bad("no port after the address");
    host = text.substr(1, end - 1);
    port = text.substr(end + 2);
  } else {
    const size_t colon = text.rfind(':');
    if (colon == absl::string_view::npos) return bad("no port");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (host.find(':') != absl::string_view::npos) {
      return bad("an IPv6 address needs brackets, and there is no scheme");
    }
  }
  if (host.empty()) return bad("no host");
  int number = 0;
  if (!std::all_of(port.begin(), port.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(port, &number) || number < 1 || number > 65535) {
    return bad("the port is not a number from 1 to 65535");
  }
  result.host = std::string(host);
  result.port = absl::StrCat(number);
  result.numeric = IsNumeric(result.host);
  return result;
}

// Addresses of one host, without its port: IPv4, or IPv6 if there is no IPv4.
absl::StatusOr<std::vector<std::string>> Lookup(const HostPort& host,
                                                bool* ipv6) {
  // Limits the wait of this thread's resolver for DNS servers that are gone.
  if ((_res.options & RES_INIT) == 0) res_init();
  _res.retrans = 2;  // seconds
  _res.retry = 1;

  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  if (host.numeric) hints.ai_flags = AI_NUMERICHOST;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(host.host.c_str(), host.port.c_str(), &hints, &list);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("host name `", host.host, "`: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list,
                                                             freeaddrinfo);
  std::vector<std::string> v4;
  std::vector<std::string> v6;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof(text),
                    nullptr, 0, NI_NUMERICHOST) != 0) {
      continue;
    }
    if (entry->ai_family == AF_INET) v4.emplace_back(text);
    if (entry->ai_family == AF_INET6) v6.emplace_back(text);
  }
  *ipv6 = v4.empty();
  std::vector<std::string>& found = *ipv6 ? v6 : v4;
  if (found.empty()) {
    return absl::UnavailableError(
        absl::StrCat("host name `", host.host, "` has no address"));
  }
  // Resolvers rotate their answers. A fixed order avoids spurious changes.
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

absl::StatusOr<std::vector<HostPort>> ParseEndpoint(
    absl::string_view endpoint) {
  std::vector<HostPort> hosts;
  for (absl::string_view part : absl::StrSplit(endpoint, ',')) {
    part = absl::StripAsciiWhitespace(part);
    MR_ASSIGN_OR_RETURN(HostPort host, ParseHostPort(part));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

absl::StatusOr<std::vector<Address>> ResolveHosts(
    absl::Span<const HostPort> hosts, std::string* trouble) {
  std::vector<Address> addresses;
  std::string problems;
  for (const HostPort& host : hosts) {
    bool ipv6 = false;
    absl::StatusOr<std::vector<std::string>> found = Lookup(host, &ipv6);
    if (!found.ok()) {
      absl::StrAppend(&problems, problems.empty() ? "" : "; ",
                      found.status().message());
      continue;
    }
    for (const std::string& numeric : *found) {
      Address address;
      address.target = ipv6 ? absl::StrCat("ipv6:[", numeric, "]:", host.port)
                            : absl::StrCat("ipv4:", numeric, ":", host.port);
      address.authority = host.text;
      address.text = host.numeric ? host.text
                                  : absl::StrCat(host.text, " (", numeric, ")");
      if (std::none_of(addresses.begin(), addresses.end(),
                       [&address](const Address& other) {
                         return other.target == address.target;
                       })) {
        addresses.push_back(std::move(address));
      }
    }
  }
  if (trouble != nullptr) *trouble = problems;
  if (addresses.empty()) return absl::UnavailableError(problems);
  return addresses;
}

}  // namespace millrace::receive
