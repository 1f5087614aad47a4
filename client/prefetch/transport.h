// BatchTransport carries requests for steps to servers and frames back. It is
// the border between the bookkeeping of the window (this component: which step
// is requested from which server, which is requested again, and in which order
// batches are handed out) and gRPC (client/receive). Bookkeeping is tested
// against a fake of it.
//
// It does not retry, choose a server, or look into a batch.
//
// Events come one at a time: between two of them there is a happens-before
// edge, so that their receiver needs no lock of its own. StartCall(),
// CancelCall() and Reconnect() may only be called from within an event; Wake()
// from any thread; Start() and Stop() from the owner. No call of the transport
// calls an event before it returns.

#ifndef MILLRACE_CLIENT_PREFETCH_TRANSPORT_H_
#define MILLRACE_CLIENT_PREFETCH_TRANSPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/wire/frame_view.h"

namespace millrace {

using ServerId = uint64_t;  // of one address; never used again for another
using CallId = uint64_t;    // chosen by the caller of StartCall()

struct ServerState {
  ServerId id = 0;
  std::string address;  // as a person knows it: "data-1:7001 (10.0.0.7)"
  bool ready = false;   // connected: a call would reach the server now
};

// Steps [first_step, first_step + step_count) of one epoch.
struct AskedSteps {
  uint64_t epoch = 0;
  uint64_t first_step = 0;
  uint64_t step_count = 0;
};

class TransportEvents {
 public:
  virtual ~TransportEvents() = default;
  // All servers of the endpoint, now. Calls to one that is gone go on.
  virtual void OnServers(absl::Span<const ServerState> servers) = 0;
  // `frame` and what it points to live until the return; the receiver may move
  // out of it.
  virtual void OnFrame(CallId call, FrameView& frame) = 0;
  // The last event of a call. OK: the server ended it in order. Unavailable:
  // the connection or the server is gone, or something on the way ended the
  // call. DataLoss without ErrorDetail: damaged frames. With ErrorDetail: what
  // the server says. An end that speaks against the connection has a
  // ConnectionDoubt.
  virtual void OnCallDone(CallId call, absl::Status status) = 0;
  // At most 100 ms after the one before, and soon after Wake().
  virtual void OnTick() = 0;
};

class BatchTransport {
 public:
  virtual ~BatchTransport() = default;  // stops
  // `events` must live until Stop() returns. OnServers() comes first.
  virtual void Start(TransportEvents* events) = 0;
  virtual void StartCall(CallId call, ServerId server,
                         const AskedSteps& steps) = 0;
  // No event of `call` comes any more. Unknown calls are ignored.
  virtual void CancelCall(CallId call) = 0;
  // Calls that are started from now on go over a new connection to the server.
  // Calls in flight stay on the old one, which ends with the last of them.
  // Unknown servers are ignored.
  virtual void Reconnect(ServerId server) = 0;
  virtual void Wake() = 0;
  // Ends all calls and joins the transport's threads: no event after it.
  // Idempotent.
  virtual void Stop() = 0;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_TRANSPORT_H_
