// BatchStream answers one GetBatches call: it requests the steps from the
// engine, a bounded part at a time, and writes the batches as they become
// ready, one frame after the other.
//
// Bounded: the batches that are requested and not yet written stay within the
// client's share of the budget's bytes for batches (client_shares.h), so a slow
// client cannot hold the memory that other clients need. When shares become
// smaller, batches above the share can be taken back; the call requests them
// again later.
//
// A stream lives from the start of the call to gRPC's OnDone, which deletes it.
// Callbacks of the engine may come later: they hold the stream's state, not the
// stream.
//
//   auto* stream = new BatchStream(env, context, caller);
//   engine->OpenAsync(spec, ..., [begin = stream->Begin()](auto pipeline) {
//     begin(...);  // now or later, on any thread; with an error it ends
//   });
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
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "server/pipeline/engine.h"
#include "server/rpc/live_payloads.h"
#include "server/rpc/status_counters.h"

namespace millrace::local {
class LocalServer;
}  // namespace millrace::local

namespace millrace::rpc {

class ClientShares;
class StreamRegistry;

// What all streams of a server share. The pointers outlive every stream.
struct StreamEnvironment {
  pipeline::Engine* engine = nullptr;
  const ByteBudget* budget = nullptr;
  uint64_t max_streams = 0;
  StreamRegistry* registry = nullptr;
  ClientShares* shares = nullptr;
  std::shared_ptr<StatusCounters> counters;
  std::shared_ptr<LivePayloads> live_payloads;
  local::LocalServer* local = nullptr;  // null: no memory is shared
};

class BatchStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // To be called without locks held; may be empty.
  using Deferred = std::function<void()>;

  // What is streamed, known when the pipeline is built.
  struct Steps {
    std::shared_ptr<const pipeline::Pipeline> pipeline;
    pipeline::StepRange range;
    // What one batch of this rank takes of the budget, at most.
    uint64_t batch_bytes = 0;
  };

  // `answer_seed`: of the digest that the end of the call has
  // (ToGrpcStatus()).
  BatchStream(const StreamEnvironment& environment,
              grpc::CallbackServerContext* context, pipeline::Caller caller,
              uint64_t answer_seed);
  ~BatchStream() override;

  // A function to be called once: requests the first steps, or ends the call
  // with the error. The stream may be gone by then.
  std::function<void(absl::StatusOr<Steps>)> Begin();
  // False: the call is over. The stream may be gone.
  std::function<bool()> IsWanted();

  // Drops all batches that are not written; the returned function ends the call
  // with `status`.
  Deferred Stop(absl::Status status);

  // When one write has been in flight for `timeout` of the steady clock, not
  // counting the time before `since`: drops the rest and returns a function
  // that cancels the call with `status`.
  Deferred StopIfBlockedFor(absl::Duration timeout, SteadyTime since,
                            absl::Status status);

  // A write has been in flight for `timeout`.
  bool IsBlockedFor(absl::Duration timeout) const;

  // Since when the oldest batch that was made waits to be sent whole, not
  // counting the time before `since`. The clock's maximum: none waits.
  SteadyTime WaitsSince(SteadyTime since) const;

  // Marks the connection as slow (ClientShares): its oldest batch has waited
  // too long. The mark ends when a batch is sent completely without such a
  // wait. Empty result: the mark gives no other call room.
  Deferred SetSlow();

  // What TakeBack() takes: batches above the client's share, or those of slow
  // connections above their host's share.
  enum class Excess { kOfClient, kOfHost };

  // Takes back up to `max` batches that are built, not sent, and `excess`,
  // starting with the batch that would be sent last. The call requests them
  // again when there is room. If `end` is an error and no other batch is left,
  // the batch in writing is taken back too, and the call ends with `end`. Adds
  // the number of batches to `taken`. Null: no batch was taken back.
  Deferred TakeBack(Excess excess, uint64_t max, const absl::Status& end,
                    uint64_t* taken);

  const std::string& peer() const { return peer_; }

 private:
  struct State;
  struct Action;
  struct Outgoing;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Requests from the engine the next steps that fit. Any thread.
  static void AskMore(const std::shared_ptr<State>& state);
  // Performs what was decided under the lock. Touches the stream only for a
  // write or for the end of the call; the stream lives at least until then.
  static void Perform(BatchStream* stream, Action action);

  const StreamEnvironment environment_;
  const std::string peer_;
  const pipeline::Caller caller_;
  const uint64_t answer_seed_;
  const std::shared_ptr<State> state_;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_BATCH_STREAM_H_
