#include "server/rpc/listen_address.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace millrace::rpc {

std::string ListenAddress::Text() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return ipv6 ? absl::StrCat("[", host, "]:", port)
              : absl::StrCat(host, ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on `", text, "`: ", why,
                     "; write HOST:PORT, for example 0.0.0.0:7001"));
  };
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return bad("it has no port");
  absl::string_view host = text.substr(0, colon);
  ListenAddress address;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &address.port) ||
      address.port < 0 || address.port > 65535) {
    return bad("the port is not a number from 0 to 65535");
  }
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != absl::string_view::npos) {
    return bad("an IPv6 address must be in [ ]");
  }
  if (host.empty()) return bad("it has no host");
  address.host = std::string(host);
  return address;
}

}  // namespace millrace::rpc
