// The packets between a program and the data server of its user and machine
// (docs/protocol.md, "Leases"). A packet is a list of texts, separated by zero
// bytes; the first is the protocol's name, the second the verb.
//
// Pure functions, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(LeaseRequest request, ParseLeaseRequest(packet));
//   SendPacket(socket, EncodeLeaseError(status));

#ifndef MILLRACE_SERVER_LEASE_LEASE_PROTOCOL_H_
#define MILLRACE_SERVER_LEASE_LEASE_PROTOCOL_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/unique_fd.h"

namespace millrace::lease {

// A path of the system has at most 4096 bytes.
inline constexpr size_t kMaxLeasePacketBytes = 8192;

// Asks for a dataset, which the connection then holds until it ends.
struct LeaseRequest {
  std::string uri;   // not empty
  std::string name;  // empty: the server chooses
  // The file that was attached, of a URI that begins with kArraysScheme; null
  // for other URIs.
  std::shared_ptr<const UniqueFd> arrays;
};

// What the URI of arrays begins with. The rest is for people.
inline constexpr absl::string_view kArraysScheme = "memory:";

// `attached`: the descriptor that came with the packet. InvalidArgument: says
// what is wrong with the packet, and which protocol the server speaks.
absl::StatusOr<LeaseRequest> ParseLeaseRequest(absl::string_view packet,
                                               UniqueFd attached = UniqueFd());

// A dataset that a connection holds.
struct LeasedDataset {
  std::string name;
  std::string fingerprint;
  // The file of arrays that is served, where that is not the one of the
  // request: another program's with the same content. Else null.
  std::shared_ptr<const UniqueFd> arrays;
};

// `address`: HOST:PORT of the server.
std::string EncodeLeaseAdded(absl::string_view address,
                             const LeasedDataset& dataset);
// The dataset is being opened. Sent again and again, so that a client knows
// that the server lives.
std::string EncodeLeaseOpening();
// Its message is cut to what fits into a packet.
std::string EncodeLeaseError(const absl::Status& status);

}  // namespace millrace::lease

#endif  // MILLRACE_SERVER_LEASE_LEASE_PROTOCOL_H_
