// LocalServer gives clients on the same machine shared memory: it listens on a
// Unix socket, keeps a ClientLink for each client and notices at once when a
// client ends. The gRPC calls announce the batches themselves.
//
// Thread-safe. Owns one thread and the sockets of its links; links live on
// while calls use them. The budget must outlive the links.
//
//   MR_ASSIGN_OR_RETURN(auto local, LocalServer::Start({.budget = &budget,
//                                   .batch_budget_bytes = bytes}));
//   ... local->offer() goes to the client, which comes back with a link ...
//   range.memory = local->BeginCall(request.same_host());

#ifndef MILLRACE_SERVER_LOCAL_LOCAL_SERVER_H_
#define MILLRACE_SERVER_LOCAL_LOCAL_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/byte_budget.h"
#include "common/mutex.h"
#include "common/socket_file.h"
#include "common/thread.h"
#include "common/unique_fd.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "proto/wire/same_host.h"
#include "server/batch/payload_memory.h"
#include "server/local/client_link.h"
#include "server/local/shared_memory_limits.h"

namespace millrace::local {

class LocalServer {
 public:
  struct Options {
    // A path, or "@name" in the abstract namespace. Empty: a unique abstract
    // name; only the server's own user and root may connect. The permissions of
    // the folder decide which users may connect to a path.
    std::string socket;
    ByteBudget* budget = nullptr;
    // The budget's bytes for batches; up to half of them are shared.
    uint64_t batch_budget_bytes = 0;
    // Time that a client may keep its batches while other clients wait for
    // memory; then it loses its link.
    absl::Duration send_timeout = absl::Seconds(10);
    // Upper bound of connected clients; further clients receive their batches
    // over gRPC.
    size_t max_links = 256;
  };

  struct Stats {
    uint64_t links = 0;
    uint64_t bytes = 0;  // of slots
    uint64_t batches_lent = 0;
  };

  // As ListenForPackets().
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(
      const Options& options);
  ~LocalServer();  // stops
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  // The offer for a client that has no link yet.
  const SameHostOffer& offer() const { return offer_; }

  // The memory for a call's batches; null: there is no such link (any more), so
  // the batches are sent.
  std::shared_ptr<batch::PayloadMemory> BeginCall(const SameHostCall& call);

  Stats stats() const;

  // Ends all links and joins the thread. Idempotent, one caller at a time.
  void Stop();

 private:
  // A client that has connected. It is greeting (`socket` is its own) until it
  // has sent the right hello; from then on `link` has the socket. An empty one
  // (`fd()` below 0) is to be erased.
  struct Client {
    UniqueFd socket;  // until the link has it
    std::shared_ptr<ClientLink> link;
    SteadyTime since;
    // The client's user may not share memory: the client gets only that
    // message.
    bool other_user = false;
    int fd() const { return link != nullptr ? link->socket() : socket.get(); }
  };

  LocalServer(const Options& options, SameHostOffer offer, UniqueFd listener,
              UniqueFd wake);
  // Everything down to EndLink() runs on the thread.
  void Loop();
  void Accept();
  // False: it is over.
  bool Read(Client& client);
  bool Greet(Client& client, const wire::SameHostMessage& hello);
  bool Refuse(const Client& client, wire::SameHostRefusal why);
  bool IsOtherUser(int socket) const;
  // Takes the link out of the table, so that no call finds it any more, and
  // ends it. Calls that have it already get no memory from it.
  void EndLink(const std::shared_ptr<ClientLink>& link);

  const Options options_;
  const SameHostOffer offer_;
  const bool check_user_;
  const UniqueFd listener_;
  const std::optional<SocketFile> socket_file_;  // ours
  const UniqueFd wake_;
  const std::shared_ptr<SharedMemoryLimits> limits_;
  // Touched by the thread alone.
  std::vector<Client> clients_;
  // Until then no connection is accepted: the last attempt found no descriptor.
  SteadyTime accept_from_;

  // Guards what the thread shares with callers. The locks of links are taken
  // without it.
  mutable Mutex mu_;
  bool stopping_ MR_GUARDED_BY(mu_) = false;
  // By id: links that may begin calls. A subset of those of clients_.
  std::map<wire::SameHostId, std::shared_ptr<ClientLink>> links_
      MR_GUARDED_BY(mu_);
  NamedThread thread_;  // last: it uses all of the above
};

}  // namespace millrace::local

#endif  // MILLRACE_SERVER_LOCAL_LOCAL_SERVER_H_
