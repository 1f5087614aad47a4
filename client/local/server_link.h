// ServerLink is a client's side of the memory that a server on the same machine
// shares with it. It maps slots as the server offers them, finds the payload of
// an announced batch in them, and gives each payload back when its last holder
// is gone.
//
// What it is not: batches are announced by gRPC calls, not by the link.
//
// Threads: Poll(), Find(), EndCall() and status() belong to one thread. Holders
// may be released on any thread, also after all other references to the link
// are gone. A payload stays readable while it is held, whatever happens to the
// server. Memory is mapped read-only: writing to it ends the process.
//
//   MR_ASSIGN_OR_RETURN(auto link, ServerLink::Connect(offer));
//   if (link->Poll() == ServerLink::State::kReady) ... call with link->id() ...
//   MR_ASSIGN_OR_RETURN(auto found, link->Find(header.shared(), bytes));
//   Read(found.data);
//   found.hold.reset();

#ifndef MILLRACE_CLIENT_LOCAL_SERVER_LINK_H_
#define MILLRACE_CLIENT_LOCAL_SERVER_LINK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/sealed_memory.h"
#include "common/unique_fd.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "proto/wire/same_host.h"

namespace millrace::local {

class ServerLink : public std::enable_shared_from_this<ServerLink> {
 public:
  enum class State { kGreeting, kReady, kEnded };

  struct Found {
    absl::string_view data;
    std::shared_ptr<void> hold;  // gives the slot back
  };

  // Does not wait for the server's answer. Unavailable: no socket here has that
  // name, so the server is on another machine or in another network namespace.
  // Others: as ConnectForPackets().
  static absl::StatusOr<std::shared_ptr<ServerLink>> Connect(
      const SameHostOffer& offer);

  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;

  // Handles the messages of the server. Never blocks.
  State Poll();

  // Reason of the end; OK before.
  const absl::Status& status() const { return status_; }
  const std::string& nonce() const { return nonce_; }

  // For GetBatchesRequest; from kReady on.
  absl::string_view id() const { return {id_.data(), id_.size()}; }

  // The payload that a header announced. DataLoss: the announcement does not
  // fit the offered memory. Unavailable: the link has ended.
  absl::StatusOr<Found> Find(const SharedPayload& shared, uint64_t bytes);

  // The call is over. Find() was called for `seen` of its announcements; the
  // server takes back later ones.
  void EndCall(uint64_t call, uint64_t seen);

 private:
  ServerLink(UniqueFd socket, std::string nonce)
      : socket_(std::move(socket)), nonce_(std::move(nonce)) {}
  void OnMessage(const wire::SameHostMessage& message,
                 const UniqueFd& attached);
  void Break(absl::Status why);
  void Release(uint64_t slot, uint64_t generation);

  const UniqueFd socket_;
  const std::string nonce_;
  State state_ = State::kGreeting;
  absl::Status status_;
  wire::SameHostId id_ = {};
  std::map<uint64_t, std::shared_ptr<SealedMemory>> slots_;
};

}  // namespace millrace::local

#endif  // MILLRACE_CLIENT_LOCAL_SERVER_LINK_H_
