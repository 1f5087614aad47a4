// What a client and a server of one machine say to each other on the Unix
// socket of their link, besides gRPC. docs/protocol.md, "Same host", has the
// rules. Both run on one machine, so numbers are in its byte order, and every
// message has the same size.
//
// Foreign bytes: DecodeSameHost() takes nothing on trust but the shape.
//
//   SendPacket(socket, EncodeSameHost({.kind = SameHostKind::kRelease,
//                                      .slot = 3, .number = generation}));

#ifndef MILLRACE_PROTO_WIRE_SAME_HOST_H_
#define MILLRACE_PROTO_WIRE_SAME_HOST_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace::wire {

inline constexpr uint32_t kSameHostVersion = 1;
// Of the metadatum that carries a SameHostOffer.
inline constexpr char kSameHostOfferKey[] = "millrace-same-host-bin";

using SameHostId = std::array<char, 16>;

enum class SameHostKind : uint32_t {
  // Client to server.
  kHello = 1,    // number: version; id: the nonce of the offer. Comes first.
  kRelease = 2,  // slot, number: generation. Its bytes were read.
  kEndCall = 3,  // slot: the call, number: announcements that were seen of it.
  kGone = 4,     // slot: no longer mapped, after kDrop.
  // Server to client.
  kWelcome = 16,  // number: version; id: the link, for GetBatchesRequest.
  kRefused = 17,  // number: a SameHostRefusal. The socket ends after it.
  kSlot = 18,     // slot, number: bytes; the memory is attached.
  kDrop = 19,     // slot: not used any more, unmap it.
};

enum class SameHostRefusal : uint64_t {
  kVersion = 1,
  kOtherServer = 2,  // not the one that made the offer
  kOtherUser = 3,
  kTooMany = 4,
};

struct SameHostMessage {
  SameHostKind kind = SameHostKind::kHello;
  uint64_t slot = 0;
  uint64_t number = 0;
  SameHostId id = {};
};

inline constexpr size_t kSameHostMessageBytes = 40;

inline std::string EncodeSameHost(const SameHostMessage& message) {
  std::string bytes(kSameHostMessageBytes, '\0');
  const uint32_t kind = static_cast<uint32_t>(message.kind);
  std::memcpy(&bytes[0], &kind, 4);
  std::memcpy(&bytes[8], &message.slot, 8);
  std::memcpy(&bytes[16], &message.number, 8);
  std::memcpy(&bytes[24], message.id.data(), 16);
  return bytes;
}

// False: it has not the size of a message. Its kind may be none.
inline bool DecodeSameHost(absl::string_view bytes, SameHostMessage* message) {
  if (bytes.size() != kSameHostMessageBytes) return false;
  uint32_t kind = 0;
  std::memcpy(&kind, bytes.data(), 4);
  message->kind = static_cast<SameHostKind>(kind);
  std::memcpy(&message->slot, bytes.data() + 8, 8);
  std::memcpy(&message->number, bytes.data() + 16, 8);
  std::memcpy(message->id.data(), bytes.data() + 24, 16);
  return true;
}

}  // namespace millrace::wire

#endif  // MILLRACE_PROTO_WIRE_SAME_HOST_H_
