// BatchFetcher is the transport's side of a loader: it decides which steps are
// requested from which server, and retried on which other one when a server
// fails; it assembles frames straight into slots and delivers batches that are
// whole to the ReadyQueue.
//
// It only joins its parts: CallTable (outstanding requests), ServerSet (choice
// of a server), RequestBudget (size of requests), LateSteps and HedgePolicy
// (second requests), ActionFor() (what a failure means), BatchAssembly (frames)
// and WindowControl (the window).
//
// Two calls may be in flight for one step: the step is late, or the first
// server is silent. Each fills a slot of its own, the second one a spare slot,
// so a batch is what one server sent, whole, and a damaged answer spoils no
// other. The first batch that is whole is delivered. The other slot is free
// again at once, because only the transport's thread writes into slots. A call
// that has nothing left to bring is cancelled; a call that owes other steps
// goes on, and what it sends of this step is not copied.
//
// Threads: owns none. The transport's events carry the bookkeeping and the
// copies, one at a time. What stands under "any thread" may be called from any.
//
// Errors of servers that no retry helps against go to ReadyQueue::Fail(); after
// it the fetcher is idle until a Seek().
//
//   BatchFetcher fetcher(options, plan, sequence, slots, {pool, queue,
//                        transport, now}, opened_at);
//   transport->Start(&fetcher);

#ifndef MILLRACE_CLIENT_PREFETCH_BATCH_FETCHER_H_
#define MILLRACE_CLIENT_PREFETCH_BATCH_FETCHER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/prefetch/call_failure.h"
#include "client/prefetch/call_table.h"
#include "client/prefetch/hedge_policy.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/late_steps.h"
#include "client/prefetch/ready_queue.h"
#include "client/prefetch/request_budget.h"
#include "client/prefetch/sequence.h"
#include "client/prefetch/server_set.h"
#include "client/prefetch/slot_pool.h"
#include "client/prefetch/transport.h"
#include "client/prefetch/window_control.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "proto/wire/batch_view.h"
#include "proto/wire/frame_view.h"

namespace millrace {

class BatchFetcher final : public TransportEvents {
 public:
  // Not owned; all outlive the fetcher. `pool` has SpareSlots(slots) slots more
  // than the queue has.
  struct Parts {
    SlotPool* pool = nullptr;
    ReadyQueue* queue = nullptr;
    BatchTransport* transport = nullptr;
    std::function<absl::Time()> now;
  };

  // `options` and `plan` outlive the fetcher; `slots` are the queue's.
  // `opened_at` varies the choice of servers from client to client.
  BatchFetcher(const HostLoaderOptions& options, const OpenResponse& plan,
               const Sequence& sequence, uint32_t slots, const Parts& parts,
               absl::Time opened_at);

  // --- any thread ----------------------------------------------------------

  // Max batches requested and not yet consumed.
  uint32_t window() const { return window_.load(); }
  // There is room for another call: the transport should be woken.
  bool RoomForCall() const { return Budget().RoomForCall(); }
  // Fills in retried_steps, hedged_steps, hedge_wins, extra_bytes, wire_bytes
  // and window.
  void AddStats(HostLoader::Stats* stats) const;

  // --- the transport's thread ----------------------------------------------

  void OnServers(absl::Span<const ServerState> servers) override;
  void OnFrame(CallId id, FrameView& frame) override;
  void OnCallDone(CallId id, absl::Status status) override;
  void OnTick() override;

 private:
  using Call = CallTable::Call;
  using Run = CallTable::Run;

  RequestBudget Budget() const;

  // Everything below: the transport's thread.

  // Starts anew where Seek() has said. First thing in every event.
  void ApplySeek();
  // Requests the steps that wait, then new ones.
  void Pump();
  void StartCall(ServerId server, Run run, bool hedge);
  // Retries what silent servers and calls owe, and hedges steps that are late
  // and needed soon.
  void RequestLateSteps();
  void StartRequest(const LateSteps::Request& request, absl::Time now);
  // Later calls to the server go over a new connection.
  void Reconnect(ServerId server, absl::Time now);
  // Lets the window follow what was measured.
  void Tune();
  void DescribeServers();

  absl::Status Receive(Call& call, FrameView& frame);
  // A slot for the batch of `call`, which other calls may be filling a slot
  // with, too.
  absl::StatusOr<uint8_t*> TakeSlot(const Call& call);
  absl::Status FinishBatch(Call& call);
  // `winner` has brought a batch that other calls owe, too: their slots go
  // back, and calls that owe nothing else are cancelled.
  void EndLosers(const Call& winner);

  // What has arrived of the call's batch is lost; its slot goes back.
  void Drop(Call& call);
  // Ends the bookkeeping of a call that is over; nothing of it is in a slot.
  Call Forget(CallId id);
  // Cancels the call; its steps are lost.
  void GiveUp(CallId id);
  // The steps that the call owes wait to be requested again, where no other
  // call owes them.
  void LoseSteps(const Call& call) { retried_steps_ += calls_.Lose(call); }
  void CancelAll();

  // What to do about the failure of `call`, whose steps are not lost yet.
  FailureAction Judge(const Call& call, const absl::Status& status);
  // The step that damage of `call` counts for. Where no batch has begun it is
  // not known, and the first step that is owed stands for it. None: `call` owes
  // nothing.
  std::optional<uint64_t> DamagedStep(const Call& call) const;
  // Counts damage of `call`. Returns how many requests for its step and answers
  // to it have been damaged: the first one is retried. 0: `call` owes nothing.
  uint32_t CountDamage(const Call& call);
  // The error that ends everything, of a call that failed with `status`.
  absl::Status ErrorOf(const Call& call, const absl::Status& status,
                       absl::string_view stage) const;
  // Remembers at the server what has happened; not for kFinal.
  void NoteFailure(FailureAction action, const Call& call,
                   const absl::Status& status, absl::Time now);
  // Ends everything: Next() hands out what is whole and then returns `error`.
  void Fail(absl::Status error);

  const HostLoaderOptions& options_;
  const uint32_t slots_;
  const uint32_t spares_;
  BatchExpectation expect_;  // but for the position
  SlotPool* const pool_;
  ReadyQueue* const queue_;
  BatchTransport* const transport_;
  const std::function<absl::Time()> now_;

  // Written by the transport's thread only, and atomic so that any thread may
  // read them. end_ and total_ follow calls_: after a Seek() they are those of
  // the old place until the transport's thread has seen it.
  std::atomic<uint64_t> end_{0};  // the first batch never requested
  std::atomic<uint64_t> total_;   // batches of the sequence
  std::atomic<uint32_t> window_;  // at most slots_
  std::atomic<uint64_t> retried_steps_{0};
  std::atomic<uint64_t> hedged_steps_{0};
  std::atomic<uint64_t> hedge_wins_{0};
  std::atomic<uint64_t> extra_bytes_{0};
  std::atomic<uint64_t> wire_bytes_{0};

  // Touched by the transport's thread only. Events come one at a time with a
  // happens-before edge between them (BatchTransport), so none of this needs a
  // lock.
  CallTable calls_;
  ServerSet servers_;
  HedgePolicy hedge_;
  LateSteps late_;
  WindowControl control_;
  // Steps were lost within an event: it ends with Pump().
  bool pump_ = false;
  // An error went to the queue. Until a Seek() there is no call, and none is
  // started.
  bool failed_ = false;
  double copy_seconds_ = 0;  // copying frames into slots
  absl::Time next_trouble_log_ = absl::InfinitePast();
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_BATCH_FETCHER_H_
