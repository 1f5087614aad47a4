#include "client/prefetch/prefetch_loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "client/prefetch/hedge_policy.h"
#include "client/prefetch/sequence.h"
#include "client/prefetch/server_set.h"
#include "client/prefetch/server_times.h"
#include "client/prefetch/slot_pool.h"
#include "client/prefetch/step_window.h"
#include "client/prefetch/verdict.h"
#include "client/prefetch/window_tuner.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"
#include "proto/wire/batch_view.h"
#include "proto/wire/frame_view.h"
#include "xxhash.h"

namespace millrace {
namespace {

// How often a loader that no server answers says so.
constexpr absl::Duration kTroubleLogInterval = absl::Seconds(10);

// A server that owes a frame for so many hedge delays, and no less than the
// second, counts as silent: all its steps are asked elsewhere, whatever the
// budget for late steps says.
constexpr double kSilentDelays = 4;
constexpr absl::Duration kSilentAtLeast = absl::Seconds(1);

// A window that follows: the largest, what it begins with, and what is so
// little memory that less is not looked for.
constexpr uint64_t kLargestWindow = 256;
constexpr uint64_t kFirstWindowBytes = uint64_t{32} << 20;
constexpr uint64_t kLeastFirstWindow = 16;
constexpr uint64_t kMostFirstWindow = 64;
constexpr uint64_t kCheapWindowBytes = uint64_t{4} << 20;
// So long a slot must have been of no use before its memory is given back.
constexpr absl::Duration kTrimAfter = absl::Seconds(10);
// Servers that this part of the batches came from speak for all.
constexpr double kMostBatches = 0.5;
// Of the time, that a server works on batches of this client.
constexpr double kBusy = 0.9;

// Weight of the newest in the running mean of the time from batch to batch.
constexpr double kConsumerGain = 0.2;

// Slots on top of the window for second answers. Few: a step needs one only
// while two calls are in the midst of its frames.
uint32_t SpareSlots(uint32_t window) {
  return std::clamp<uint32_t>(window / 8, 1, 4);
}

// Servers that times are kept of.
constexpr size_t kMostServerTimes = 256;

// The code of an error that a server's one ends everything with. Some mean
// something of their own to who calls Next(): that all epochs were delivered,
// that it may be called again, that the loader was closed.
absl::StatusCode FinalCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
      return absl::StatusCode::kInternal;
    default:
      return code;
  }
}

std::string Text(Position position) {
  return absl::StrCat("epoch ", position.epoch, " step ", position.step);
}

class PrefetchLoader final : public HostLoader, private TransportEvents {
 public:
  PrefetchLoader(const HostLoaderOptions& options, OpenResponse plan,
                 Sequence sequence, uint32_t slots,
                 std::unique_ptr<BatchTransport> transport,
                 absl::Time opened_at, std::function<absl::Time()> now,
                 std::function<void(absl::Duration)> wait);
  ~PrefetchLoader() override { Close(); }

  void Start() { transport_->Start(this); }

  const OpenResponse& plan() const override { return plan_; }
  uint32_t window() const override { return wanted_.load(); }
  absl::StatusOr<HostBatch> Next() override;
  Position position() const override;
  absl::Status Seek(Position position) override;
  Stats stats() const override;
  void Close() override;

 private:
  using Run = StepWindow::Run;

  // A request for `run` at one server.
  struct Call {
    ServerId server = 0;
    Run run;
    uint64_t unsettled = 0;  // batches that it has not delivered yet
    bool hedge = false;      // because another call is late
    absl::Time asked;
    absl::Time frame_at;  // of the last frame
    absl::Time progress;  // of the last one of what it owes, or of the asking
    // What it owes was asked of others, too, and they are at it.
    bool asked_elsewhere = false;
    // The batch whose frames are arriving.
    bool in_batch = false;
    uint64_t number = 0;
    uint64_t payload_bytes = 0;
    uint64_t received = 0;
    absl::Time begun;              // its first frame came
    bool wanted = false;           // nobody else has brought it yet
    bool in_shared = false;        // it came in memory that the server shares
    uint8_t* slot = nullptr;       // where it goes; null when it is in `shared`
    std::shared_ptr<void> shared;  // memory of the server with the payload
    BatchHeader header;

    // What comes brings something nearer. More batches than were asked for,
    // because some come again, do not.
    bool Owes() const { return unsettled > 0 || wanted; }
    bool AsksFor(uint64_t number) const {
      return number >= run.first && number - run.first < run.count;
    }
  };
  using Calls = std::map<CallId, Call>;  // few

  struct Ready {
    bool full = false;
    uint8_t* slot = nullptr;
    std::shared_ptr<void> shared;  // then the payload lies there
    BatchHeader header;
    size_t server = 0;  // in stats_.by_server
  };

  // --- the transport's thread ------------------------------------------------
  void OnServers(absl::Span<const ServerState> servers) override;
  void OnFrame(CallId id, FrameView& frame) override;
  void OnCallDone(CallId id, absl::Status status) override;
  void OnTick() override;

  // Starts anew where Seek() has said. First thing in every event.
  void ApplySeek();
  // Asks for what waits, then for what is new.
  void Pump();
  void StartCall(ServerId server, Run run, bool hedge);
  // So long a server may owe a frame before it counts as silent.
  absl::Duration SilentAfter() const;
  // Gives the steps of silent servers and calls to other servers too.
  void WatchProgress();
  // Asks a second server for the steps that are late and needed soon.
  void HedgeLateSteps();
  // The runs of `call` that it still owes and no server that may bring them
  // was asked for besides.
  std::vector<Run> Owed(const Call& call, absl::Time now);
  // The batches of `server` to ask for at once.
  uint64_t ChunkOf(ServerId server) const;
  void SayWhenNobodyAnswers();
  // Lets the window follow what was measured.
  void Tune();
  // What was seen since `counted_`.
  WindowInterval Seen() const MR_REQUIRES(mu_);
  void CountAnew(absl::Time now) MR_REQUIRES(mu_);
  void TrimSlots(absl::Time now);
  absl::Status Receive(Call& call, FrameView& frame);
  absl::Status BeginBatch(Call& call, FrameView& frame);
  absl::Status FinishBatch(Call& call);
  // DataLoss: the payload does not fit its header or its digest.
  absl::Status CheckPayload(const Call& call) const;
  // Room for the batch of `call`, with other calls that fill one with the same
  // batch.
  absl::Status TakeSlot(Call& call);
  // The slot goes back; what was received is lost.
  void DropSlot(Call& call);
  // `winner` has brought a batch that others ask for, too: their slots go back,
  // and calls that owe nothing else are cancelled.
  void EndLosers(const Call& winner);
  // Cancels the call; its steps are lost.
  void GiveUp(Calls::iterator call);
  // Ends the bookkeeping of a call that is over.
  void Forget(Calls::iterator call);
  // The frame's payload is handed out where it lies.
  bool Keeps(const FrameView& frame) const {
    return frame.hold != nullptr && options_.read_only_payload;
  }
  // It owes steps, and other calls ask for each of them.
  bool AskedOfOthers(const Call& call);
  // What `call` brought is damaged. True when the step may be asked of another
  // server: once each, where there is another.
  bool MayAskAgain(const Call& call);
  // Its steps are asked of another server.
  void Damaged(const Call& call, absl::Time now, const absl::Status& why);
  // `server` answers wrongly what others were asked for, too: no reason to end.
  void LeaveToOthers(ServerId server, absl::Time now, const absl::Status& why);
  // Its steps wait to be asked again when no other call asks for them.
  void LoseSteps(const Call& call);
  // Counts a batch that has become whole just now, and says where.
  size_t CountBatch(const Call& call, const BatchHeader& header)
      MR_REQUIRES(mu_);
  // Ends everything: Next() hands out what is whole and then returns `error`.
  void Fail(absl::Status error);

