// ServerLink is a client's side of the memory that a server of the same machine
// shares with it: it maps slots as they are offered, finds the payload of an
// announced batch in them, and gives each back when the last holder of its
// bytes is gone. Batches are announced by the calls of gRPC.
//
// Poll(), Find(), EndCall() and status() belong to one thread; holders may let
// go on any thread, also after everybody else has forgotten the link. What was
// found stays readable for as long as it is held, whatever becomes of the
// server. Memory is mapped read-only: writing to it ends the process.
//
//   MR_ASSIGN_OR_RETURN(auto link, ServerLink::Connect(offer));
//   if (link->Poll() == ServerLink::State::kReady) ...link->id() for the
//   call... MR_ASSIGN_OR_RETURN(auto found, link->Find(header.shared(),
//   bytes)); Read(found.data); found.hold.reset();

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

namespace millrace {

class ServerLink : public std::enable_shared_from_this<ServerLink> {
 public:
  enum class State { kGreeting, kReady, kEnded };

  struct Found {
    absl::string_view data;
    std::shared_ptr<void> hold;  // gives the slot back
  };

  // Does not wait for the server's answer. Unavailable: nobody has that name
  // here, so the server is on another machine or in another network namespace.
  // Others: as ConnectForPackets().
  static absl::StatusOr<std::shared_ptr<ServerLink>> Connect(
      const SameHostOffer& offer);

  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;

  // Takes what the server has said meanwhile. Never blocks.
  State Poll();

  // Why it has ended.
  const absl::Status& status() const { return status_; }
  const std::string& nonce() const { return nonce_; }

  // For GetBatchesRequest; from kReady on.
  absl::string_view id() const { return {id_.data(), id_.size()}; }

  // The payload that a header announced. DataLoss: there is no such memory.
  absl::StatusOr<Found> Find(const SharedPayload& shared, uint64_t bytes);

  // Nothing is wanted any more of a call of which `seen` announcements were
  // found.
  void EndCall(uint64_t call, uint64_t seen);

 private:
  ServerLink(UniqueFd socket, std::string nonce)
      : socket_(std::move(socket)), nonce_(std::move(nonce)) {}
  void OnMessage(const SameHostMessage& message, const UniqueFd& attached);
  void Break(absl::Status why);
  void Release(uint64_t slot, uint64_t generation);

  const UniqueFd socket_;
  const std::string nonce_;
  State state_ = State::kGreeting;
  absl::Status status_;
  SameHostId id_ = {};
  std::map<uint64_t, std::shared_ptr<SealedMemory>> slots_;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_LOCAL_SERVER_LINK_H_
