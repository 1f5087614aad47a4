#include "server/rpc/caller.h"

#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace millrace::rpc {
namespace {

constexpr size_t kMaxIdBytes = 64;

}  // namespace

absl::StatusOr<pipeline::Caller> CallerOf(absl::string_view peer,
                                          absl::string_view client_id) {
  if (client_id.size() > kMaxIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "client_id has ", client_id.size(), " bytes; the maximum is ",
        kMaxIdBytes, ": generate 16 random bytes once"));
  }
  pipeline::Caller caller;
  caller.connection = std::string(peer);
  caller.client =
      client_id.empty() ? std::string(peer) : absl::BytesToHexString(client_id);
  // Ports distinguish the connections of one machine. Unix sockets have no
  // ports.
  const bool has_port =
      absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:");
  caller.peer = std::string(has_port ? peer.substr(0, peer.rfind(':')) : peer);
  return caller;
}

}  // namespace millrace::rpc