  // --- any thread ------------------------------------------------------------
  // Batches to ask for at once: a call has its price, so that a consumer that
  // is slow is served by few calls, and one that holds most slots by small
  // ones.
  uint64_t ChunkFor(uint32_t held) const;
  // Batches that there may be when the consumer holds so many.
  uint64_t Room(uint32_t held) const {
    return std::min(wanted_.load(), slots_ - std::min(held, slots_));
  }
  uint64_t Free() const;
  bool WorthAsking() const;
  absl::Status TimeoutError(absl::Duration waited) const MR_REQUIRES(mu_);
  // Waits for the batch that Next() hands out next; returns when it was there.
  // Counts in waiting_.
  absl::StatusOr<absl::Time> AwaitBatch(MutexLock& lock) MR_REQUIRES(mu_);
  // Waits for a change, at most 200 ms or until `timeout`. Wakes the transport
  // when the step that the consumer waits for becomes late: an event of the
  // transport's own may be 100 ms away.
  void AwaitChange(MutexLock& lock, absl::Time now, absl::Time timeout)
      MR_REQUIRES(mu_);

  const HostLoaderOptions options_;
  const OpenResponse plan_;
  const bool adaptive_;  // the window follows what is measured
  const uint32_t slots_;
  const uint32_t spares_;
  const absl::Time opened_at_;
  const std::function<absl::Time()> now_;
  const std::function<void(absl::Duration)> wait_;  // null: really
  const std::shared_ptr<SlotPool> pool_;
  const std::unique_ptr<BatchTransport> transport_;

  // Self-synchronised. Written by the consumer.
  std::atomic<uint64_t> next_{0};  // the batch that Next() hands out next
  // Written by the transport's thread.
  std::atomic<uint64_t> end_{0};  // the first batch not asked for
  std::atomic<uint32_t> usable_{0};
  std::atomic<uint32_t> wanted_;  // the window; at most slots_
  std::atomic<uint64_t> total_;   // batches of the sequence
  std::atomic<uint64_t> retried_steps_{0};
  std::atomic<uint64_t> hedged_steps_{0};
  std::atomic<uint64_t> hedge_wins_{0};
  std::atomic<uint64_t> extra_bytes_{0};
  std::atomic<uint64_t> wire_bytes_{0};
  // Seek() has been called and the transport's thread does not know yet.
  // Written under mu_.
  std::atomic<bool> seek_pending_{false};

  // Touched by the transport's thread only.
  WindowTuner tuner_;
  // Where counting for it began.
  struct Counted {
    absl::Time at = absl::InfinitePast();
    absl::Time returned = absl::InfinitePast();
    uint64_t generation = 0;
    uint64_t batches = 0;
    double wait_seconds = 0;
    std::vector<ServerTimes> by_server;
  };
  Counted counted_;
  bool refused_ = false;  // since then, for want of memory at a server
  absl::Time trim_at_ = absl::InfinitePast();
  BatchExpectation expect_;
  Sequence asking_;  // sequence_, as soon as a Seek() is applied
  HedgePolicy hedge_;
  uint32_t spares_used_ = 0;
  bool pump_ = false;  // steps were lost within an event
  StepWindow window_;
  ServerSet servers_;
  Calls calls_;
  CallId next_call_ = 1;
  bool failed_ = false;
  absl::Time next_trouble_log_ = absl::InfinitePast();
  double copy_seconds_ = 0;
  // Of each server the end of the last batch, by its place in by_server.
  std::vector<absl::Time> last_whole_;

  mutable Mutex mu_;
  CondVar changed_;
  bool closed_ MR_GUARDED_BY(mu_) = false;
  absl::Status error_ MR_GUARDED_BY(mu_);
  Sequence sequence_ MR_GUARDED_BY(mu_);
  uint64_t generation_ MR_GUARDED_BY(mu_) = 0;
  // When the first batch that is not whole becomes late; the consumer that has
  // seen to it clears it.
  absl::Time late_at_ MR_GUARDED_BY(mu_) = absl::InfiniteFuture();
  // From the consumer's getting a batch to its getting the next one, waits
  // included, and when it got the last one.
  absl::Duration consumer_step_ MR_GUARDED_BY(mu_);
  absl::Time last_return_ MR_GUARDED_BY(mu_) = absl::InfinitePast();
  // All batches below it are whole; and the least of them that Next() has found
  // in hand since counting began.
  uint64_t whole_below_ MR_GUARDED_BY(mu_) = 0;
  uint64_t least_in_hand_ MR_GUARDED_BY(mu_) = 0;
  std::vector<Ready> ready_ MR_GUARDED_BY(mu_);  // ring, by number
  std::string servers_text_ MR_GUARDED_BY(mu_);
  // No server answers: none is usable, or all of these are silent.
  bool nobody_answers_ MR_GUARDED_BY(mu_) = false;
  // Seconds of the Next() that waits now, not in stats_ yet; 0 when none waits.
  struct Waiting {
    double seconds = 0;
    double no_answer_seconds = 0;
  };
  Waiting waiting_ MR_GUARDED_BY(mu_);
  Stats stats_ MR_GUARDED_BY(mu_);

  Mutex close_mu_;
  bool stopped_ MR_GUARDED_BY(close_mu_) = false;
};

