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
#include "server/rpc/compress_batch.h"
#include "server/rpc/frame_size.h"
#include "server/rpc/stream_registry.h"

namespace millrace::rpc {
namespace {

// Upper bound of the steps of one Engine::Start(). The shares limit the steps
// further; this bound keeps the arithmetic of one call small. A choice.
constexpr uint64_t kMaxStepsPerRun = 1024;

// Returns a function that ends the call with `status`; it must be called
// without locks. While a write is blocked, gRPC accepts no Finish(), so a
// cancel is the only way to end the call with a code that a client retries. The
// reference keeps the call valid after the stream is gone. On a call that is
// over the function does nothing.
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

// A batch that waits to be written. `made`: when the engine delivered it.
struct BatchStream::Outgoing {
  batch::FilledBatch batch;
  BatchCompression compression;
  SteadyTime made;
};

// Decisions made under State::mu that Perform() carries out without it. They
// are not carried out under the lock because gRPC, the engine, the shares and
// the budget may call back at once, on this thread, into this or another
// stream.
//
// `write` and `finish` exclude each other. Each is decided only while neither
// is pending (`writing`, `finished`). gRPC calls OnDone only after both are
// over, so the stream lives until the Action is performed.
struct BatchStream::Action {
  bool write = false;
  grpc::WriteOptions options;
  bool finish = false;
  absl::Status status;
  // Destroyed without the lock. Runs are cancelled. Batches and frames return
  // memory to the budget, which may grant it to other requests at once.
  std::list<std::unique_ptr<pipeline::Engine::Run>> runs;
  std::deque<Outgoing> batches;
  std::optional<BatchFrames> frames;
  grpc::ByteBuffer frame;
  // Destroyed without the lock: the room in the client's share goes to other
  // calls.
  std::unique_ptr<ClientShares::Member> share;
  // on_room of the calls that have room now. Called last, because they request
  // steps.
  std::vector<std::function<void()>> wake;
};

// State that the stream shares with callbacks of the engine, of the shares and
// of OpenAsync(). The callbacks may come after the end of the stream, so they
// hold the state. The state points to the stream while the stream lives
// (`stream`).
//
// States of a call: waiting for its pipeline (`share` null) -> streaming ->
// `abandoned` (nothing more is written; a write in flight ends) or complete ->
// `finished` (Finish() is called) -> over (`stream` null). `abandoned` and
// `finished` are never cleared.
//
// Locks: mu may be taken under the registry's lock. Under mu, only locks are
// taken under which no callback runs: the locks of ClientShares, of
// LivePayloads and of the client's shared-memory link.
struct BatchStream::State {
  // A run of the engine for a part of the steps. `run` is null before
  // Engine::Start() returns and after Abandon(). `done`: on_done was called.
  // on_done holds a pointer to the slot, which is valid until then: AskMore()
  // removes only slots with both `run` and `done`, and OnDone(), which removes
  // all slots, clears `stream` first.
  struct RunSlot {
    std::unique_ptr<pipeline::Engine::Run> run;
    bool done = false;
  };

  State(const StreamEnvironment& environment,
        grpc::CallbackServerContext* context)
      : environment(environment), context(context) {}

  // Called once, before the first step is requested from the engine.
  void Set(Steps steps, std::unique_ptr<ClientShares::Member> its_share)
      MR_REQUIRES(mu) {
    pipeline = std::move(steps.pipeline);
    range = std::move(steps.range);
    end_step = range.first_step + range.step_count;
    next_step = range.first_step;
    compresses = pipeline->description().resolved_spec().compression() ==
                 COMPRESSION_ZSTD;
    share = std::move(its_share);
  }

  bool HasMoreSteps() const MR_REQUIRES(mu) {
    return next_step < end_step || !again.empty();
  }

  // No batch is in production, waits to be sent or is being sent.
  bool HasNothing() const MR_REQUIRES(mu) {
    return runs_in_flight == 0 && ready.empty() && !current.has_value();
  }

