#include "server/rpc/batch_stream.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "common/logging.h"
#include "common/mutex.h"
#include "proto/error_detail.h"
#include "proto/grpc_status.h"
#include "server/rpc/batch_frames.h"
#include "server/rpc/pack_batch.h"
#include "server/rpc/stream_registry.h"

namespace millrace {
namespace {

// Upper bound for one Engine::Start, so that its cost stays small.
constexpr uint64_t kMaxStepsPerRun = 1024;
// One batch is written while the next one is built.
constexpr uint64_t kMinWindowSteps = 2;

// gRPC's status for a call cannot be set from outside of its reactions while a
// write is blocked; this ends it with the code that makes a client ask again.
BatchStream::Deferred CancelCall(grpc::CallbackServerContext* context,
                                 const absl::Status& status) {
  grpc_call* call = context->c_call();
  grpc_call_ref(call);
  return [call, code = static_cast<grpc_status_code>(status.code()),
          message = std::string(status.message())] {
    grpc_call_cancel_with_status(call, code, message.c_str(), nullptr);
    grpc_call_unref(call);
  };
}

}  // namespace

// A batch that waits to be written.
struct BatchStream::Outgoing {
  FilledBatch batch;
  BatchPacking packing;
};

// What is decided under the lock and done after it: gRPC and the engine may
// call back at once.
struct BatchStream::Action {
  bool write = false;
  grpc::WriteOptions options;
  bool finish = false;
  absl::Status status;
  // Destroyed outside the lock: runs cancel, batches give memory back.
  std::list<std::unique_ptr<Engine::Run>> runs;
  std::deque<Outgoing> batches;
  std::optional<BatchFrames> frames;
  grpc::ByteBuffer frame;
};

struct BatchStream::State {
  struct RunSlot {
    std::unique_ptr<Engine::Run> run;
    bool done = false;
  };

  State(const StreamEnvironment& environment,
        grpc::CallbackServerContext* context,
        std::shared_ptr<const Pipeline> pipeline, const StepRange& range,
        uint64_t max_payload_bytes)
      : environment(environment),
        pipeline(std::move(pipeline)),
        range(range),
        end_step(range.first_step + range.step_count),
        max_payload_bytes(max_payload_bytes),
        packs(this->pipeline->description().resolved_spec().compression() ==
              COMPRESSION_ZSTD),
        context(context),
        next_step(range.first_step) {}

  // Steps that may be asked for and unwritten: an equal part of what the budget
  // has for batches for every stream and for one that may still come.
  uint64_t WindowSteps() const {
    const uint64_t share = environment.engine->batch_budget_bytes() /
                           (environment.counters->active_streams.load() + 1);
    return std::max(kMinWindowSteps,
                    share / std::max<uint64_t>(1, max_payload_bytes));
  }

  // Prepares the next frame, or finds that the call is over.
  void Proceed(Action* action) MR_REQUIRES(mu) {
    if (writing || finished) return;
    if (!abandoned) {
      if (!current.has_value() && !ready.empty()) {
        Outgoing& next = ready.front();
        current.emplace(std::move(next.batch), environment.live_payloads,
                        std::move(next.packing));
        ready.pop_front();
      }
      if (current.has_value()) {
        frame = current->Next();
        writing = true;
        write_started = std::chrono::steady_clock::now();
        // More is ready: gRPC may wait for it and fill its packets.
        if (!current->done() || !ready.empty()) {
          action->options.set_buffer_hint();
        }
        action->write = true;
        return;
      }
      const bool more = next_step < end_step && status.ok();
      if (more || runs_under_way > 0) return;
    }
    finished = true;
    action->finish = true;
    action->status = status;
  }

  // Ends the call early.
  void Abandon(absl::Status why, Action* action) MR_REQUIRES(mu) {
    if (abandoned || finished) return;
    abandoned = true;
    status = std::move(why);
    for (RunSlot& slot : runs) {
      if (slot.run != nullptr) action->runs.push_back(std::move(slot.run));
    }
    action->batches.swap(ready);
    action->frames.swap(current);
  }

  // How long a write has been under way, from `since` on; without one nothing
  // is ever blocked for any time.
  absl::Duration BlockedFor(SteadyTime since) const MR_REQUIRES(mu) {
    if (!writing || abandoned) return -absl::InfiniteDuration();
    return absl::FromChrono(std::chrono::steady_clock::now() -
                            std::max(write_started, since));
  }