PrefetchLoader::PrefetchLoader(const HostLoaderOptions& options,
                               OpenResponse plan, Sequence sequence,
                               uint32_t slots,
                               std::unique_ptr<BatchTransport> transport,
                               absl::Time opened_at,
                               std::function<absl::Time()> now,
                               std::function<void(absl::Duration)> wait)
    : options_(options),
      plan_(std::move(plan)),
      adaptive_(options.window == 0),
      slots_(slots),
      spares_(SpareSlots(slots)),
      opened_at_(opened_at),
      now_(std::move(now)),
      wait_(std::move(wait)),
      pool_(std::make_shared<SlotPool>(
          options.allocator != nullptr ? options.allocator
                                       : NewPlainSlotAllocator(),
          slots + spares_, plan_.max_payload_bytes())),
      transport_(std::move(transport)),
      wanted_(ChooseFirstWindow(options, plan_.max_payload_bytes())),
      total_(sequence.total()),
      tuner_({.initial = wanted_.load(),
              .most = slots,
              .cheap = static_cast<uint32_t>(std::min<uint64_t>(
                  slots, kCheapWindowBytes /
                             std::max<uint64_t>(1, pool_->slot_bytes())))}),
      asking_(sequence),
      hedge_(options.hedge_share, options.hedge_floor),
      window_(slots),
      servers_(
          static_cast<uint64_t>(absl::ToUnixNanos(opened_at)) ^ options.rank,
          options.rank),
      sequence_(sequence),
      ready_(slots) {
  expect_.tensors = &plan_.tensors();
  expect_.rank = options_.rank;
  expect_.world_size = options_.world_size;
  expect_.max_payload_bytes = plan_.max_payload_bytes();
  expect_.max_rows = plan_.resolved_spec().batch_size() / options_.world_size;
  stats_.first_window = wanted_.load();
  pool_->OnRelease([this] {
    if (WorthAsking()) transport_->Wake();
  });
}

// --- the consumer -----------------------------------------------------------

absl::StatusOr<HostBatch> PrefetchLoader::Next() {
  HostBatch batch;
  {
    MutexLock lock(mu_);
    least_in_hand_ = std::min(
        least_in_hand_, whole_below_ - std::min(whole_below_, next_.load()));
    const absl::StatusOr<absl::Time> there = AwaitBatch(lock);
    // A wait that brings no batch counts, too.
    const Waiting waited = std::exchange(waiting_, {});
    stats_.wait_seconds += waited.seconds;
    stats_.no_answer_seconds += waited.no_answer_seconds;
    if (!there.ok()) return there.status();
    const absl::Time now = *there;
    const uint64_t number = next_.load();
    Ready& ready = ready_[number % slots_];
    if (last_return_ != absl::InfinitePast()) {
      consumer_step_ += kConsumerGain * (now - last_return_ - consumer_step_);
    }
    last_return_ = now;
    // The server that brings the batch is not what was waited for while none
    // answered.
    stats_.by_server[ready.server].waited_seconds +=
        waited.seconds - waited.no_answer_seconds;
    if (stats_.batches++ == 0) {
      stats_.first_batch_seconds =
          absl::ToDoubleSeconds(last_return_ - opened_at_);
    }
    batch.position = sequence_.At(number);
    batch.generation = generation_;
    batch.header = std::move(ready.header);
    if (ready.shared != nullptr) {
      batch.payload = {static_cast<uint8_t*>(ready.shared.get()),
                       batch.header.payload_bytes()};
      batch.lease = pool_->LeaseShared(std::move(ready.shared));
    } else {
      batch.payload = {ready.slot, batch.header.payload_bytes()};
      batch.lease = pool_->Lease(ready.slot);
    }
    ready.full = false;
    stats_.samples += batch.header.local_valid();
    stats_.payload_bytes += batch.payload.size();
    next_.store(number + 1);
  }
  if (WorthAsking()) transport_->Wake();
  return batch;
}

absl::StatusOr<absl::Time> PrefetchLoader::AwaitBatch(MutexLock& lock) {
  const absl::Time entered = now_();
  absl::Time now = entered;
  // Another place after a Seek() meanwhile.
  while (closed_ || !ready_[next_.load() % slots_].full) {
    const uint64_t number = next_.load();
    if (closed_) return absl::CancelledError("the loader was closed");
    if (!error_.ok()) return error_;
    if (number >= sequence_.total()) {
      return absl::OutOfRangeError(absl::StrCat("all batches up to ",
                                                Text(sequence_.At(number)),
                                                " were delivered"));
    }
    if (now - entered >= options_.next_timeout) {
      return TimeoutError(now - entered);
    }
    AwaitChange(lock, now, entered + options_.next_timeout);
    const absl::Time before = std::exchange(now, now_());
    const double seconds = absl::ToDoubleSeconds(now - before);
    waiting_.seconds += seconds;
    if (nobody_answers_) waiting_.no_answer_seconds += seconds;
  }
  return now;
}

void PrefetchLoader::AwaitChange(MutexLock& lock, absl::Time now,
                                 absl::Time timeout) {
  if (now >= late_at_) {
    late_at_ = absl::InfiniteFuture();
    transport_->Wake();
  }
  const absl::Duration most =
      std::min({absl::Milliseconds(200), timeout - now, late_at_ - now});
  if (wait_ != nullptr) {
    mu_.Unlock();
    wait_(most);
    mu_.Lock();
    return;
  }
  changed_.WaitUntil(lock, SteadyDeadline(most));
}

Position PrefetchLoader::position() const {
  MutexLock lock(mu_);
  return sequence_.At(next_.load());
}

absl::Status PrefetchLoader::Seek(Position position) {
  absl::StatusOr<Sequence> sequence = Sequence::Seek(
      position, options_.start, options_.epochs, plan_.steps_per_epoch());
  if (!sequence.ok()) return sequence.status();
  {
    MutexLock lock(mu_);
    if (closed_) return absl::CancelledError("the loader was closed");
    for (Ready& ready : ready_) {
      if (ready.full && ready.slot != nullptr) pool_->PutBack(ready.slot);
      ready.shared.reset();
      ready.full = false;
    }
    sequence_ = *std::move(sequence);
    next_.store(0);
    whole_below_ = 0;
    ++generation_;
    error_ = absl::OkStatus();
    late_at_ = absl::InfiniteFuture();
    last_return_ = absl::InfinitePast();
    // Whatever becomes whole until the transport's thread has seen it is
    // dropped there.
    seek_pending_.store(true);
    changed_.NotifyAll();
  }
  transport_->Wake();
  return absl::OkStatus();
}

absl::Status PrefetchLoader::TimeoutError(absl::Duration waited) const {
  const std::string what =
      absl::StrCat("no batch within ", absl::FormatDuration(waited));
  if (pool_->held() == slots_) {
    return absl::DeadlineExceededError(absl::StrCat(
        what, ": all ", slots_,
        " slots are held by the caller; let go of batches that are not needed "
        "any more, or open the loader with a larger window"));
  }
  const std::string detail = absl::StrCat(
      what, ": waiting for ", Text(sequence_.At(next_.load())),
      " from endpoint ", options_.endpoint, " (", servers_text_, ")");
  return usable_.load() == 0 ? absl::UnavailableError(detail)
                             : absl::DeadlineExceededError(detail);
}

HostLoader::Stats PrefetchLoader::stats() const {
  Stats stats;
  {
    MutexLock lock(mu_);
    stats = stats_;
    stats.wait_seconds += waiting_.seconds;
    stats.no_answer_seconds += waiting_.no_answer_seconds;
  }
  stats.retried_steps = retried_steps_.load();
  stats.hedged_steps = hedged_steps_.load();
  stats.hedge_wins = hedge_wins_.load();
  stats.extra_bytes = extra_bytes_.load();
  stats.wire_bytes = wire_bytes_.load();
  stats.servers = usable_.load();
  stats.window = wanted_.load();
  stats.open_slots = pool_->held();
  return stats;
}

