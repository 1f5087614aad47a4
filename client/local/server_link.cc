#include "client/local/server_link.h"

#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/packet_socket.h"
#include "common/status_macros.h"

namespace millrace::local {
namespace {

absl::Status RefusalError(uint64_t why) {
  switch (static_cast<wire::SameHostRefusal>(why)) {
    case wire::SameHostRefusal::kVersion:
      return absl::FailedPreconditionError(
          "the server has another version of the protocol for shared memory");
    case wire::SameHostRefusal::kOtherServer:
      return absl::UnavailableError(
          "another server listens on the server's socket");
    case wire::SameHostRefusal::kOtherUser:
      return absl::PermissionDeniedError(
          "the server runs as another user; give it a --local_socket=PATH that "
          "both "
          "users may use");
    case wire::SameHostRefusal::kTooMany:
      return absl::ResourceExhaustedError(
          "the server already shares memory with its maximum number of "
          "clients");
  }
  return absl::UnknownError(
      absl::StrCat("the server refuses shared memory, for reason ", why));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ServerLink>> ServerLink::Connect(
    const SameHostOffer& offer) {
  wire::SameHostMessage hello{.kind = wire::SameHostKind::kHello,
                              .number = wire::kSameHostVersion};
  if (offer.nonce().size() != hello.id.size()) {
    return absl::DataLossError(
        "the server's offer of shared memory is malformed");
  }
  std::memcpy(hello.id.data(), offer.nonce().data(), hello.id.size());
  MR_ASSIGN_OR_RETURN(UniqueFd socket, ConnectForPackets(offer.socket()));
  MR_RETURN_IF_ERROR(SendPacket(socket.get(), wire::EncodeSameHost(hello)));
  // The constructor is private.
  return std::shared_ptr<ServerLink>(
      new ServerLink(std::move(socket), offer.nonce()));
}

ServerLink::State ServerLink::Poll() {
  while (state_ != State::kEnded) {
    char packet[wire::kSameHostMessageBytes + 1];
    size_t bytes = 0;
    UniqueFd attached;
    const Received received =
        ReceivePacket(socket_.get(), packet, sizeof(packet), &bytes, &attached);
    if (received == Received::kNothing) break;
    if (received == Received::kEnd) {
      Break(absl::UnavailableError("the server closed the link"));
      break;
    }
    wire::SameHostMessage message;
    if (!wire::DecodeSameHost({packet, bytes}, &message)) {
      Break(absl::DataLossError(
          absl::StrCat("the server sent a message of ", bytes, " bytes")));
      break;
    }
    OnMessage(message, attached);
  }
  return state_;
}

void ServerLink::OnMessage(const wire::SameHostMessage& message,
                           const UniqueFd& attached) {
  switch (message.kind) {
    case wire::SameHostKind::kWelcome:
      if (state_ != State::kGreeting) break;
      id_ = message.id;
      state_ = State::kReady;
      return;
    case wire::SameHostKind::kRefused:
      Break(RefusalError(message.number));
      return;
    case wire::SameHostKind::kSlot: {
      if (state_ != State::kReady || !attached.ok() ||
          slots_.count(message.slot) > 0) {
        break;
      }
      absl::StatusOr<SealedMemory> memory =
          SealedMemory::MapReadOnly(attached.get(), message.number);
      if (!memory.ok()) {
        Break(memory.status());
        return;
      }
      slots_[message.slot] = std::make_shared<SealedMemory>(*std::move(memory));
      return;
    }
    case wire::SameHostKind::kDrop:
      if (slots_.erase(message.slot) == 0) break;
      if (absl::Status sent = SendPacket(
              socket_.get(),
              wire::EncodeSameHost(
                  {.kind = wire::SameHostKind::kGone, .slot = message.slot}));
          !sent.ok()) {
        Break(std::move(sent));
      }
      return;
    default:
      break;
  }
  Break(absl::DataLossError(absl::StrCat("the server sent a message of kind ",
                                         static_cast<uint32_t>(message.kind),
                                         " that does not fit")));
}

void ServerLink::Break(absl::Status why) {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  status_ = std::move(why);
  // The server forgets the payloads that are held; the mappings here remain.
  // Holders may still send on the descriptor, so it stays open.
  shutdown(socket_.get(), SHUT_RDWR);
}

absl::StatusOr<ServerLink::Found> ServerLink::Find(const SharedPayload& shared,
                                                   uint64_t bytes) {
  // A slot is offered before it is announced, but on another connection.
  Poll();
  const auto it = slots_.find(shared.slot());
  if (it == slots_.end()) {
    // The data are not damaged: the steps can be received over the network.
    if (state_ == State::kEnded) {
      return absl::UnavailableError(absl::StrCat(
          "the memory shared with it is lost: ", status_.message()));
    }
    return absl::DataLossError(absl::StrCat("a batch was announced in slot ",
                                            shared.slot(),
                                            ", which was never offered"));
  }
  if (bytes > it->second->bytes()) {
    return absl::DataLossError(
        absl::StrCat("a batch of ", bytes, " bytes was announced in a slot of ",
                     it->second->bytes(), " bytes"));
  }
  Found found;
  found.data = {reinterpret_cast<const char*>(it->second->data()), bytes};
  found.hold = std::shared_ptr<void>(
      it->second->data(),
      [link = shared_from_this(), memory = it->second, slot = shared.slot(),
       generation = shared.generation()](void*) {
        link->Release(slot, generation);
      });
  return found;
}

void ServerLink::Release(uint64_t slot, uint64_t generation) {
  const absl::Status sent = SendPacket(
      socket_.get(), wire::EncodeSameHost({.kind = wire::SameHostKind::kRelease,
                                           .slot = slot,
                                           .number = generation}));
  // A slot that cannot be given back would be lost to the server while the link
  // lives, so the link ends. Poll() notices.
  if (!sent.ok()) shutdown(socket_.get(), SHUT_RDWR);
}

void ServerLink::EndCall(uint64_t call, uint64_t seen) {
  if (state_ != State::kReady) return;
  absl::Status sent = SendPacket(
      socket_.get(), wire::EncodeSameHost({.kind = wire::SameHostKind::kEndCall,
                                           .slot = call,
                                           .number = seen}));
  if (!sent.ok()) Break(std::move(sent));
}

}  // namespace millrace::local
