// BatchFetcher is the transport's side of a loader. It decides which steps are
// requested from which server, and retries them on other servers when a server
// fails. It assembles frames straight into slots, and delivers whole batches to
// the ReadyQueue.
//
// It only joins its parts: CallTable (outstanding requests), ServerSet (choice
// of a server), RequestBudget (size of requests), LateSteps and HedgePolicy
// (hedges and retries), ActionFor() (meaning of a failure), BatchAssembly
// (frames) and WindowControl (the window).
//
// Two calls may be in flight for one step: the step is late, or the first
// server is silent. Each call fills its own slot, the second one a spare slot.
// So all bytes of a batch come from one server, and a damaged answer spoils no
// other answer. The first whole batch is delivered. The slot of the other call
// is free at once, because only the transport's thread writes into slots. A
// call that owes nothing else is cancelled. A call that owes other steps
// continues, and its frames of this step are not copied.
//
// Threads: owns none. The transport's events do the bookkeeping and the copies,
// one event at a time. Methods under "any thread" may be called from any
// thread.
//
// An error that no retry can mend ends the sequence at its step, until a
// Seek(): the steps before it are still requested and delivered, those from it
// on are not, and ReadyQueue::FailAt() gets the error.
//
// A server that cannot read a sample ends the call, and does not say which step
// the sample belongs to. So every step that such a call owes is requested once
// more, in a call of its own and from another server where there is one. The
// error of that call is the step's own, and final.
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
#include "client/prefetch/call_table.h"
#include "client/prefetch/hedge_policy.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/late_steps.h"
#include "client/prefetch/ready_queue.h"
#include "client/prefetch/request_budget.h"
#include "client/prefetch/retry_rule.h"
#include "client/prefetch/sequence.h"
#include "client/prefetch/server_set.h"
#include "client/prefetch/slot_pool.h"
#include "client/prefetch/transport.h"
#include "client/prefetch/window_control.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "proto/wire/batch_view.h"
#include "proto/wire/frame_view.h"

namespace millrace::prefetch {

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
  // Whether there is room for another call, so that the transport should be
  // woken.
  bool RoomForCall() const { return Budget().RoomForCall(); }
  // Fills in retried_steps, hedged_steps, hedge_wins, extra_bytes, wire_bytes
  // and window.
  void AddStats(HostLoader::Stats* stats) const;

  // --- the transport's thread ----------------------------------------------

  void OnServers(absl::Span<const ServerState> servers) override;
  void OnFrame(CallId id, wire::FrameView& frame) override;
  void OnCallDone(CallId id, absl::Status status) override;
  void OnTick() override;

 private:
  using Call = CallTable::Call;
  using Run = CallTable::Run;

  RequestBudget Budget() const;

  // Everything below: the transport's thread.

  // Begins at the position of a pending Seek(). First action of every event.
  void ApplySeek();
  // Requests the steps that wait to be requested again, then new steps.
  void Pump();
  void StartCall(ServerId server, Run run, bool hedge);
  // Retries the steps that silent servers and calls owe, and hedges steps that
  // are late and needed soon.
  void RequestLateSteps();
  void StartRequest(const LateSteps::Request& request, absl::Time now);
  // Later calls to the server go over a new connection.
  void Reconnect(ServerId server, absl::Time now);
  // Adapts the window to measurements.
  void Tune();
  void DescribeServers();

  absl::Status Receive(Call& call, wire::FrameView& frame);
  // A slot for the batch of `call`. Other calls may be filling another slot
  // with the same batch.
  absl::StatusOr<uint8_t*> TakeSlot(const Call& call);
  absl::Status FinishBatch(Call& call);
  // `winner` has a whole batch that other calls owe, too: their slots go back,
  // and calls that owe nothing else are cancelled.
  void EndLosers(const Call& winner);

  // Discards the frames of the call's unfinished batch; its slot goes back.
  void Drop(Call& call);
  // Ends the bookkeeping of a call that is over and fills no slot.
  Call Forget(CallId id);
  // Cancels the call; its steps are lost.
  void GiveUp(CallId id);
  // The steps that the call owes wait to be requested again, where no other
  // call owes them.
  void LoseSteps(const Call& call) { retried_steps_ += calls_.Lose(call); }
  void CancelAll();
  // Cancels the calls that owe nothing: those of steps behind an error.
  void CancelIdle();

  // What to do about the failure of `call`, before its steps are lost.
  FailureAction Judge(const Call& call, const absl::Status& status);
  // The step that damage of `call` counts for. It is unknown before a batch has
  // begun; then the first owed step stands for it. None: `call` owes nothing.
  std::optional<uint64_t> DamagedStep(const Call& call) const;
  // Counts damage of `call`. Returns the number of damaged requests for its
  // step and damaged answers; the first one is retried. 0: `call` owes nothing.
  uint32_t CountDamage(const Call& call);
  // The final error for a call that failed with `status`.
  absl::Status ErrorOf(const Call& call, const absl::Status& status,
                       absl::string_view stage) const;
  // Records the failure at its server, with a log line. Not for kFinal.
  void NoteFailure(FailureAction action, const Call& call,
                   const absl::Status& status, absl::Time now);
  // Records at the server of `call` that it could not read a sample, with a log
  // line that says what follows (`then`).
  void NoteBadSample(const Call& call, const absl::Status& status,
                     absl::string_view then, absl::Time now);
  // Where `status` is a server's error about a sample: requests each step that
  // `call`, which is over, owes once more, alone. False: it is about something
  // else, or it is the error of such a request.
  bool RequestedAlone(const Call& call, const absl::Status& status,
                      absl::Time now);
  // The sequence ends before batch `number`, which is not whole: Next() returns
  // those before it, then `error`. None: every batch is there that the call
  // was for, so its error is only logged.
  void FailAt(std::optional<uint64_t> number, absl::Status error);
  // An error has ended the sequence, and all batches before it are whole.
  bool idle() const { return failed_ && calls_.complete(); }

  const HostLoaderOptions& options_;
  const uint32_t slots_;
  const uint32_t spares_;
  wire::BatchExpectation expect_;  // without the position
  SlotPool* const pool_;
  ReadyQueue* const queue_;
  BatchTransport* const transport_;
  const std::function<absl::Time()> now_;

  // Written by the transport's thread only; atomic so that any thread may read
  // them. end_ and total_ follow calls_: after a Seek() they belong to the old
  // position until the transport's thread has seen the Seek().
  std::atomic<uint64_t> end_{0};  // the first batch never requested
  std::atomic<uint64_t> total_;   // batches of the sequence
  std::atomic<uint32_t> window_;  // at most slots_
  std::atomic<uint64_t> retried_steps_{0};
  std::atomic<uint64_t> hedged_steps_{0};
  std::atomic<uint64_t> hedge_wins_{0};
  std::atomic<uint64_t> extra_bytes_{0};
  std::atomic<uint64_t> wire_bytes_{0};

  // Used by the transport's thread only. Events come one at a time with a
  // happens-before edge between them (BatchTransport), so these members need no
  // lock.
  CallTable calls_;
  ServerSet servers_;
  HedgePolicy hedge_;
  LateSteps late_;
  WindowControl control_;
  // Steps were lost during this event, so the event ends with Pump().
  bool pump_ = false;
  // True after FailAt() until a Seek(): calls_ ends before the failed batch,
  // and no new steps are requested.
  bool failed_ = false;
  double copy_seconds_ = 0;  // time for copying frames into slots
  absl::Time next_trouble_log_ = absl::InfinitePast();
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_BATCH_FETCHER_H_