void PrefetchLoader::Close() {
  {
    MutexLock lock(mu_);
    closed_ = true;
    changed_.NotifyAll();
  }
  // A second caller waits for the first: after Close() no thread is left.
  MutexLock lock(close_mu_);
  if (stopped_) return;
  pool_->OnRelease(nullptr);
  transport_->Stop();
  stopped_ = true;
}

// --- how much to ask --------------------------------------------------------

uint64_t PrefetchLoader::ChunkFor(uint32_t held) const {
  const uint64_t usable = std::max<uint32_t>(1, usable_.load());
  const uint64_t chunk = Room(held) / (2 * usable);
  // A Seek() may lie between the two.
  const uint64_t end = end_.load();
  const uint64_t total = std::max(end, total_.load());
  return std::max<uint64_t>(1, std::min(chunk, total - end));
}

uint64_t PrefetchLoader::Free() const {
  // Next() counts a slot as held before it counts the batch as handed out, so
  // that this order of reading never finds more free slots than there are.
  const uint64_t next = next_.load();
  const uint64_t end = end_.load();
  // Not so while a Seek() has moved one of them only: then the answer does not
  // matter.
  const uint64_t asked = end > next ? end - next : 0;
  const uint64_t used = asked + pool_->held();
  const uint64_t wanted = wanted_.load();
  return std::min(wanted - std::min(asked, wanted),
                  slots_ - std::min<uint64_t>(used, slots_));
}

bool PrefetchLoader::WorthAsking() const {
  return end_.load() < total_.load() && Free() >= ChunkFor(pool_->held());
}

// --- the transport's thread -------------------------------------------------

void PrefetchLoader::OnServers(absl::Span<const ServerState> servers) {
  ApplySeek();
  servers_.Update(servers);
  Pump();
}

void PrefetchLoader::OnTick() {
  ApplySeek();
  WatchProgress();
  HedgeLateSteps();
  if (adaptive_) Tune();
  Pump();
  SayWhenNobodyAnswers();
}

void PrefetchLoader::ApplySeek() {
  if (!seek_pending_.load()) return;
  while (!calls_.empty()) {
    transport_->CancelCall(calls_.begin()->first);
    DropSlot(calls_.begin()->second);
    Forget(calls_.begin());
  }
  MutexLock lock(mu_);
  asking_ = sequence_;
  window_ = StepWindow(slots_);
  end_.store(0);
  total_.store(asking_.total());
  failed_ = false;
  seek_pending_.store(false);
}

uint64_t PrefetchLoader::ChunkOf(ServerId server) const {
  const double usable = std::max<uint32_t>(1, usable_.load());
  const double chunk = static_cast<double>(Room(pool_->held())) / 2;
  // Of equal servers exactly ChunkFor().
  const double share = servers_.Share(server);
  const double equal = std::abs(share * usable - 1) < 0.2 ? 1 / usable : share;
  return std::max<uint64_t>(1, static_cast<uint64_t>(chunk * equal + 1e-9));
}

void PrefetchLoader::Pump() {
  usable_.store(servers_.usable());
  if (failed_) return;
  const absl::Time now = now_();
  while (window_.has_waiting()) {
    const ServerId avoid =
        window_.at(window_.FirstWaiting(1, asking_).first).avoid;
    const auto server = servers_.Pick(now, avoid);
    if (!server.has_value()) return;
    const Run run = window_.FirstWaiting(ChunkOf(*server), asking_);
    window_.Ask(run, now);
    StartCall(*server, run, false);
  }
  while (WorthAsking()) {
    const auto server = servers_.Pick(now, 0);
    if (!server.has_value()) return;
    const uint64_t first = window_.end();
    // Free slots only become more meanwhile.
    const uint64_t count =
        std::min({ChunkOf(*server), Free(), asking_.total() - first,
                  asking_.LeftInEpoch(first)});
    if (count == 0) return;  // a Seek() has come
    const Run run = {first, count};
    window_.Append(run.count, now);
    end_.store(window_.end());
    StartCall(*server, run, false);
  }
}

void PrefetchLoader::StartCall(ServerId server, Run run, bool hedge) {
  const CallId id = next_call_++;
  const absl::Time now = now_();
  Call& call = calls_[id];
  call.server = server;
  call.run = run;
  call.unsettled = run.count;
  call.hedge = hedge;
  call.asked = now;
  call.progress = now;
  servers_.Asked(server, run.count, now);
  const Position first = asking_.At(run.first);
  transport_->StartCall(id, server, {first.epoch, first.step, run.count});
}

void PrefetchLoader::OnFrame(CallId id, FrameView& frame) {
  ApplySeek();
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  Call& call = it->second;
  call.frame_at = now_();
  if (call.Owes()) {
    call.progress = call.frame_at;
    servers_.Heard(call.server, call.progress);
  }
  if (absl::Status status = Receive(call, frame); !status.ok()) {
    const std::string address = servers_.AddressOf(call.server);
    const bool damaged = absl::IsDataLoss(status);
    const bool again = damaged && MayAskAgain(call);
    // Another answer to this step is under way, into another slot.
    const bool asked_of_others =
        (call.wanted && window_.at(call.number).calls > 1) ||
        AskedOfOthers(call);
    if (damaged && (again || asked_of_others)) {
      Damaged(call, call.frame_at, status);
      GiveUp(it);
    } else if (asked_of_others) {
      LeaveToOthers(call.server, call.frame_at, status);
      GiveUp(it);
    } else {
      transport_->CancelCall(id);
      Fail(WithErrorDetail(
          absl::Status(status.code(), absl::StrCat("server ", address, ": ",
                                                   status.message())),
          MakeErrorDetail("prefetch")));
    }
  }
  if (std::exchange(pump_, false)) Pump();
}

