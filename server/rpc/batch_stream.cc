#include "server/rpc/batch_stream.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/logging.h"
#include "common/mutex.h"
#include "proto/error_detail.h"
#include "proto/grpc_status.h"
#include "server/rpc/batch_frames.h"
#include "server/rpc/client_shares.h"
#include "server/rpc/frame_size.h"
#include "server/rpc/pack_batch.h"
#include "server/rpc/stream_registry.h"

namespace millrace {
namespace {

// Upper bound for one Engine::Start, so that its cost stays small.
constexpr uint64_t kMaxStepsPerRun = 1024;

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
  SteadyTime made;
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
  // Gives its room in the client's share to others.
  std::unique_ptr<ClientShares::Member> share;
  std::vector<std::function<void()>> wake;  // calls that have room now
};

struct BatchStream::State {
  struct RunSlot {
    std::unique_ptr<Engine::Run> run;
    bool done = false;
  };

  State(const StreamEnvironment& environment,
        grpc::CallbackServerContext* context)
      : environment(environment), context(context) {}

  // Before anything is asked for.
  void Set(Steps steps, std::unique_ptr<ClientShares::Member> its_share)
      MR_REQUIRES(mu) {
    pipeline = std::move(steps.pipeline);
    range = std::move(steps.range);
    end_step = range.first_step + range.step_count;
    next_step = range.first_step;
    packs = pipeline->description().resolved_spec().compression() ==
            COMPRESSION_ZSTD;
    share = std::move(its_share);
  }

  bool HasMoreSteps() const MR_REQUIRES(mu) {
    return next_step < end_step || !again.empty();
  }

  // No batch is made, waits to be sent or is being sent.
  bool HasNothing() const MR_REQUIRES(mu) {
    return runs_under_way == 0 && ready.empty() && !current.has_value();
  }

  // The next steps that follow each other: first those that were taken back.
  StepRange NextSteps() const MR_REQUIRES(mu) {
    StepRange part = range;
    if (again.empty()) {
      part.first_step = next_step;
      part.step_count = std::min(end_step - next_step, kMaxStepsPerRun);
      return part;
    }
    part.first_step = *again.begin();
    part.step_count = 0;
    for (const uint64_t step : again) {
      if (step != part.first_step + part.step_count) break;
      ++part.step_count;
    }
    return part;
  }

  void Asked(const StepRange& part) MR_REQUIRES(mu) {
    if (again.empty()) {
      next_step += part.step_count;
    } else {
      again.erase(again.begin(), std::next(again.begin(), part.step_count));
    }
  }

