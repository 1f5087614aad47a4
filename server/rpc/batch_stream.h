// BatchStream answers one GetBatches call: it asks the engine for the steps,
// a bounded part at a time, and writes the batches as they become ready, one
// frame after the other.
//
// Bounded: what it has asked for and not yet written stays within the stream's
// share of the budget's bytes for batches (two are always allowed), so a client
// that reads slowly cannot hold the memory that other clients need.
//
// Lives from the call's start to gRPC's OnDone, which deletes it. Callbacks of
// the engine may come later: they hold its state, not the stream.
//
//   auto* stream = new BatchStream(env, context, pipeline, range, max_bytes);
//   stream->Start();
//   return stream;  // to gRPC

#ifndef MILLRACE_SERVER_RPC_BATCH_STREAM_H_
#define MILLRACE_SERVER_RPC_BATCH_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "server/pipeline/engine.h"
#include "server/rpc/counters.h"
#include "server/rpc/live_payloads.h"

namespace millrace {

class LocalServer;
class StreamRegistry;

// What all streams of a server share. The pointers outlive every stream.
struct StreamEnvironment {
  Engine* engine = nullptr;
  const ByteBudget* budget = nullptr;
  uint64_t max_streams = 0;
  StreamRegistry* registry = nullptr;
  std::shared_ptr<RpcCounters> counters;
  std::shared_ptr<LivePayloads> live_payloads;
  LocalServer* local = nullptr;  // null: no memory is shared
};

class BatchStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // To be called without locks held; may be empty.
  using Deferred = std::function<void()>;

  // `max_payload_bytes`: of one batch of this rank.
  BatchStream(const StreamEnvironment& environment,
              grpc::CallbackServerContext* context,
              std::shared_ptr<const Pipeline> pipeline, const StepRange& range,
              uint64_t max_payload_bytes);
  ~BatchStream() override;

  // Asks for the first steps. Called once, before gRPC gets the reactor.
  void Start();

  // Drops what is not written; the returned function ends the call with
  // `status`.
  Deferred Stop(absl::Status status);

  // When one write has been under way for `timeout`, not counting the time
  // before `since`, whatever was done to the system's clock meanwhile: drops
  // the rest and returns a function that cancels the call with `status`.
  Deferred StopIfBlockedFor(absl::Duration timeout, SteadyTime since,
                            absl::Status status);

  // A write has been under way for so long.
  bool IsBlockedFor(absl::Duration timeout) const;

  const std::string& peer() const { return peer_; }

 private:
  struct State;
  struct Action;
  struct Outgoing;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void AskMore();
  // Does what was decided under the lock. Touches the stream only when there
  // is a write or an end to perform: it lives at least until that is done.
  static void Perform(BatchStream* stream, Action action);

  const StreamEnvironment environment_;
  const std::string peer_;
  const std::shared_ptr<State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_RPC_BATCH_STREAM_H_