absl::Status PrefetchLoader::Receive(Call& call, FrameView& frame) {
  if (frame.has_header) {
    MR_RETURN_IF_ERROR(BeginBatch(call, frame));
  } else if (!call.in_batch || frame.step != asking_.At(call.number).step) {
    return absl::DataLossError(
        absl::StrCat("a frame of step ", frame.step,
                     " came before the header of its batch"));
  }
  if (frame.offset != call.received ||
      frame.payload_bytes() > call.payload_bytes - call.received) {
    return absl::DataLossError(absl::StrCat(
        "a frame with ", frame.payload_bytes(), " bytes for offset ",
        frame.offset, " came when ", call.received, " of ", call.payload_bytes,
        " bytes of the batch were there"));
  }
  if (!frame.has_header && frame.payload_bytes() == 0) {
    return absl::DataLossError(
        absl::StrCat("an empty frame came when ", call.received, " of ",
                     call.payload_bytes, " bytes of the batch were there"));
  }
  // Not when another call was faster.
  if (call.wanted && Keeps(frame)) {
    if (frame.data_bytes != call.payload_bytes) {
      return absl::DataLossError(
          "a part of a batch came in memory that is shared");
    }
    call.shared = std::move(frame.hold);
  } else if (call.wanted) {
    MR_RETURN_IF_ERROR(CopyFrameData(
        frame, {call.slot, static_cast<size_t>(call.payload_bytes)}));
    copy_seconds_ += absl::ToDoubleSeconds(now_() - call.frame_at);
  } else {
    extra_bytes_.fetch_add(frame.data_bytes);
  }
  wire_bytes_.fetch_add(frame.data_bytes, std::memory_order_relaxed);
  call.received += frame.payload_bytes();
  if (call.received < call.payload_bytes) return absl::OkStatus();
  return FinishBatch(call);
}

absl::Status PrefetchLoader::BeginBatch(Call& call, FrameView& frame) {
  const Position first = asking_.At(call.run.first);
  const BatchHeader& header = frame.header;
  if (call.in_batch) {
    return absl::DataLossError(absl::StrCat(
        "the batch of step ", header.step(), " began before the one of step ",
        asking_.At(call.number).step, " was whole"));
  }
  if (header.epoch() != first.epoch || header.step() < first.step ||
      header.step() - first.step >= call.run.count) {
    return absl::DataLossError(absl::StrCat(
        "a batch of ", Text({header.epoch(), header.step()}), " came when ",
        call.run.count, " steps from ", Text(first), " were asked for"));
  }
  expect_.epoch = header.epoch();
  expect_.step = header.step();
  MR_RETURN_IF_ERROR(ValidateBatchHeader(header, expect_));
  call.in_batch = true;
  call.begun = call.frame_at;
  call.number = call.run.first + (header.step() - first.step);
  call.payload_bytes = header.payload_bytes();
  call.received = 0;
  call.wanted = false;
  call.in_shared = frame.hold != nullptr;
  if (!window_.incomplete(call.number)) return absl::OkStatus();
  // A batch in shared memory comes whole, in this frame.
  if (!Keeps(frame)) MR_RETURN_IF_ERROR(TakeSlot(call));
  call.wanted = true;
  call.header = std::move(frame.header);
  return absl::OkStatus();
}

absl::Status PrefetchLoader::TakeSlot(Call& call) {
  StepWindow::Step& step = window_.at(call.number);
  if (step.arriving > 0) {
    call.slot = spares_used_ < spares_ ? pool_->TryTake() : nullptr;
    if (call.slot != nullptr) {
      ++step.arriving;
      ++spares_used_;
      return absl::OkStatus();
    }
    // No spare one: whose first frame is here goes before who is late.
    for (auto it = calls_.begin(); it != calls_.end();) {
      const auto other = it++;
      if (&other->second != &call && other->second.wanted &&
          other->second.number == call.number) {
        GiveUp(other);
      }
    }
  }
  MR_ASSIGN_OR_RETURN(call.slot, pool_->Take());
  ++step.arriving;
  return absl::OkStatus();
}

void PrefetchLoader::DropSlot(Call& call) {
  if (!std::exchange(call.wanted, false)) return;
  extra_bytes_.fetch_add(call.received);
  if (call.slot == nullptr) return;
  pool_->PutBack(std::exchange(call.slot, nullptr));
  if (--window_.at(call.number).arriving > 0) --spares_used_;
}

absl::Status PrefetchLoader::CheckPayload(const Call& call) const {
  const absl::Span<const uint8_t> payload = {
      call.shared != nullptr ? static_cast<const uint8_t*>(call.shared.get())
                             : call.slot,
      static_cast<size_t>(call.payload_bytes)};
  MR_RETURN_IF_ERROR(ValidatePayload(call.header, payload));
  if (options_.verify_payload && XXH3_64bits(payload.data(), payload.size()) !=
                                     call.header.payload_xxh3()) {
    return absl::DataLossError(absl::StrCat(
        "the payload of ", Text(asking_.At(call.number)),
        " differs from the digest that was sent with it: damaged on the way"));
  }
  return absl::OkStatus();
}

absl::Status PrefetchLoader::FinishBatch(Call& call) {
  call.in_batch = false;
  // A damaged batch is no progress.
  if (call.wanted) MR_RETURN_IF_ERROR(CheckPayload(call));
  const bool owed = call.Owes();
  if (call.unsettled > 0) {
    --call.unsettled;
    servers_.Settled(call.server, 1);
  }
  if (owed && servers_.Progress(call.server, call.frame_at - call.asked)) {
    MR_LOG(INFO) << "server " << servers_.AddressOf(call.server)
                 << " delivers again";
  }
  if (!call.wanted) return absl::OkStatus();
  StepWindow::Step& step = window_.at(call.number);
  hedge_.Delivered(call.frame_at - step.asked);
  if (step.calls > 1) EndLosers(call);
  step.arriving = 0;
  call.wanted = false;
  uint8_t* const slot = std::exchange(call.slot, nullptr);
  window_.MarkWhole(call.number);

  MutexLock lock(mu_);
  if (seek_pending_.load()) {
    if (slot != nullptr) pool_->PutBack(slot);
    call.shared.reset();
    return absl::OkStatus();
  }
  Ready& ready = ready_[call.number % slots_];
  MR_CHECK(!ready.full) << "a batch that was not consumed is replaced";
  ready.full = true;
  ready.slot = slot;
  ready.shared = std::move(call.shared);
  ready.server = CountBatch(call, call.header);
  ready.header = std::move(call.header);
  whole_below_ = window_.low();
  // That is what the consumer waits for, or will.
  late_at_ = window_.low() < window_.end()
                 ? window_.at(window_.low()).asked + hedge_.Delay()
                 : absl::InfiniteFuture();
  if (call.number == next_.load()) changed_.NotifyAll();
  return absl::OkStatus();
}

void PrefetchLoader::EndLosers(const Call& winner) {
  if (winner.hedge) hedge_wins_.fetch_add(1);
  for (auto it = calls_.begin(); it != calls_.end();) {
    const auto loser = it++;
    Call& call = loser->second;
    if (&call == &winner || !call.AsksFor(winner.number)) continue;
    if (call.asked < winner.asked) servers_.LostRace(call.server);
    if (call.in_batch && call.number == winner.number) DropSlot(call);
    bool owes = false;
    for (uint64_t i = 0; i < call.run.count; ++i) {
      const uint64_t number = call.run.first + i;
      owes |= number != winner.number && window_.incomplete(number);
    }
    if (owes) continue;
    transport_->CancelCall(loser->first);
    Forget(loser);
  }
}

void PrefetchLoader::GiveUp(Calls::iterator call) {
  transport_->CancelCall(call->first);
  DropSlot(call->second);
  LoseSteps(call->second);
  Forget(call);
  pump_ = true;
}