  // The next consecutive steps to request. Steps that were taken back come
  // first, because the client may be waiting for them.
  pipeline::StepRange NextSteps() const MR_REQUIRES(mu) {
    pipeline::StepRange part = range;
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

  // Records that `part`, the beginning of NextSteps(), is requested.
  void Asked(const pipeline::StepRange& part) MR_REQUIRES(mu) {
    if (again.empty()) {
      next_step += part.step_count;
    } else {
      again.erase(again.begin(), std::next(again.begin(), part.step_count));
    }
  }

  // Decides what happens next: the next frame or the end of the call. Must be
  // called after every change that may lead to one of them. Does nothing while
  // a write is in flight; the end of that write calls it again.
  void Proceed(Action* action) MR_REQUIRES(mu) {
    if (writing || finished) return;
    if (!abandoned) {
      if (!current.has_value() && !ready.empty()) {
        Outgoing& next = ready.front();
        current.emplace(std::move(next.batch), environment.live_payloads,
                        std::move(next.compression));
        current_made = next.made;
        ready.pop_front();
      }
      if (current.has_value()) {
        // `frame` belongs to gRPC from here until OnWriteDone().
        frame = current->Next(frame_size.bytes());
        writing = true;
        write_started = std::chrono::steady_clock::now();
        // More data is ready, so gRPC may wait for it and fill its packets.
        // Without more data the hint would delay the frame for nothing.
        if (!current->done() || !ready.empty()) {
          action->options.set_buffer_hint();
        }
        action->write = true;
        return;
      }
      // After an error no step is requested. Batches in production are still
      // delivered.
      const bool more = HasMoreSteps() && status.ok();
      if (more || runs_in_flight > 0) return;
    }
    // An abandoned call ends at once, although runs may still be active. Their
    // callbacks find the flag, or no stream.
    finished = true;
    action->finish = true;
    action->status = status;
  }

  // Ends the call early with `why`: nothing more is written. Dropped objects go
  // into `action`. A write in flight cannot be taken back: the call ends after
  // the write, or the caller of this function cancels the call. The first
  // reason counts.
  void Abandon(absl::Status why, Action* action) MR_REQUIRES(mu) {
    if (abandoned || finished) return;
    abandoned = true;
    status = std::move(why);
    for (RunSlot& slot : runs) {
      // The slots stay, because their on_done may still be called.
      if (slot.run != nullptr) action->runs.push_back(std::move(slot.run));
    }
    action->batches.swap(ready);
    action->frames.swap(current);
  }

  // How long the write has been in flight, counted from `since` on. Without a
  // write: less than any duration, so the call does not count as blocked.
  absl::Duration BlockedFor(SteadyTime since) const MR_REQUIRES(mu) {
    if (!writing || abandoned) return -absl::InfiniteDuration();
    return absl::FromChrono(std::chrono::steady_clock::now() -
                            std::max(write_started, since));
  }

  const StreamEnvironment environment;
  // Set by Set() under mu and constant from then on. A thread that requests
  // steps or gets batches has seen `share` under mu before.
  std::shared_ptr<const pipeline::Pipeline> pipeline;
  pipeline::StepRange range;
  uint64_t end_step = 0;
  bool compresses = false;

  Mutex mu;
  // Null after OnDone, in which gRPC deletes the stream. Used without the lock
  // only by an Action (see there) and by the stream's own reactions.
  BatchStream* stream MR_GUARDED_BY(mu) = nullptr;
  // Null after OnDone, like `stream`.
  grpc::CallbackServerContext* context MR_GUARDED_BY(mu);
  // `ready`: batches in the order of their delivery by the engine; none of
  // their frames was sent. `current`: the batch that is being sent. Both are
  // empty once `abandoned`.
  std::deque<Outgoing> ready MR_GUARDED_BY(mu);
  std::optional<BatchFrames> current MR_GUARDED_BY(mu);
  SteadyTime current_made MR_GUARDED_BY(mu);
  // SetSlow() was called after the last batch that was sent completely.
  bool slow MR_GUARDED_BY(mu) = false;
  // Belongs to gRPC while `writing`, otherwise guarded by mu. Its slices refer
  // to the payload, whose memory is free when gRPC drops the last slice.
  grpc::ByteBuffer frame;
  // A StartWrite() is decided or in flight; cleared by OnWriteDone().
  // `write_started` is the time of that decision.
  bool writing MR_GUARDED_BY(mu) = false;
  SteadyTime write_started MR_GUARDED_BY(mu);
  // Adapts the frame size to the duration of writes.
  FrameSize frame_size MR_GUARDED_BY(mu);
  // The call ends early: nothing more is written.
  bool abandoned MR_GUARDED_BY(mu) = false;
  // Finish() is decided; Perform() calls it.
  bool finished MR_GUARDED_BY(mu) = false;
  // A thread is in AskMore(), between taking steps and the return of
  // Engine::Start(). At most one thread at a time. It checks for more steps
  // afterwards, so another thread that finds the flag returns.
  bool asking MR_GUARDED_BY(mu) = false;
  // The status that the call ends with: the first error.
  absl::Status status MR_GUARDED_BY(mu);
  // A list, because callbacks hold pointers to the slots.
  std::list<RunSlot> runs MR_GUARDED_BY(mu);
  // Number of runs whose on_done was not called.
  uint64_t runs_in_flight MR_GUARDED_BY(mu) = 0;
  // The first step that was never requested from the engine.
  uint64_t next_step MR_GUARDED_BY(mu) = 0;
  // Steps below next_step that were taken back and must be requested again.
  std::set<uint64_t> again MR_GUARDED_BY(mu);
  // Since when a call without any batch waits for its client's share; the
  // clock's maximum when it does not wait. The next part carries the wait as
  // StepRange::waited.
  SteadyTime waits_since MR_GUARDED_BY(mu) = SteadyTime::max();
  // Counts the steps that are requested and not completely written. AskMore()
  // takes them; OnWriteDone() and TakeBack() return them; the destructor of the
  // member returns the rest. Null before the pipeline is built and after
  // OnDone().
  std::unique_ptr<ClientShares::Member> share MR_GUARDED_BY(mu);
};

BatchStream::BatchStream(const StreamEnvironment& environment,
                         grpc::CallbackServerContext* context,
                         pipeline::Caller caller, uint64_t answer_seed)
    : environment_(environment),
      peer_(context->peer()),
      caller_(std::move(caller)),
      answer_seed_(answer_seed),
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
    // Without the lock: a share that is added or removed may wake other calls,
    // whose on_room takes their locks.
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
        // The call has ended in the meantime. The share is destroyed with
        // `action`, after the lock.
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
      // The refusal is the call's answer; it was logged where it was decided.
      // `stream` is alive: `finished` was set here, so no other thread calls
      // Finish(), and OnDone comes after Finish().
      stream->Finish(ToGrpcStatus(action.status, stream->answer_seed_));
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
    pipeline::StepRange part;
    State::RunSlot* slot = nullptr;
    // Runs that are done. Destroyed without the lock, because their destructor
    // cancels.
    std::list<State::RunSlot> over;
    {
      MutexLock lock(state.mu);
      for (auto it = state.runs.begin(); it != state.runs.end();) {
        const auto at = it++;
        if (at->done && at->run != nullptr) {
          over.splice(over.end(), state.runs, at);
        }
      }
      // With `asking`, the other thread checks here again after Engine::Start()
      // and finds the steps that this thread came for.
      if (state.stream == nullptr || state.asking || state.abandoned ||
          state.finished || !state.status.ok() || !state.HasMoreSteps()) {
        return;
      }
      part = state.NextSteps();
      // Not null: a call without a share has no steps yet, and a call whose
      // share was moved out has no stream.
      part.step_count = state.share->Take(part.step_count);
      const SteadyTime now = std::chrono::steady_clock::now();
      if (part.step_count == 0) {
        if (state.HasNothing()) {
          // Only a call without any batch waits for its share. A call with
          // batches waits for its client to read.
          state.waits_since = std::min(state.waits_since, now);
        }
        return;
      }
      if (state.waits_since != SteadyTime::max()) {
        part.waited = now - state.waits_since;
        state.waits_since = SteadyTime::max();
      }
      // Counted before Engine::Start(), because callbacks may come before
      // Start() returns.
      state.Asked(part);
      ++state.runs_in_flight;
      state.asking = true;
      slot = &state.runs.emplace_back();
    }
    pipeline::Engine::Callbacks callbacks;
    callbacks.on_batch = [state = shared](batch::FilledBatch batch) {
      Outgoing outgoing;
      outgoing.batch = std::move(batch);
      outgoing.made = std::chrono::steady_clock::now();
      // Compressed here, on a worker and without the lock, so that several
      // batches are compressed in parallel.
      if (state->compresses) {
        outgoing.compression = CompressBatch(outgoing.batch);
      }
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
        // OnDone() has removed the slots.
        if (stream == nullptr) return;
        // Last use of `slot`: from here on AskMore() may remove it, once `run`
        // is set.
        slot->done = true;
        --state->runs_in_flight;
        if (!status.ok() && state->status.ok()) {
          state->status = std::move(status);
        }
        state->Proceed(&action);
      }
      Perform(stream, std::move(action));
    };
    absl::StatusOr<std::unique_ptr<pipeline::Engine::Run>> run =
        state.environment.engine->Start(state.pipeline, part,
                                        std::move(callbacks));
    Action action;
    BatchStream* stream = nullptr;
    {
      MutexLock lock(state.mu);
      state.asking = false;
      stream = state.stream;
      if (!run.ok()) {
        --state.runs_in_flight;
        if (state.status.ok()) state.status = run.status();
        state.Proceed(&action);
      } else if (stream == nullptr || state.abandoned) {
        // Abandoned while the run was started: it is cancelled after the lock.
        // After OnDone() the slot is gone, too.
        action.runs.push_back(*std::move(run));
      } else {
        // The slot still exists: AskMore() removes no slot without `run`.
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
    // Freed without the lock: dropping the last slice returns the payload's
    // memory.
    action.frame.Swap(&state.frame);
    if (!ok) {
      state.Abandon(absl::CancelledError("the client is gone"), &action);
    } else if (state.current.has_value() && state.current->done()) {
      const BatchHeader& header = state.current->header();
      StatusCounters& counters = *environment_.counters;
      counters.batches_sent.fetch_add(1, std::memory_order_relaxed);
      counters.samples_sent.fetch_add(header.local_valid(),
                                      std::memory_order_relaxed);
      counters.bytes_sent.fetch_add(header.payload_bytes(),
                                    std::memory_order_relaxed);
      action.frames.swap(state.current);
      // Not null: only OnDone() moves the share out, and gRPC calls OnDone()
      // after this reaction.
      if (!state.slow) action.wake = state.share->SetSlow(false);
      state.slow = false;
      for (auto& on_room : state.share->Return(1)) {
        action.wake.push_back(std::move(on_room));
      }
    }
    state.Proceed(&action);
  }
  // Read before Perform(), which may end the call.
  const bool over = action.finish;
  Perform(this, std::move(action));
  // gRPC keeps the stream until this reaction returns. AskMore() needs only the
  // state.
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
    // The check and the stop are under one lock, so a write that ends in
    // between does not count as blocked. The cancel function is made under the
    // lock while `context` is valid, and called after it.
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
    // `this` is alive if the action has an end to perform (see Action);
    // otherwise Perform() does not use it.
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

BatchStream::Deferred BatchStream::SetSlow() {
  std::vector<std::function<void()>> wake;
  {
    MutexLock lock(state_->mu);
    // A call with a waiting batch has a share, unless the call is over.
    if (state_->share == nullptr || state_->abandoned) return nullptr;
    state_->slow = true;
    wake = state_->share->SetSlow(true);
  }
  if (wake.empty()) return nullptr;
  return [wake = std::move(wake)] {
    for (const auto& on_room : wake) on_room();
  };
}

BatchStream::Deferred BatchStream::TakeBack(Excess excess, uint64_t max,
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
    // No step was requested yet.
    if (state.share == nullptr) return nullptr;
    max =
        std::min(max, excess == Excess::kOfClient ? state.share->Excess()
                                                  : state.share->HostExcess());
    uint64_t count = 0;
    for (; count < max && !state.ready.empty(); ++count) {
      // Starting with the batch that would be sent last.
      state.again.insert(state.ready.back().batch.header.step());
      action->batches.push_back(std::move(state.ready.back()));
      state.ready.pop_back();
    }
    if (count > 0) {
      action->wake = state.share->Return(count);
    } else if (max > 0 && !end.ok() && state.writing) {
      // Memory that was given to gRPC comes back only at the end of the call.
      cancel = CancelCall(state.context, end);
      state.Abandon(end, action.get());
      state.Proceed(action.get());
      // Returned now and not in OnDone(), so that no other call is ended for
      // the same memory. After Abandon() nothing is returned twice: `current`
      // is empty, and AskMore() takes no more steps.
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
    // From here on callbacks find neither a stream nor a slot.
    state_->stream = nullptr;
    state_->context = nullptr;
    action.share = std::move(state_->share);
  }
  // Runs are cancelled and the share is returned before the registry removes
  // the stream: the server destroys the engine and the shares, which are used
  // here, once the registry is empty.
  Perform(nullptr, std::move(action));
  environment_.registry->Remove(this);
  environment_.counters->active_streams.fetch_sub(1);
  delete this;
}

void BatchStream::Perform(BatchStream* stream, Action action) {
  // Memory is returned first, so that other calls and the next steps of this
  // call find it.
  action.runs.clear();
  action.batches.clear();
  action.frames.reset();
  action.frame.Clear();
  action.share.reset();
  if (action.write) {
    // `writing` was set under the lock, so only this thread uses `frame`. If
    // the call was cancelled in the meantime, gRPC reports the write as failed.
    stream->StartWrite(&stream->state_->frame, action.options);
  } else if (action.finish) {
    if (!action.status.ok() && !absl::IsCancelled(action.status)) {
      MR_LOG_EVERY(WARNING, absl::Seconds(1))
          << "GetBatches of " << stream->peer_
          << " ends: " << FormatError(action.status);
    }
    stream->Finish(ToGrpcStatus(action.status, stream->answer_seed_));
  }
  // After StartWrite() or Finish(), other reactions may have run and the stream
  // may be gone.
  for (const auto& wake : action.wake) wake();
}

}  // namespace millrace::rpc
