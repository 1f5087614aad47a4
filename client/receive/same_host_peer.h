// SameHostPeer is what a transport knows of one server about sharing memory:
// whether the client wants it, the link when there is one, and why not. A call
// without a link asks for the server's offer; the next call has the link. The
// way over the network stays open all the time, and is taken by itself: the
// log says so once.
//
// Belongs to the transport's thread.
//
//   auto link = peer.Prepare(&request, call);     // null: no shared memory
//   ...
//   if (link == nullptr) status = peer.TakeOffer(metadata);

#ifndef MILLRACE_CLIENT_RECEIVE_SAME_HOST_PEER_H_
#define MILLRACE_CLIENT_RECEIVE_SAME_HOST_PEER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/local/server_link.h"
#include "client/prefetch/host_loader.h"
#include "common/mutex.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

class SameHostPeer {
 public:
  // After a link that failed or ended the same server is tried again so much
  // later.
  static constexpr absl::Duration kRetry = absl::Seconds(10);

  SameHostPeer(SameHost wish, std::string address)
      : wish_(wish), address_(std::move(address)) {}

  // Fills in `request` what a call of this number says, and returns the link
  // that its batches may come through.
  std::shared_ptr<ServerLink> Prepare(GetBatchesRequest* request,
                                      uint64_t call);

  // The answer to a call without a link has begun: `offer` is the metadatum
  // that came with it, if one did. FailedPrecondition: SameHost::kRequire, and
  // it cannot be, nor could it ever with this server.
  absl::Status TakeOffer(std::optional<absl::string_view> offer);

  // Hears what the server has said. Cheap.
  void Poll();

 private:
  void Say(const absl::Status& why);

  const SameHost wish_;
  const std::string address_;
  std::shared_ptr<ServerLink> link_;
  bool ready_ = false;    // was, and the log has said so
  absl::Status problem_;  // with the server of this nonce
  std::string nonce_;
  std::string shared_with_;  // the nonce of the last server with a link
  SteadyTime retry_at_ = SteadyTime::min();
  bool said_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_SAME_HOST_PEER_H_