void PrefetchLoader::Forget(Calls::iterator call) {
  servers_.Settled(call->second.server, call->second.unsettled);
  calls_.erase(call);
}

size_t PrefetchLoader::CountBatch(const Call& call, const BatchHeader& header) {
  std::vector<ServerTimes>& all = stats_.by_server;
  // By address: a server that comes back counts on. Few: searched one by one.
  const std::string address = servers_.AddressOf(call.server);
  size_t i = 0;
  while (i < all.size() && all[i].address != address) {
    // Where servers come and go under names that are never used again, the
    // last place stands for all that follow.
    if (++i == kMostServerTimes) {
      --i;
      all[i].address = "others";
      break;
    }
  }
  if (i == all.size()) {
    all.emplace_back().address = address;
    last_whole_.push_back(absl::InfinitePast());
  }
  const absl::Time now = now_();
  ++all[i].batches;
  if (call.in_shared) ++all[i].shared_batches;
  all[i].AddStages(header);
  // Batches that arrive side by side count once.
  all[i].receive_seconds +=
      absl::ToDoubleSeconds(now - std::max(call.begun, last_whole_[i]));
  last_whole_[i] = now;
  stats_.copy_seconds = copy_seconds_;
  return i;
}

void PrefetchLoader::OnCallDone(CallId id, absl::Status status) {
  ApplySeek();
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  DropSlot(it->second);
  const Call call = it->second;
  Forget(it);
  if (failed_) return;
  if (status.ok()) {
    for (uint64_t i = 0; i < call.run.count; ++i) {
      if (!window_.incomplete(call.run.first + i)) continue;
      status = absl::UnavailableError(
          absl::StrCat("ended the stream without the batch of ",
                       Text(asking_.At(call.run.first + i))));
      break;
    }
    if (status.ok()) return;
  }
  const bool asked_of_others = AskedOfOthers(call);
  const bool servers_own = HasErrorDetail(status);
  const bool damaged = absl::IsDataLoss(status) && !servers_own;
  const bool again = damaged && MayAskAgain(call);
  LoseSteps(call);

  const absl::Time now = now_();
  const std::string address = servers_.AddressOf(call.server);
  const ErrorDetail detail = GetErrorDetail(status);
  // It has opened the plan: that its method is unknown now is a proxy's word.
  const bool lost_route = absl::IsUnimplemented(status) && !servers_own &&
                          !servers_.OthersMayServe(call.server);
  switch (lost_route ? absl::StatusCode::kUnavailable : status.code()) {
    case absl::StatusCode::kUnavailable: {
      const uint32_t failures =
          servers_.Failed(call.server, call.asked, now, status.message());
      // The first of a row, and then ever more rarely.
      if (absl::has_single_bit(failures)) {
        MR_LOG(WARNING) << "server " << address << ": " << status.message()
                        << "; its steps are asked again"
                        << (failures == 1
                                ? ""
                                : absl::StrCat(" (it has failed ", failures,
                                               " times in a row)"));
      }
      break;
    }
    case absl::StatusCode::kResourceExhausted:
      if (detail.retry_delay_ms() > 0) {
        refused_ = true;
        servers_.Paused(call.server, now,
                        absl::Milliseconds(detail.retry_delay_ms()));
        MR_LOG_EVERY(WARNING, kTroubleLogInterval)
            << "server " << address << " is busy: " << status.message();
        break;
      }
      [[fallthrough]];
    default: {
      if (damaged && (again || asked_of_others)) {
        Damaged(call, now, status);
        break;
      }
      const bool other_plan =
          status.code() == absl::StatusCode::kFailedPrecondition ||
          status.code() == absl::StatusCode::kNotFound ||
          status.code() == absl::StatusCode::kUnimplemented;
      if (other_plan && servers_.OthersMayServe(call.server)) {
        if (servers_.LeaveOut(call.server, now, status.message())) {
          MR_LOG(WARNING) << "server " << address
                          << " is left out, it does not serve this plan: "
                          << status.message();
        }
        break;
      }
      if (asked_of_others) {
        LeaveToOthers(call.server, now, status);
        break;
      }
      absl::Status error(
          FinalCode(status.code()),
          absl::StrCat("server ", address, ": ", status.message()));
      ErrorDetail where = detail;
      if (where.stage().empty()) where.set_stage("receive");
      Fail(WithErrorDetail(std::move(error), where));
      return;
    }
  }
  Pump();
}

bool PrefetchLoader::AskedOfOthers(const Call& call) {
  bool owes = false;
  for (uint64_t i = 0; i < call.run.count; ++i) {
    const uint64_t number = call.run.first + i;
    if (!window_.incomplete(number)) continue;
    if (window_.at(number).calls <= 1) return false;
    owes = true;
  }
  return owes;
}

bool PrefetchLoader::MayAskAgain(const Call& call) {
  uint64_t number = call.number;
  if (!call.wanted) {
    // Which step the frame was of is not known: the first that is owed.
    number = call.run.first;
    const uint64_t end = call.run.first + call.run.count;
    while (number < end && !window_.incomplete(number)) ++number;
    if (number == end) return true;
  }
  const bool first = !std::exchange(window_.at(number).damaged, true);
  return first && servers_.OthersMayServe(call.server);
}

void PrefetchLoader::Damaged(const Call& call, absl::Time now,
                             const absl::Status& why) {
  servers_.Failed(call.server, call.asked, now, why.message());
  MR_LOG(WARNING) << "server " << servers_.AddressOf(call.server) << ": "
                  << why.message() << "; another server is asked for it";
}

void PrefetchLoader::LeaveToOthers(ServerId server, absl::Time now,
                                   const absl::Status& why) {
  MR_LOG(WARNING) << "server " << servers_.AddressOf(server) << ": "
                  << why.message() << "; another one was asked, too";
  servers_.LeaveOut(server, now, why.message());
}

void PrefetchLoader::LoseSteps(const Call& call) {
  for (uint64_t i = 0; i < call.run.count; ++i) {
    const uint64_t number = call.run.first + i;
    if (!window_.incomplete(number)) continue;
    if (window_.Lost(number, call.server)) {
      retried_steps_.fetch_add(1);
      continue;
    }
    // Where it was asked because that call is silent it will not come from:
    // other servers may be asked once more.
    for (auto& [id, other] : calls_) {
      if (other.AsksFor(number)) other.asked_elsewhere = false;
    }
  }
}

std::vector<PrefetchLoader::Run> PrefetchLoader::Owed(const Call& call,
                                                      absl::Time now) {
  std::vector<Run> runs;
  for (uint64_t i = 0; i < call.run.count; ++i) {
    const uint64_t number = call.run.first + i;
    if (!window_.incomplete(number)) continue;
    const bool covered =
        window_.at(number).calls > 1 &&
        std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
          const Call& other = entry.second;
          return &other != &call && other.AsksFor(number) &&
                 !servers_.IsSilent(other.server, now);
        });
    if (covered) continue;
    if (runs.empty() || runs.back().first + runs.back().count != number) {
      runs.push_back({number, 0});
    }
    ++runs.back().count;
  }
  return runs;
}

