#include "server/rpc/request_counts.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <cstdlib>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace millrace::rpc {
namespace {

// Takes JSON of channelz, which has no spaces and writes numbers as strings.
std::string Take(char* json) {
  if (json == nullptr) return "";  // the object is gone
  std::string text = json;
  gpr_free(json);
  return text;
}

// Returns the string after `"key":"` from `*at` on, and moves `*at` behind it.
// Empty: there is none. The JSON contains no text from peers except addresses.
std::string Next(const std::string& json, absl::string_view key, size_t* at) {
  std::string before = "\"";
  before.append(key.data(), key.size());
  before += "\":\"";
  const size_t found = json.find(before, *at);
  if (found == std::string::npos) return "";
  const size_t begin = found + before.size();
  const size_t end = json.find('"', begin);
  if (end == std::string::npos) return "";
  *at = end;
  return json.substr(begin, end - begin);
}

// Returns 0 for an absent key: channelz leaves out numbers that are 0.
uint64_t Number(const std::string& json, absl::string_view key) {
  size_t at = 0;
  return std::strtoull(Next(json, key, &at).c_str(), nullptr, 10);
}

void AddSockets(int64_t server, std::vector<RequestCounts>* counts) {
  int64_t first = 0;
  while (true) {
    const std::string page =
        Take(grpc_channelz_get_server_sockets(server, first, 0));
    const size_t before = counts->size();
    size_t at = 0;
    while (true) {
      RequestCounts one;
      one.peer = Next(page, "name", &at);
      one.id = std::atoll(Next(page, "socketId", &at).c_str());
      if (one.id == 0) break;
      first = one.id + 1;
      // "chttp2 ipv4:10.0.0.7:41234": the transport stands before the address.
      one.peer.erase(0, one.peer.find(' ') + 1);
      const std::string socket = Take(grpc_channelz_get_socket(one.id));
      one.begun = Number(socket, "streamsStarted");
      one.ended =
          Number(socket, "streamsSucceeded") + Number(socket, "streamsFailed");
      one.received = Number(socket, "messagesReceived");
      counts->push_back(std::move(one));
    }
    // The last page is marked.
    if (counts->size() == before ||
        page.find("\"end\":true") != std::string::npos) {
      return;
    }
  }
}

}  // namespace

std::vector<RequestCounts> CountRequests() {
  std::vector<RequestCounts> counts;
  const std::string servers = Take(grpc_channelz_get_servers(0));
  size_t at = 0;
  while (true) {
    const int64_t id = std::atoll(Next(servers, "serverId", &at).c_str());
    if (id == 0) return counts;
    AddSockets(id, &counts);
  }
}

std::string PlainPeer(absl::string_view peer) {
  if (!absl::ConsumePrefix(&peer, "ipv4:")) absl::ConsumePrefix(&peer, "ipv6:");
  std::string plain = absl::StrReplaceAll(peer, {{"%5B", ""}, {"%5D", ""}});
  // A link-local address is followed by its interface: "fe80::1%25eth0".
  if (const size_t zone = plain.find("%25"); zone != std::string::npos) {
    plain.erase(zone, plain.rfind(':') - zone);
  }
  return plain;
}

}  // namespace millrace::rpc
