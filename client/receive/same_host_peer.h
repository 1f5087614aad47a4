// SameHostPeer holds the state of sharing memory with one server: whether the
// client wants it, the link, and why there is none. A call without a link asks
// for the server's offer; the next call has the link. Without a link, batches
// come over the network; the log says so once.
//
// What it is not: it finds no payload (ServerLink does).
//
// Used on the transport's thread only.
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
#include "client/prefetch/loader_options.h"
#include "common/mutex.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::receive {

class SameHostPeer {
 public:
  SameHostPeer(SameHost wish, std::string address)
      : wish_(wish), address_(std::move(address)) {}

  // Sets the part of `request` for shared memory, for the call with this
  // number. Returns the link for its batches; null: none.
  std::shared_ptr<local::ServerLink> Prepare(GetBatchesRequest* request,
                                             uint64_t call);

  // The answer to a call without a link has begun; `offer` is the metadatum
  // that came with it, if any. FailedPrecondition: SameHost::kRequire, and
  // sharing memory is impossible with this server and always was.
  absl::Status TakeOffer(std::optional<absl::string_view> offer);

  // Handles messages of the server. Cheap.
  void Poll();

 private:
  void Say(const absl::Status& why);

  const SameHost wish_;
  const std::string address_;
  std::shared_ptr<local::ServerLink> link_;
  bool ready_ = false;    // the link was ready, and the log says so
  absl::Status problem_;  // of the server with nonce_
  std::string nonce_;
  std::string shared_with_;  // nonce of the last server with a link
  SteadyTime retry_at_ = SteadyTime::min();
  bool said_ = false;
};

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_SAME_HOST_PEER_H_