absl::Duration PrefetchLoader::SilentAfter() const {
  return options_.hedge_share > 0
             ? std::min(options_.step_timeout,
                        std::max(kSilentAtLeast,
                                 kSilentDelays * hedge_.Delay()))
             : options_.step_timeout;
}

void PrefetchLoader::WatchProgress() {
  if (failed_) return;
  const absl::Time now = now_();
  const absl::Duration delay = hedge_.Delay();
  const absl::Duration silent_after = SilentAfter();
  struct Again {
    CallId call = 0;
    ServerId at = 0;
    Run run;
    absl::Duration patience;
    bool hedge = false;
  };
  std::vector<CallId> over;
  std::vector<Again> again;
  for (auto& [id, call] : calls_) {
    const bool call_silent = now - call.progress >= options_.step_timeout;
    const absl::Duration quiet = servers_.Quiet(call.server, now);
    // Who was asked later was faster, and nothing has come since: enough to
    // ask for all its steps elsewhere, once what was asked before is paid.
    const bool hedge =
        hedge_.Solvent() && quiet >= delay && servers_.HasLostRace(call.server);
    if (!call_silent && quiet < silent_after && !hedge) continue;
    if (call.asked_elsewhere) continue;
    const std::vector<Run> owed = Owed(call, now);
    if (owed.empty()) {
      if (call_silent) over.push_back(id);
      continue;
    }
    const absl::Duration patience =
        call_silent ? options_.step_timeout : std::min(delay, silent_after);
    const bool silent = call_silent || quiet >= silent_after;
    const bool alone =
        !servers_.PickOther(now, call.server, patience, silent).has_value();
    // Without another server to ask there is nobody to prefer.
    if (alone && !call_silent) continue;
    if (servers_.Silent(call.server, now)) {
      MR_LOG(WARNING) << "server " << servers_.AddressOf(call.server)
                      << " has sent nothing for "
                      << absl::FormatDuration(
                             absl::Trunc(std::max(quiet, now - call.progress),
                                         absl::Milliseconds(1)))
                      << " and owes " << Text(asking_.At(owed.front().first))
                      << (alone ? ": there is no other server to ask"
                                : ": other servers are asked for its steps, "
                                  "too");
    }
    if (alone) continue;
    call.asked_elsewhere = true;
    for (const Run& run : owed) {
      again.push_back({id, call.server, run, patience, !silent});
    }
  }
  for (const CallId id : over) {
    // Of two that cover each other one stays.
    const auto call = calls_.find(id);
    if (Owed(call->second, now).empty()) GiveUp(call);
  }
  for (const Again& ask : again) {
    const auto other =
        servers_.PickOther(now, ask.at, ask.patience, !ask.hedge);
    if (!other.has_value()) {
      calls_.at(ask.call).asked_elsewhere = false;
      continue;
    }
    (ask.hedge ? hedged_steps_ : retried_steps_).fetch_add(ask.run.count);
    if (ask.hedge) hedge_.Spend(ask.run.count);
    window_.Ask(ask.run, now);
    StartCall(*other, ask.run, ask.hedge);
  }
}

void PrefetchLoader::HedgeLateSteps() {
  const absl::Duration delay = hedge_.Delay();
  if (failed_ || hedge_.Affordable() == 0 || servers_.usable() < 2 ||
      delay == absl::InfiniteDuration()) {
    return;
  }
  const absl::Time now = now_();
  absl::Duration consumer_step;
  {
    MutexLock lock(mu_);
    consumer_step = consumer_step_;
  }
  const uint64_t next = next_.load();
  Run run;
  ServerId first_at = 0;
  for (uint64_t number = window_.low(); number < window_.end(); ++number) {
    if (!window_.incomplete(number)) {
      if (run.count > 0) break;
      continue;
    }
    const StepWindow::Step& step = window_.at(number);
    // Later ones were asked later, and are needed later: what the consumer
    // comes to after one more delay can wait until then.
    if (now - step.asked < delay ||
        static_cast<double>(number - std::min(next, number)) * consumer_step >
            delay) {
      break;
    }
    if (step.state != StepWindow::State::kAsked || step.calls != 1) {
      if (run.count > 0) break;
      continue;
    }
    const auto asked = std::find_if(
        calls_.begin(), calls_.end(),
        [number](const auto& entry) { return entry.second.AsksFor(number); });
    if (asked == calls_.end()) break;
    const Call& call = asked->second;
    // Its frames are coming: no other would be faster.
    const bool arriving = call.in_batch && call.number == number &&
                          now - call.progress < delay / 4;
    if (arriving || (run.count > 0 && call.server != first_at)) {
      if (run.count > 0) break;
      continue;
    }
    if (run.count == 0) {
      run.first = number;
      first_at = call.server;
    }
    if (++run.count == hedge_.Affordable()) break;
  }
  if (run.count == 0) return;
  run.count = std::min(run.count, asking_.LeftInEpoch(run.first));
  const auto other = servers_.PickOther(now, first_at, delay);
  if (!other.has_value()) return;
  MR_LOG_EVERY(INFO, kTroubleLogInterval)
      << Text(asking_.At(run.first)) << " is late at server "
      << servers_.AddressOf(first_at) << " ("
      << absl::FormatDuration(absl::Trunc(now - window_.at(run.first).asked,
                                          absl::Milliseconds(1)))
      << ", usual are less than "
      << absl::FormatDuration(absl::Trunc(delay, absl::Milliseconds(1)))
      << "): asking " << servers_.AddressOf(*other) << ", too";
  hedged_steps_.fetch_add(run.count);
  hedge_.Spend(run.count);
  window_.Ask(run, now);
  StartCall(*other, run, true);
}

void PrefetchLoader::SayWhenNobodyAnswers() {
  if (failed_) return;
  const absl::Time now = now_();
  std::string text = servers_.Describe();
  if (servers_.usable() > 0) {
    next_trouble_log_ = now;
  } else if (now >= next_trouble_log_ && end_.load() > next_.load()) {
    next_trouble_log_ = now + kTroubleLogInterval;
    MR_LOG(WARNING) << "no server of endpoint " << options_.endpoint
                    << " answers (" << text << "): waiting for "
                    << Text(asking_.At(next_.load()));
  }
  const bool nobody_answers = !servers_.AnyAnswers(now, SilentAfter());
  MutexLock lock(mu_);
  nobody_answers_ = nobody_answers;
  if (nobody_answers) stats_.no_answer = text;
  servers_text_ = std::move(text);
}

