// BatchTransport carries requests for steps to servers, and frames back. It is
// the border between the bookkeeping of the window (this component) and gRPC
// (client/receive). The bookkeeping is tested against a fake transport.
//
// What it is not: it does not retry, choose a server, or look into a batch.
//
// Threads: events come one at a time, with a happens-before edge between two of
// them, so their receiver needs no lock. StartCall(), CancelCall() and
// Reconnect() may only be called from within an event; Wake() from any thread;
// Start() and Stop() from the owner. No method of the transport calls an event
// before it returns.
//
//   transport->Start(&events);
//   // in an event:
//   transport->StartCall(id, server, {.epoch = 0, .first_step = 4,
//                                     .step_count = 2});

#ifndef MILLRACE_CLIENT_PREFETCH_TRANSPORT_H_
#define MILLRACE_CLIENT_PREFETCH_TRANSPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/wire/frame_view.h"

namespace millrace::prefetch {

using ServerId = uint64_t;  // of one address; never reused for another one
using CallId = uint64_t;    // chosen by the caller of StartCall()

struct ServerState {
  ServerId id = 0;
  std::string address;  // for people: "data-1:7001 (10.0.0.7)"
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
  // All servers of the endpoint, now. Calls to a server that is gone continue.
  virtual void OnServers(absl::Span<const ServerState> servers) = 0;
  // `frame` and the bytes that it points to live until the return. The receiver
  // may move members out of it.
  virtual void OnFrame(CallId call, wire::FrameView& frame) = 0;
  // The last event of a call. OK: the server ended it. Unavailable: the
  // connection or the server is gone, or something on the way ended the call.
  // DataLoss without ErrorDetail: damaged frames. With ErrorDetail: the status
  // comes from the server. An end that speaks against the connection has a
  // ConnectionDoubt.
  virtual void OnCallDone(CallId call, absl::Status status) = 0;
  // At most 100 ms after the previous tick, and soon after Wake().
  virtual void OnTick() = 0;
};

class BatchTransport {
 public:
  virtual ~BatchTransport() = default;  // stops
  // `events` must live until Stop() returns. OnServers() comes first.
  virtual void Start(TransportEvents* events) = 0;
  virtual void StartCall(CallId call, ServerId server,
                         const AskedSteps& steps) = 0;
  // After this, no event of `call` comes. Unknown calls are ignored.
  virtual void CancelCall(CallId call) = 0;
  // Later calls to the server go over a new connection. Calls in flight stay on
  // the old connection, which ends with the last of them. Unknown servers are
  // ignored.
  virtual void Reconnect(ServerId server) = 0;
  virtual void Wake() = 0;
  // Ends all calls and joins the transport's threads: no event after it.
  // Idempotent.
  virtual void Stop() = 0;
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_TRANSPORT_H_
