#include "client/prefetch/batch_fetcher.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "client/prefetch/batch_assembly.h"
#include "client/prefetch/connection_doubt.h"
#include "client/prefetch/consumption.h"
#include "client/prefetch/window_size.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"

namespace millrace::prefetch {
namespace {

// Min time between two log lines about servers that do not answer, and about
// other events that may come in numbers. A choice.
constexpr absl::Duration kTroubleLogInterval = absl::Seconds(10);

// A connection with this many suspect ends in a row is replaced.
constexpr uint32_t kMaxSuspicions = 2;

}  // namespace

BatchFetcher::BatchFetcher(const HostLoaderOptions& options,
                           const OpenResponse& plan, const Sequence& sequence,
                           uint32_t slots, const Parts& parts,
                           absl::Time opened_at)
    : options_(options),
      slots_(slots),
      spares_(SpareSlots(slots)),
      pool_(parts.pool),
      queue_(parts.queue),
      transport_(parts.transport),
      now_(parts.now),
      total_(sequence.total()),
      window_(ChooseFirstWindow(options, plan.max_payload_bytes())),
      calls_(slots, sequence),
      servers_(
          static_cast<uint64_t>(absl::ToUnixNanos(opened_at)) ^ options.rank,
          options.rank),
      hedge_(options.hedge_share, options.hedge_floor),
      late_({.step_timeout = options.step_timeout,
             .hedge = options.hedge_share > 0},
            &calls_, &servers_, &hedge_),
      control_({.initial = window_.load(),
                .max = slots,
                .cheap = ChooseCheapWindow(slots, pool_->slot_bytes())}) {
  expect_.tensors = &plan.tensors();
  expect_.rank = options.rank;
  expect_.world_size = options.world_size;
  expect_.max_payload_bytes = plan.max_payload_bytes();
  expect_.max_rows = plan.resolved_spec().batch_size() / options.world_size;
}

// --- any thread -------------------------------------------------------------

void BatchFetcher::AddStats(HostLoader::Stats* stats) const {
  stats->retried_steps = retried_steps_.load();
  stats->hedged_steps = hedged_steps_.load();
  stats->hedge_wins = hedge_wins_.load();
  stats->extra_bytes = extra_bytes_.load();
  stats->wire_bytes = wire_bytes_.load();
  stats->window = window_.load();
}

RequestBudget BatchFetcher::Budget() const {
  RequestBudget budget = {.slots = slots_};
  // next() is read before held(): the queue leases a slot before it counts the
  // batch in next(), so Free() never exceeds the free slots.
  budget.next = queue_->next();
  budget.end = end_.load();
  if (const OfferedSlots* const offered = pool_->offered()) {
    // Memory of delivered batches is gone, so none is held. Read after next(),
    // for the same reason.
    budget.slots = offered->room();
  } else {
    budget.held = pool_->held();
  }
  budget.total = total_.load();
  budget.window = window_.load();
  budget.servers = queue_->usable();
  return budget;
}

// --- events -----------------------------------------------------------------

void BatchFetcher::OnServers(absl::Span<const ServerState> servers) {
  ApplySeek();
  servers_.Update(servers);
  Pump();
}

void BatchFetcher::OnTick() {
  ApplySeek();
  RequestLateSteps();
  if (options_.window == 0) Tune();
  Pump();
  DescribeServers();
}

// ApplySeek() may have cancelled the call whose frame this is; then it is not
// in the table any more.
void BatchFetcher::OnFrame(CallId id, wire::FrameView& frame) {
  ApplySeek();
  Call* const call = calls_.Find(id);
  if (call == nullptr) return;
  call->frame_at = now_();
  if (call->Owes()) {
    calls_.NoteProgress(*call, call->frame_at);
    servers_.Heard(call->server, call->frame_at);
  }
  if (absl::Status status = Receive(*call, frame); !status.ok()) {
    const FailureAction action = Judge(*call, status);
    if (action == FailureAction::kFinal) {
      const std::optional<uint64_t> number = DamagedStep(*call);
      absl::Status error = ErrorOf(*call, status, "prefetch");
      GiveUp(id);
      FailAt(number, std::move(error));
    } else {
      NoteFailure(action, *call, status, call->frame_at);
      GiveUp(id);
    }
  } else if (failed_) {
    CancelIdle();
  }
  // Last, when `call` and `frame` are not used any more: GiveUp() runs while
  // they are, so it only notes that there are steps to request.
  if (std::exchange(pump_, false)) Pump();
}

void BatchFetcher::OnCallDone(CallId id, absl::Status status) {
  ApplySeek();
  Call* const found = calls_.Find(id);
  if (found == nullptr) return;
  // The slot goes back before the call leaves the table. Its steps are lost
  // only after Judge(), which checks which other calls owe them.
  Drop(*found);
  const Call call = Forget(id);
  const std::optional<uint64_t> owed = calls_.FirstOwed(call);
  // Nothing, or only steps behind an error.
  if (!owed.has_value() && (status.ok() || failed_)) return;
  if (status.ok()) {
    status = absl::UnavailableError(
        absl::StrCat("ended the stream without the batch of ",
                     PositionText(calls_.sequence().At(*owed))));
  }
  const FailureAction action = Judge(call, status);
  LoseSteps(call);
  const absl::Time now = now_();
  if (action == FailureAction::kFinal) {
    if (!RequestedAlone(call, status, now)) {
      FailAt(owed, ErrorOf(call, status, "receive"));
    }
  } else if (!ConcernsSample(status)) {
    NoteFailure(action, call, status, now);
  } else {
    NoteBadSample(call, status,
                  "its steps are requested from another server, too", now);
  }
  Pump();
}

void BatchFetcher::ApplySeek() {
  // Seek() runs on the consumer's thread and only leaves the new sequence in
  // the queue. The table changes here, at the start of the next event, so that
  // no event sees a table of two positions.
  if (!queue_->seek_pending()) return;
  CancelAll();
  // No call is in flight here, and no event of a cancelled call comes, so every
  // batch that is delivered from here on belongs to the new position.
  calls_.Restart(queue_->TakeSeek());
  end_.store(0);
  total_.store(calls_.sequence().total());
  failed_ = false;
}

// --- requests ---------------------------------------------------------------

void BatchFetcher::Pump() {
  queue_->SetUsable(servers_.usable());
  const absl::Time now = now_();
  while (calls_.has_waiting()) {
    const ServerId avoid = calls_.at(calls_.FirstWaiting(1).first).avoid;
    // Without a server for them, new steps would only take the slots that these
    // need: the consumer comes to the waiting steps first.
    const auto server = servers_.Pick(now, avoid);
    if (!server.has_value()) return;
    const Run run =
        calls_.FirstWaiting(Budget().Chunk(servers_.Share(*server)));
    calls_.Request(run, now);
    StartCall(*server, run, false);
  }
  while (!failed_) {
    // Read for each call: the consumer may have taken batches, and the previous
    // call has used some of the room.
    const RequestBudget budget = Budget();
    if (!budget.RoomForCall()) return;
    const auto server = servers_.Pick(now, 0);
    if (!server.has_value()) return;
    const uint64_t first = calls_.end();
    const uint64_t count =
        std::min({budget.Chunk(servers_.Share(*server)), budget.Free(),
                  budget.total - first, calls_.sequence().LeftInEpoch(first)});
    calls_.Append(count, now);
    // After Append(), before the transport may answer: other threads never see
    // fewer steps requested than there are.
    end_.store(calls_.end());
    StartCall(*server, {first, count}, false);
  }
}

void BatchFetcher::StartCall(ServerId server, Run run, bool hedge) {
  const absl::Time now = now_();
  // In the table before the transport knows the call: its first frame may come
  // as soon as the transport's StartCall() has returned.
  const CallId id = calls_.Start(server, run, hedge, now);
  servers_.Asked(server, run.count, now);
  transport_->StartCall(id, server, calls_.Find(id)->steps);
}

void BatchFetcher::RequestLateSteps() {
  const absl::Time now = now_();
  const LateSteps::Silent silent = late_.FindSilent(now);
  for (const CallId id : silent.covered) {
    // Checked again: the call that covered this one may just have been given
    // up.
    if (late_.IsCovered(id, now)) GiveUp(id);
  }
  for (const ServerId server : silent.reconnect) Reconnect(server, now);
  for (const LateSteps::Request& request : silent.requests) {
    StartRequest(request, now);
  }
  // After the silent servers: what they owe has been requested from others
  // above and is not late twice.
  const auto late =
      late_.FindLate(queue_->next(), queue_->consumer_step(), now);
  if (late.has_value()) StartRequest(*late, now);
}

void BatchFetcher::StartRequest(const LateSteps::Request& request,
                                absl::Time now) {
  const auto server = late_.Assign(request, now);
  if (!server.has_value()) return;
  (request.hedge ? hedged_steps_ : retried_steps_) += request.run.count;
  StartCall(*server, request.run, request.hedge);
}

void BatchFetcher::Reconnect(ServerId server, absl::Time now) {
  servers_.Reconnected(server, now);
  transport_->Reconnect(server);
}

void BatchFetcher::Tune() {
  const absl::Time now = now_();
  const uint32_t before = control_.window();
  const uint64_t changes = control_.changes();
  // Look() holds the queue's lock, so that the counts of one interval belong
  // together. The result is stored after it: window_ is atomic and read without
  // the lock.
  queue_->Look([&](const Consumption& seen) {
    // Near the end of the data there are not enough batches to request.
    const bool disturbed =
        failed_ || queue_->seek_pending() || end_.load() == total_.load();
    return control_.Look(seen, disturbed, queue_->usable(), now);
  });
  if (control_.changes() != changes) {
    queue_->CountWindowChange(control_.changes(), control_.reason());
    window_.store(control_.window());
  }
  if (control_.window() == before) {
    control_.Trim(pool_, spares_, now);
    return;
  }
  MR_LOG_EVERY(DEBUG, kTroubleLogInterval)
      << "window " << (control_.window() < before ? "reduced" : "raised")
      << " from " << before << " to " << control_.window() << "; "
      << control_.reason();
}

void BatchFetcher::DescribeServers() {
  if (idle()) return;
  const absl::Time now = now_();
  std::string text = servers_.Describe();
  if (servers_.usable() > 0) {
    next_trouble_log_ = now;
  } else if (now >= next_trouble_log_ && total_.load() > queue_->next()) {
    // Also when every requested batch has arrived: without a server nothing is
    // requested, so end_ stays at the batch that the consumer waits for.
    next_trouble_log_ = now + kTroubleLogInterval;
    MR_LOG(WARNING) << "no server of endpoint " << options_.endpoint
                    << " answers (" << text << "); waiting for "
                    << PositionText(calls_.sequence().At(queue_->next()));
  }
  const bool nobody_answers = !servers_.AnyAnswers(now, late_.SilentAfter());
  queue_->DescribeServers(std::move(text), nobody_answers);
}

// --- receiving --------------------------------------------------------------

absl::Status BatchFetcher::Receive(Call& call, wire::FrameView& frame) {
  BatchAssembly& batch = call.batch;
  if (frame.has_header) {
    MR_RETURN_IF_ERROR(batch.Begin(frame, call.steps, expect_, call.frame_at));
    // A whole batch has been delivered, perhaps by another call. Its frames are
    // counted and thrown away; no slot may be filled for it, because the
    // consumer could have taken the batch already.
    if (calls_.incomplete(call.number())) {
      // Shared memory is delivered in place when the consumer does not write to
      // it.
      const bool keeps = frame.hold != nullptr && options_.read_only_payload;
      uint8_t* slot = nullptr;
      if (!keeps) {
        MR_ASSIGN_OR_RETURN(slot, TakeSlot(call));
      }
      batch.Want(&frame, slot, options_.verify_payload);
    }
  }
  const bool copies = batch.slot() != nullptr;
  // Read first: Add() takes `hold`. Bytes in shared memory did not come over
  // the network.
  const uint64_t wire_bytes = frame.hold == nullptr ? frame.data_bytes : 0;
  MR_RETURN_IF_ERROR(batch.Add(frame));
  if (copies) {
    copy_seconds_ += absl::ToDoubleSeconds(now_() - call.frame_at);
  } else if (!batch.wanted()) {
    // Another call has delivered the batch.
    extra_bytes_ += frame.data_bytes;
  }
  wire_bytes_.fetch_add(wire_bytes, std::memory_order_relaxed);
  return batch.whole() ? FinishBatch(call) : absl::OkStatus();
}

absl::StatusOr<uint8_t*> BatchFetcher::TakeSlot(const Call& call) {
  const uint64_t number = call.number();
  // No spare is needed: the pool has a slot for each step that may be
  // outstanding.
  if (calls_.Filling(number) == 0) return pool_->Take();
  const OfferedSlots* const offered = pool_->offered();
  if (calls_.SparesUsed() <
      (offered != nullptr ? offered->spares() : spares_)) {
    if (uint8_t* const slot = pool_->TryTake()) return slot;
  }
  // No spare slot: the call whose first frame has just arrived continues, the
  // others end.
  for (const CallId id : calls_.OtherCallsFor(number, call)) {
    const Call& other = *calls_.Find(id);
    if (other.batch.wanted() && other.number() == number) GiveUp(id);
  }
  return pool_->Take();
}

absl::Status BatchFetcher::FinishBatch(Call& call) {
  BatchAssembly& batch = call.batch;
  const bool wanted = batch.wanted();
  const bool owed = call.Owes();
  // A damaged batch is no progress.
  MR_RETURN_IF_ERROR(batch.Finish());
  // A server that sends a batch twice settles it once: `unsettled` never falls
  // below 0.
  if (call.unsettled > 0) {
    --call.unsettled;
    servers_.Settled(call.server, 1);
  }
  if (owed && servers_.Progress(call.server, call.frame_at - call.requested)) {
    MR_LOG(INFO) << "server " << servers_.AddressOf(call.server)
                 << " serves batches again";
  }
  if (!wanted) return absl::OkStatus();
  const uint64_t number = call.number();
  const CallTable::Step& step = calls_.at(number);
  hedge_.Delivered(call.frame_at - step.requested);
  // Before the step is whole: the losers are the calls that owe it now, and
  // their slots are free for the next requests. Deliver() comes last: from then
  // on the consumer may take the batch and make room for more.
  if (step.calls > 1) EndLosers(call);
  calls_.MarkWhole(number);
  // The consumer waits next for the first batch that is not whole.
  const absl::Time late_at =
      calls_.low() < calls_.end()
          ? calls_.at(calls_.low()).requested + hedge_.Delay()
          : absl::InfiniteFuture();
  queue_->Deliver(number, batch.Take(),
                  {.server = servers_.AddressOf(call.server),
                   .shared = batch.in_shared(),
                   .begun_at = batch.begun_at(),
                   .copy_seconds = copy_seconds_,
                   .whole_below = calls_.low(),
                   .late_at = late_at});
  return absl::OkStatus();
}

void BatchFetcher::EndLosers(const Call& winner) {
  if (winner.hedge) ++hedge_wins_;
  // Ids, not references: Forget() removes calls from the table in the loop.
  const uint64_t number = winner.number();
  for (const CallId id : calls_.OtherCallsFor(number, winner)) {
    Call& call = *calls_.Find(id);
    if (call.requested < winner.requested) servers_.LostRace(call.server);
    if (call.batch.begun() && call.number() == number) Drop(call);
    if (calls_.OwesBesides(call, number)) continue;
    transport_->CancelCall(id);
    Forget(id);
  }
}

// --- ends of calls ----------------------------------------------------------

// Idempotent: afterwards the batch is not wanted, so a slot goes back to the
// pool exactly once.
void BatchFetcher::Drop(Call& call) {
  if (!call.batch.wanted()) return;
  extra_bytes_ += call.batch.received();
  if (uint8_t* const slot = call.batch.Drop()) pool_->PutBack(slot);
}

BatchFetcher::Call BatchFetcher::Forget(CallId id) {
  Call call = calls_.Remove(id);
  servers_.Settled(call.server, call.unsettled);
  return call;
}

// Cancelled first, so that no frame of the call comes any more; then the slot
// goes back; then the steps are lost, which makes them wait. Pump() requests
// them, and not this method, because a caller may hold references into the
// table.
void BatchFetcher::GiveUp(CallId id) {
  transport_->CancelCall(id);
  Drop(*calls_.Find(id));
  LoseSteps(Forget(id));
  pump_ = true;
}

// Loses no step: the caller begins at another position, and the steps of the
// old one are gone.
void BatchFetcher::CancelAll() {
  while (!calls_.calls().empty()) {
    const auto first = calls_.calls().begin();
    transport_->CancelCall(first->first);
    Drop(first->second);
    Forget(first->first);
  }
}

void BatchFetcher::CancelIdle() {
  std::vector<CallId> idle;
  for (auto& [id, call] : calls_.calls()) {
    if (!calls_.FirstOwed(call).has_value()) idle.push_back(id);
    // The batch is behind the error; the call goes on with those before it.
    if (call.batch.wanted() && !calls_.incomplete(call.number())) Drop(call);
  }
  for (const CallId id : idle) {
    transport_->CancelCall(id);
    Drop(*calls_.Find(id));
    Forget(id);
  }
}

FailureAction BatchFetcher::Judge(const Call& call,
                                  const absl::Status& status) {
  // Another call may owe this batch, and may be filling another slot with it.
  const bool arrives_elsewhere =
      call.batch.wanted() && calls_.at(call.number()).calls > 1;
  FailureFacts facts;
  facts.may_retry_damaged = IsDamaged(status) && CountDamage(call) <= 1;
  facts.requested_from_others =
      arrives_elsewhere || calls_.RequestedFromOthers(call);
  facts.others_may_serve = servers_.OthersMayServe(call.server);
  facts.over_new_connection =
      servers_.reconnects(call.server) > 0 &&
      servers_.OnNewestConnection(call.server, call.requested);
  return ActionFor(status, facts);
}

std::optional<uint64_t> BatchFetcher::DamagedStep(const Call& call) const {
  return call.batch.wanted() ? call.number() : calls_.FirstOwed(call);
}

uint32_t BatchFetcher::CountDamage(const Call& call) {
  const std::optional<uint64_t> number = DamagedStep(call);
  return number.has_value() ? ++calls_.at(*number).damages : 0;
}

absl::Status BatchFetcher::ErrorOf(const Call& call, const absl::Status& status,
                                   absl::string_view stage) const {
  const std::string address = servers_.AddressOf(call.server);
  const std::optional<uint64_t> number = DamagedStep(call);
  if (!IsDamaged(status) || !number.has_value()) {
    return FinalError(address, status, stage);
  }
  return FinalDamageError(address, status, stage,
                          PositionText(calls_.sequence().At(*number)),
                          calls_.at(*number).damages);
}

void BatchFetcher::NoteFailure(FailureAction action, const Call& call,
                               const absl::Status& status, absl::Time now) {
  const std::string address = servers_.AddressOf(call.server);
  // A call on an older connection says nothing about the newest one.
  const ConnectionDoubt doubt =
      servers_.OnNewestConnection(call.server, call.requested)
          ? DoubtOf(status)
          : ConnectionDoubt::kNone;
  const uint32_t connections = servers_.reconnects(call.server) + 1;
  std::string why(status.message());
  if (doubt == ConnectionDoubt::kDamaged && connections > 1) {
    absl::StrAppend(&why, "; ", FailedConnectionsText(connections));
  }
  switch (action) {
    case FailureAction::kRetry: {
      const uint32_t failures =
          servers_.Failed(call.server, call.requested, now, why);
      if (failures == 0) break;
      const bool reconnect =
          doubt == ConnectionDoubt::kDamaged ||
          (doubt == ConnectionDoubt::kSuspect &&
           servers_.Suspected(call.server) >= kMaxSuspicions);
      // Logged: failures 1, 2, 4, 8 ... of a row, and each first new
      // connection.
      if (absl::has_single_bit(failures) || (reconnect && connections == 1)) {
        MR_LOG(WARNING) << "server " << address << ": " << why << "; "
                        << (reconnect && connections == 1
                                ? absl::StrCat(kProbablyDamaged, ": ")
                                : "")
                        << "its steps are requested again"
                        << (reconnect ? " over a new connection" : "")
                        << (failures == 1
                                ? ""
                                : absl::StrCat(" (", failures,
                                               " failures in a row)"));
      }
      if (reconnect) Reconnect(call.server, now);
      break;
    }
    case FailureAction::kPause:
      control_.Refused();
      servers_.Paused(
          call.server, now,
          absl::Milliseconds(GetErrorDetail(status).retry_delay_ms()));
      MR_LOG_EVERY(WARNING, kTroubleLogInterval)
          << "server " << address << " is busy: " << status.message();
      break;
    case FailureAction::kDamaged:
      servers_.Failed(call.server, call.requested, now, status.message());
      MR_LOG(WARNING) << "server " << address << ": " << status.message()
                      << (servers_.OthersMayServe(call.server)
                              ? "; requested once more from another server"
                              : "; requested once more from the same server, "
                                "because there is no other");
      break;
    case FailureAction::kLeaveOut:
      if (servers_.LeaveOut(call.server, now, why)) {
        MR_LOG(WARNING) << "server " << address
                        << " is not used, because it does not serve this plan: "
                        << why;
      }
      // For the request that checks it again.
      if (doubt == ConnectionDoubt::kDamaged) Reconnect(call.server, now);
      break;
    case FailureAction::kLeaveToOthers:
      MR_LOG(WARNING) << "server " << address << ": " << status.message()
                      << "; its steps are requested from another server, too";
      servers_.LeaveOut(call.server, now, status.message());
      break;
    case FailureAction::kFinal:
      break;
  }
}

void BatchFetcher::NoteBadSample(const Call& call, const absl::Status& status,
                                 absl::string_view then, absl::Time now) {
  // A server that cannot read a sample serves all others, so it is not left
  // out. But a server whose disk is damaged fails quickly, and would get most
  // of the requests.
  const uint32_t failures =
      servers_.Failed(call.server, call.requested, now, status.message());
  // Logged: failures 1, 2, 4, 8 ... of a row.
  if (!absl::has_single_bit(failures)) return;
  MR_LOG(WARNING) << "server " << servers_.AddressOf(call.server) << ": "
                  << status.message() << "; " << then
                  << (failures == 1 ? ""
                                    : absl::StrCat(" (", failures,
                                                   " failures in a row)"));
}

bool BatchFetcher::RequestedAlone(const Call& call, const absl::Status& status,
                                  absl::Time now) {
  const std::optional<uint64_t> first = calls_.FirstOwed(call);
  if (!ConcernsSample(status) || !first.has_value()) return false;
  const uint64_t owed = calls_.CountOwed(call);
  // With more steps in the request, the sample may be one of a step that
  // another call has brought.
  if (call.run.count == 1 && calls_.at(*first).alone) return false;
  calls_.RequestAlone(call);
  NoteBadSample(
      call, status,
      absl::StrCat(
          owed == 1
              ? absl::StrCat(PositionText(calls_.sequence().At(*first)), " is")
              : absl::StrCat("the ", owed,
                             " outstanding steps of the request are"),
          " requested once more, one by one, from ",
          servers_.OthersMayServe(call.server)
              ? "another server"
              : "the same server, because there is no other"),
      now);
  return true;
}

void BatchFetcher::FailAt(std::optional<uint64_t> number, absl::Status error) {
  if (!number.has_value()) {
    MR_LOG_EVERY(WARNING, kTroubleLogInterval)
        << "a request failed after all of its batches had arrived: "
        << error.message();
    return;
  }
  // The table ends before the failed step and the calls behind it end, before
  // the consumer learns of the error: the queue returns the error when it has
  // delivered every batch before it, and nothing may arrive behind it.
  failed_ = true;
  calls_.CutAt(*number);
  CancelIdle();
  queue_->FailAt(*number, std::move(error));
}

}  // namespace millrace::prefetch