void PrefetchLoader::Tune() {
  const absl::Time now = now_();
  const uint32_t before = tuner_.window();
  {
    MutexLock lock(mu_);
    // Towards the end of the data there is not enough to ask for.
    if (failed_ || seek_pending_.load() || stats_.batches == 0 ||
        last_return_ == absl::InfinitePast() ||
        generation_ != counted_.generation || end_.load() == total_.load()) {
      tuner_.Disturbed();
      CountAnew(now);
      return;
    }
    switch (tuner_.Look(stats_.batches - counted_.batches,
                        absl::ToDoubleSeconds(now - counted_.at))) {
      case WindowTuner::Next::kGoOn:
        break;
      case WindowTuner::Next::kCountAnew:
        CountAnew(now);
        break;
      case WindowTuner::Next::kDecide: {
        const bool changed = tuner_.Decide(Seen());
        CountAnew(now);
        if (!changed) break;
        stats_.window_changes = tuner_.changes();
        stats_.window_reason = tuner_.reason();
        wanted_.store(tuner_.window());
      }
    }
  }
  if (tuner_.window() == before) {
    TrimSlots(now);
    return;
  }
  trim_at_ = absl::InfinitePast();
  MR_LOG_EVERY(INFO, kTroubleLogInterval)
      << "window " << before << " -> " << tuner_.window() << ": "
      << tuner_.reason();
}

WindowInterval PrefetchLoader::Seen() const {
  WindowInterval seen;
  // From batch to batch, so that no part of one is counted.
  seen.seconds = absl::ToDoubleSeconds(last_return_ - counted_.returned);
  seen.batches = stats_.batches - counted_.batches;
  seen.stall_seconds = stats_.wait_seconds - counted_.wait_seconds;
  seen.least_in_hand = least_in_hand_;
  seen.servers = usable_.load();
  double all = 0;
  double lack_memory = 0;
  double busy = 0;
  for (const ServerTimes& server :
       Difference(stats_.by_server, counted_.by_server)) {
    const double batches = static_cast<double>(server.batches);
    all += batches;
    switch (CauseAt(server, seen.seconds)) {
      case WaitCause::kMemory:
        lack_memory += batches;
        break;
      case WaitCause::kDecoding:
      case WaitCause::kAugmenting:
      case WaitCause::kWork:
        // Idle is what its threads were while it made batches: between them it
        // may have had none to make.
        if (server.make_seconds >= kBusy * seen.seconds) busy += batches;
        break;
      default:
        break;
    }
  }
  seen.servers_lack_memory = refused_ || lack_memory > kMostBatches * all;
  seen.servers_are_busy = busy > kMostBatches * all;
  return seen;
}

void PrefetchLoader::CountAnew(absl::Time now) {
  counted_.at = now;
  counted_.returned = last_return_;
  counted_.generation = generation_;
  counted_.batches = stats_.batches;
  counted_.wait_seconds = stats_.wait_seconds;
  counted_.by_server = stats_.by_server;
  refused_ = false;
  least_in_hand_ = slots_;
}

void PrefetchLoader::TrimSlots(absl::Time now) {
  if (trim_at_ == absl::InfinitePast()) {
    pool_->BeginTrim();
    trim_at_ = now + kTrimAfter;
  }
  if (now < trim_at_) return;
  // One at a time: pinned memory takes long to give back.
  if (!pool_->TrimOne(tuner_.window() + spares_ + pool_->held())) {
    trim_at_ = absl::InfinitePast();
  }
}

void PrefetchLoader::Fail(absl::Status error) {
  failed_ = true;
  while (!calls_.empty()) {
    transport_->CancelCall(calls_.begin()->first);
    DropSlot(calls_.begin()->second);
    Forget(calls_.begin());
  }
  MutexLock lock(mu_);
  // Seek() ends errors of the place before it.
  if (error_.ok() && !seek_pending_.load()) error_ = std::move(error);
  changed_.NotifyAll();
}

}  // namespace

absl::Time MonotonicNow() {
  return absl::UnixEpoch() +
         absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

absl::Status HostLoaderOptions::Validate() const {
  if (endpoint.empty()) {
    return absl::InvalidArgumentError(
        "no endpoint: give host:port of a data server");
  }
  if (world_size == 0) {
    return absl::InvalidArgumentError("world size 0: there is at least 1 rank");
  }
  if (rank >= world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " does not exist in a world of ",
                     world_size, ": ranks count from 0"));
  }
  constexpr uint32_t kMostSlots = 1 << 16;
  if (window == 1 || window > kMostSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("a window of ", window,
                     " batches: give 0 for one that follows what is measured, "
                     "or 2 to ",
                     kMostSlots));
  }
  if (window != 0 && initial_window != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a fixed window of ", window, " and an initial one of ", initial_window,
        ": give only one; the initial one is where a window begins that "
        "follows what is measured"));
  }
  if (open_timeout <= absl::ZeroDuration() ||
      next_timeout <= absl::ZeroDuration() ||
      step_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("a timeout must be longer than 0");
  }
  if (!(hedge_share >= 0 && hedge_share <= 1) ||
      hedge_floor < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a hedge share of ", hedge_share, " with a floor of ",
        absl::FormatDuration(hedge_floor),
        ": give a share of the steps from 0 (never) to 1, and a floor that is "
        "not negative"));
  }
  return absl::OkStatus();
}

uint32_t ChooseWindow(const HostLoaderOptions& options,
                      uint64_t max_payload_bytes) {
  if (options.window != 0) return options.window;
  const uint64_t fit =
      options.window_bytes / std::max<uint64_t>(1, max_payload_bytes);
  return static_cast<uint32_t>(std::clamp<uint64_t>(fit, 4, kLargestWindow));
}

uint32_t ChooseFirstWindow(const HostLoaderOptions& options,
                           uint64_t max_payload_bytes) {
  const uint32_t most = ChooseWindow(options, max_payload_bytes);
  if (options.window != 0) return most;
  const uint64_t cheap =
      kFirstWindowBytes / std::max<uint64_t>(1, max_payload_bytes);
  const uint64_t first =
      options.initial_window != 0
          ? options.initial_window
          : std::clamp(cheap, kLeastFirstWindow, kMostFirstWindow);
  return static_cast<uint32_t>(std::min<uint64_t>(first, most));
}

absl::StatusOr<std::unique_ptr<HostLoader>> NewPrefetchLoader(
    const HostLoaderOptions& options, OpenResponse plan,
    std::unique_ptr<BatchTransport> transport, absl::Time opened_at,
    std::function<absl::Time()> now, std::function<void(absl::Duration)> wait) {
  MR_RETURN_IF_ERROR(options.Validate());
  MR_ASSIGN_OR_RETURN(
      Sequence sequence,
      Sequence::Create(options.start, options.epochs, plan.steps_per_epoch()));
  const uint32_t slots = ChooseWindow(options, plan.max_payload_bytes());
  auto loader = std::make_unique<PrefetchLoader>(
      options, std::move(plan), sequence, slots, std::move(transport),
      opened_at, std::move(now), std::move(wait));
  loader->Start();
  return loader;
}

}  // namespace millrace