  const StreamEnvironment environment;
  const std::shared_ptr<const Pipeline> pipeline;
  const StepRange range;
  const uint64_t end_step;
  const uint64_t max_payload_bytes;
  const bool packs;

  Mutex mu;
  // Null after OnDone.
  BatchStream* stream MR_GUARDED_BY(mu) = nullptr;
  grpc::CallbackServerContext* context MR_GUARDED_BY(mu);
  std::deque<Outgoing> ready MR_GUARDED_BY(mu);
  std::optional<BatchFrames> current MR_GUARDED_BY(mu);
  grpc::ByteBuffer frame;  // gRPC's while `writing`, else guarded by mu
  bool writing MR_GUARDED_BY(mu) = false;
  SteadyTime write_started MR_GUARDED_BY(mu);
  bool abandoned MR_GUARDED_BY(mu) = false;  // nothing more is written
  bool finished MR_GUARDED_BY(mu) = false;   // Finish is called or about to be
  bool asking MR_GUARDED_BY(mu) = false;     // a thread is in AskMore
  absl::Status status MR_GUARDED_BY(mu);     // of the call: the first error
  std::list<RunSlot> runs MR_GUARDED_BY(mu);
  uint64_t runs_under_way MR_GUARDED_BY(mu) = 0;
  uint64_t next_step MR_GUARDED_BY(mu);      // to ask the engine for
  uint64_t unwritten MR_GUARDED_BY(mu) = 0;  // steps asked for, not written
};

BatchStream::BatchStream(const StreamEnvironment& environment,
                         grpc::CallbackServerContext* context,
                         std::shared_ptr<const Pipeline> pipeline,
                         const StepRange& range, uint64_t max_payload_bytes)
    : environment_(environment),
      peer_(context->peer()),
      state_(std::make_shared<State>(environment, context, std::move(pipeline),
                                     range, max_payload_bytes)) {
  {
    MutexLock lock(state_->mu);
    state_->stream = this;
  }
  environment_.counters->active_streams.fetch_add(1);
  environment_.registry->Add(this);
}

BatchStream::~BatchStream() = default;

void BatchStream::Start() { AskMore(); }

void BatchStream::AskMore() {
  State& state = *state_;
  while (true) {
    StepRange part = state.range;
    State::RunSlot* slot = nullptr;
    std::list<State::RunSlot> over;  // destroyed outside the lock
    {
      MutexLock lock(state.mu);
      for (auto it = state.runs.begin(); it != state.runs.end();) {
        const auto at = it++;
        if (at->done && at->run != nullptr) {
          over.splice(over.end(), state.runs, at);
        }
      }
      if (state.asking || state.abandoned || state.finished ||
          !state.status.ok() || state.next_step == state.end_step) {
        return;
      }
      const uint64_t window = state.WindowSteps();
      if (state.unwritten > window / 2) return;
      part.first_step = state.next_step;
      part.step_count = std::min({state.end_step - state.next_step,
                                  window - state.unwritten, kMaxStepsPerRun});
      state.next_step += part.step_count;
      state.unwritten += part.step_count;
      ++state.runs_under_way;
      state.asking = true;
      slot = &state.runs.emplace_back();
    }
    Engine::Callbacks callbacks;
    callbacks.on_batch = [state = state_](FilledBatch batch) {
      Outgoing outgoing;
      outgoing.batch = std::move(batch);
      // Here, on a worker, where several batches are packed at a time.
      if (state->packs) outgoing.packing = PackBatch(outgoing.batch);
      Action action;
      BatchStream* stream = nullptr;
      {
        MutexLock lock(state->mu);
        stream = state->stream;
        if (stream == nullptr || state->abandoned) {
          action.batches.push_back(std::move(outgoing));  // dropped
        } else {
          state->ready.push_back(std::move(outgoing));
          state->Proceed(&action);
        }
      }
      Perform(stream, std::move(action));
    };
    callbacks.on_done = [state = state_, slot](absl::Status status) {
      Action action;
      BatchStream* stream = nullptr;
      {
        MutexLock lock(state->mu);
        stream = state->stream;
        if (stream == nullptr) return;  // the slot is gone, too
        slot->done = true;
        --state->runs_under_way;
        if (!status.ok() && state->status.ok()) {
          state->status = std::move(status);
        }
        state->Proceed(&action);
      }
      Perform(stream, std::move(action));
    };
    absl::StatusOr<std::unique_ptr<Engine::Run>> run =
        environment_.engine->Start(state.pipeline, part, std::move(callbacks));
    Action action;
    {
      MutexLock lock(state.mu);
      state.asking = false;
      if (!run.ok()) {
        --state.runs_under_way;
        if (state.status.ok()) state.status = run.status();
        state.Proceed(&action);
      } else if (state.abandoned) {
        action.runs.push_back(*std::move(run));
      } else {
        slot->run = *std::move(run);
      }
    }
    Perform(this, std::move(action));
  }
}

void BatchStream::OnWriteDone(bool ok) {
  State& state = *state_;
  Action action;
  {
    MutexLock lock(state.mu);
    state.writing = false;
    action.frame.Swap(&state.frame);
    if (!ok) {
      state.Abandon(absl::CancelledError("the client is gone"), &action);
    } else if (state.current.has_value() && state.current->done()) {
      const BatchHeader& header = state.current->header();
      RpcCounters& counters = *environment_.counters;
      counters.batches_sent.fetch_add(1, std::memory_order_relaxed);
      counters.samples_sent.fetch_add(header.local_valid(),
                                      std::memory_order_relaxed);
      counters.bytes_sent.fetch_add(header.payload_bytes(),
                                    std::memory_order_relaxed);
      action.frames.swap(state.current);
      --state.unwritten;
    }
    state.Proceed(&action);
  }
  const bool over = action.finish;
  Perform(this, std::move(action));
  // gRPC keeps the stream until this reaction returns.
  if (!over) AskMore();
}

void BatchStream::OnCancel() {
  Action action;
  {
    MutexLock lock(state_->mu);
    state_->Abandon(absl::CancelledError("the client is gone"), &action);
    state_->Proceed(&action);
  }
  Perform(this, std::move(action));
}

BatchStream::Deferred BatchStream::Stop(absl::Status status) {
  return StopIfBlockedFor(-absl::InfiniteDuration(), SteadyTime::min(),
                          std::move(status));
}

BatchStream::Deferred BatchStream::StopIfBlockedFor(absl::Duration timeout,
                                                    SteadyTime since,
                                                    absl::Status status) {
  auto action = std::make_shared<Action>();
  Deferred cancel;
  {
    // Looked at and stopped under one lock: a write that ends in between is
    // none that is blocked.
    MutexLock lock(state_->mu);
    if (state_->stream == nullptr || state_->finished ||
        state_->BlockedFor(since) < timeout) {
      return nullptr;
    }
    if (state_->writing) cancel = CancelCall(state_->context, status);
    state_->Abandon(std::move(status), action.get());
    state_->Proceed(action.get());
  }
  return [this, action, cancel = std::move(cancel)] {
    if (cancel != nullptr) cancel();
    // Without a write or an end to perform `this` may be gone and is not used.
    Perform(this, std::move(*action));
  };
}

bool BatchStream::IsBlockedFor(absl::Duration timeout) const {
  MutexLock lock(state_->mu);
  return state_->BlockedFor(SteadyTime::min()) >= timeout;
}

void BatchStream::OnDone() {
  // First: the registry must not find a stream that goes.
  environment_.registry->Remove(this);
  Action action;
  {
    MutexLock lock(state_->mu);
    state_->Abandon(absl::CancelledError("the call is over"), &action);
    for (State::RunSlot& slot : state_->runs) {
      if (slot.run != nullptr) action.runs.push_back(std::move(slot.run));
    }
    state_->runs.clear();
    state_->stream = nullptr;
    state_->context = nullptr;
  }
  Perform(nullptr, std::move(action));
  environment_.counters->active_streams.fetch_sub(1);
  delete this;
}

void BatchStream::Perform(BatchStream* stream, Action action) {
  action.runs.clear();
  action.batches.clear();
  action.frames.reset();
  action.frame.Clear();
  if (action.write) {
    stream->StartWrite(&stream->state_->frame, action.options);
  } else if (action.finish) {
    if (!action.status.ok() && !absl::IsCancelled(action.status)) {
      MR_LOG_EVERY(WARNING, absl::Seconds(1))
          << "GetBatches of " << stream->peer_
          << " ends: " << FormatError(action.status);
    }
    stream->Finish(ToGrpcStatus(action.status));
  }
}

}  // namespace millrace