  // Prepares the next frame, or finds that the call is over.
  void Proceed(Action* action) MR_REQUIRES(mu) {
    if (writing || finished) return;
    if (!abandoned) {
      if (!current.has_value() && !ready.empty()) {
        Outgoing& next = ready.front();
        current.emplace(std::move(next.batch), environment.live_payloads,
                        std::move(next.packing));
        current_made = next.made;
        ready.pop_front();
      }
      if (current.has_value()) {
        frame = current->Next(frame_size.bytes());
        writing = true;
        write_started = std::chrono::steady_clock::now();
        // More is ready: gRPC may wait for it and fill its packets.
        if (!current->done() || !ready.empty()) {
          action->options.set_buffer_hint();
        }
        action->write = true;
        return;
      }
      const bool more = HasMoreSteps() && status.ok();
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
  // Constant once they are set.
  std::shared_ptr<const Pipeline> pipeline;
  StepRange range;
  uint64_t end_step = 0;
  bool packs = false;

  Mutex mu;
  // Null after OnDone.
  BatchStream* stream MR_GUARDED_BY(mu) = nullptr;
  grpc::CallbackServerContext* context MR_GUARDED_BY(mu);
  std::deque<Outgoing> ready MR_GUARDED_BY(mu);
  std::optional<BatchFrames> current MR_GUARDED_BY(mu);
  SteadyTime current_made MR_GUARDED_BY(mu);
  grpc::ByteBuffer frame;  // gRPC's while `writing`, else guarded by mu
  bool writing MR_GUARDED_BY(mu) = false;
  SteadyTime write_started MR_GUARDED_BY(mu);
  FrameSize frame_size MR_GUARDED_BY(mu);
  bool abandoned MR_GUARDED_BY(mu) = false;  // nothing more is written
  bool finished MR_GUARDED_BY(mu) = false;   // Finish is called or about to be
  bool asking MR_GUARDED_BY(mu) = false;     // a thread is in AskMore
  absl::Status status MR_GUARDED_BY(mu);     // of the call: the first error
  std::list<RunSlot> runs MR_GUARDED_BY(mu);
  uint64_t runs_under_way MR_GUARDED_BY(mu) = 0;
  uint64_t next_step MR_GUARDED_BY(mu) = 0;    // to ask the engine for
  std::set<uint64_t> again MR_GUARDED_BY(mu);  // steps that were taken back
  // Since when a call that has nothing waits for its client's share; the
  // clock's maximum: it does not.
  SteadyTime waits_since MR_GUARDED_BY(mu) = SteadyTime::max();
  // Has the steps that were asked for and are not written. Null before the
  // pipeline is found and after OnDone.
  std::unique_ptr<ClientShares::Member> share MR_GUARDED_BY(mu);
};

BatchStream::BatchStream(const StreamEnvironment& environment,
                         grpc::CallbackServerContext* context, Caller caller)
    : environment_(environment),
      peer_(context->peer()),
      caller_(std::move(caller)),
      state_(std::make_shared<State>(environment, context)) {
  {
    MutexLock lock(state_->mu);
    state_->stream = this;
  }
  environment_.counters->active_streams.fetch_add(1);
  environment_.registry->Add(this);
}

BatchStream::~BatchStream() = default;

std::function<void(absl::StatusOr<BatchStream::Steps>)> BatchStream::Begin() {
  return [state = state_, caller = caller_](absl::StatusOr<Steps> steps) {
    // Outside the lock: a share that comes or goes may wake other calls.
    std::unique_ptr<ClientShares::Member> share;
    if (steps.ok()) {
      share = state->environment.shares->Join(
          {.host = caller.peer,
           .connection = caller.connection,
           .client = caller.client,
           .step_bytes = steps->batch_bytes,
           .on_room = [weak = std::weak_ptr<State>(state)] {
             if (const auto state = weak.lock()) AskMore(state);
           }});
    }
    Action action;
    BatchStream* stream = nullptr;
    {
      MutexLock lock(state->mu);
      if (state->stream == nullptr || state->abandoned || state->finished) {
        action.share = std::move(share);
      } else if (steps.ok()) {
        stream = state->stream;
        state->Set(*std::move(steps), std::move(share));
      } else {
        stream = state->stream;
        state->Abandon(steps.status(), &action);
        state->Proceed(&action);
      }
    }
    if (stream == nullptr) return;
    if (action.finish) {
      // Refused, and told so already.
      stream->Finish(ToGrpcStatus(action.status));
    } else {
      AskMore(state);
    }
  };
}

std::function<bool()> BatchStream::IsWanted() {
  return [state = state_] {
    MutexLock lock(state->mu);
    return !state->abandoned && !state->finished;
  };
}

void BatchStream::AskMore(const std::shared_ptr<State>& shared) {
  State& state = *shared;
  while (true) {
    StepRange part;
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
      // A thread that asks looks again afterwards.
      if (state.stream == nullptr || state.asking || state.abandoned ||
          state.finished || !state.status.ok() || !state.HasMoreSteps()) {
        return;
      }
      part = state.NextSteps();
      part.step_count = state.share->Take(part.step_count);
      const SteadyTime now = std::chrono::steady_clock::now();
      if (part.step_count == 0) {
        if (state.HasNothing()) {
          state.waits_since = std::min(state.waits_since, now);
        }
        return;
      }
      if (state.waits_since != SteadyTime::max()) {
        part.waited = now - state.waits_since;
        state.waits_since = SteadyTime::max();
      }
      state.Asked(part);
      ++state.runs_under_way;
      state.asking = true;
      slot = &state.runs.emplace_back();
    }
    Engine::Callbacks callbacks;
    callbacks.on_batch = [state = shared](FilledBatch batch) {
      Outgoing outgoing;
      outgoing.batch = std::move(batch);
      outgoing.made = std::chrono::steady_clock::now();
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
    callbacks.on_done = [state = shared, slot](absl::Status status) {
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
        state.environment.engine->Start(state.pipeline, part,
                                        std::move(callbacks));
    Action action;
    BatchStream* stream = nullptr;
    {
      MutexLock lock(state.mu);
      state.asking = false;
      stream = state.stream;
      if (!run.ok()) {
        --state.runs_under_way;
        if (state.status.ok()) state.status = run.status();
        state.Proceed(&action);
      } else if (stream == nullptr || state.abandoned) {
        action.runs.push_back(*std::move(run));  // the slot may be gone, too
      } else {
        slot->run = *std::move(run);
      }
    }
    Perform(stream, std::move(action));
  }
}

void BatchStream::OnWriteDone(bool ok) {
  State& state = *state_;
  Action action;
  {
    MutexLock lock(state.mu);
    state.writing = false;
    state.frame_size.Note(std::chrono::steady_clock::now() -
                          state.write_started);
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
      action.wake = state.share->Return(1);
    }
    state.Proceed(&action);
  }
  const bool over = action.finish;
  Perform(this, std::move(action));
  // gRPC keeps the stream until this reaction returns.
  if (!over) AskMore(state_);
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

SteadyTime BatchStream::WaitsSince(SteadyTime since) const {
  MutexLock lock(state_->mu);
  if (state_->current.has_value()) {
    return std::max(since, state_->current_made);
  }
  if (!state_->ready.empty()) {
    return std::max(since, state_->ready.front().made);
  }
  return SteadyTime::max();
}

BatchStream::Deferred BatchStream::TakeBack(uint64_t max,
                                            const absl::Status& end,
                                            uint64_t* taken) {
  auto action = std::make_shared<Action>();
  Deferred cancel;
  {
    State& state = *state_;
    MutexLock lock(state.mu);
    if (state.stream == nullptr || state.abandoned || state.finished) {
      return nullptr;
    }
    // Without a share nothing was asked for yet.
    max = state.share == nullptr ? 0 : std::min(max, state.share->Excess());
    uint64_t count = 0;
    for (; count < max && !state.ready.empty(); ++count) {
      state.again.insert(state.ready.back().batch.header.step());
      action->batches.push_back(std::move(state.ready.back()));
      state.ready.pop_back();
    }
    if (count > 0) {
      action->wake = state.share->Return(count);
    } else if (max > 0 && !end.ok() && state.writing) {
      // gRPC gives back what it was given at the end of the call only.
      cancel = CancelCall(state.context, end);
      state.Abandon(end, action.get());
      state.Proceed(action.get());
      // Now, so that no other call ends for the same memory.
      action->wake = state.share->ReturnAll();
      count = 1;
    }
    if (count == 0) return nullptr;
    *taken += count;
  }
  return [this, state = state_, action, cancel = std::move(cancel)] {
    if (cancel != nullptr) cancel();
    // As in StopIfBlockedFor().
    Perform(this, std::move(*action));
    AskMore(state);
  };
}

void BatchStream::OnDone() {
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
    action.share = std::move(state_->share);
  }
  // Other calls may ask the engine now, which outlives the registry's streams.
  Perform(nullptr, std::move(action));
  environment_.registry->Remove(this);
  environment_.counters->active_streams.fetch_sub(1);
  delete this;
}

void BatchStream::Perform(BatchStream* stream, Action action) {
  action.runs.clear();
  action.batches.clear();
  action.frames.reset();
  action.frame.Clear();
  action.share.reset();
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
  // The stream may be gone.
  for (const auto& wake : action.wake) wake();
}

}  // namespace millrace
