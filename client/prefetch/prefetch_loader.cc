#include "client/prefetch/prefetch_loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/prefetch/sequence.h"
#include "client/prefetch/server_set.h"
#include "client/prefetch/server_times.h"
#include "client/prefetch/slot_pool.h"
#include "client/prefetch/step_window.h"
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

// Servers that times are kept of.
constexpr size_t kMostServerTimes = 256;

std::string Text(Position position) {
  return absl::StrCat("epoch ", position.epoch, " step ", position.step);
}

class PrefetchLoader final : public HostLoader, private TransportEvents {
 public:
  PrefetchLoader(const HostLoaderOptions& options, OpenResponse plan,
                 Sequence sequence, uint32_t window,
                 std::unique_ptr<BatchTransport> transport,
                 absl::Time opened_at, std::function<absl::Time()> now);
  ~PrefetchLoader() override { Close(); }

  void Start() { transport_->Start(this); }

  const OpenResponse& plan() const override { return plan_; }
  uint32_t window() const override { return pool_->slots(); }
  absl::StatusOr<HostBatch> Next() override;
  Position position() const override { return sequence_.At(next_.load()); }
  Stats stats() const override;
  void Close() override;

 private:
  using Run = StepWindow::Run;

  // A request for `run` at one server.
  struct Call {
    ServerId server = 0;
    Run run;
    uint64_t unsettled = 0;  // batches that it has not delivered yet
    absl::Time progress;     // of the last frame, or of the asking
    bool asked_elsewhere = false;
    // The batch whose frames are arriving.
    bool in_batch = false;
    uint64_t number = 0;
    uint64_t payload_bytes = 0;
    uint64_t received = 0;
    absl::Time begun;  // its first frame came
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

  // Asks for what waits, then for what is new.
  void Pump();
  void StartCall(ServerId server, Run run);
  // Gives the steps of silent calls to other servers too.
  void WatchProgress();
  void SayWhenNobodyAnswers();
  absl::Status Receive(Call& call, FrameView& frame);
  absl::Status BeginBatch(Call& call, FrameView& frame);
  absl::Status FinishBatch(Call& call);
  // The frame's payload is handed out where it lies.
  bool Keeps(const FrameView& frame) const {
    return frame.hold != nullptr && options_.read_only_payload;
  }
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
  uint64_t Free() const;
  bool WorthAsking() const;
  absl::Status TimeoutError(absl::Duration waited) const MR_REQUIRES(mu_);

  const HostLoaderOptions options_;
  const OpenResponse plan_;
  const Sequence sequence_;
  const absl::Time opened_at_;
  const std::function<absl::Time()> now_;
  const std::shared_ptr<SlotPool> pool_;
  const std::unique_ptr<BatchTransport> transport_;

  // Self-synchronised. Written by the consumer.
  std::atomic<uint64_t> next_{0};  // the batch that Next() hands out next
  // Written by the transport's thread.
  std::atomic<uint64_t> end_{0};  // the first batch not asked for
  std::atomic<uint32_t> usable_{0};
  std::atomic<uint64_t> retried_steps_{0};

  // Touched by the transport's thread only.
  BatchExpectation expect_;
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
  std::vector<Ready> ready_ MR_GUARDED_BY(mu_);  // ring, by number
  std::string servers_text_ MR_GUARDED_BY(mu_);
  Stats stats_ MR_GUARDED_BY(mu_);

  Mutex close_mu_;
  bool stopped_ MR_GUARDED_BY(close_mu_) = false;
};

PrefetchLoader::PrefetchLoader(const HostLoaderOptions& options,
                               OpenResponse plan, Sequence sequence,
                               uint32_t window,
                               std::unique_ptr<BatchTransport> transport,
                               absl::Time opened_at,
                               std::function<absl::Time()> now)
    : options_(options),
      plan_(std::move(plan)),
      sequence_(sequence),
      opened_at_(opened_at),
      now_(std::move(now)),
      pool_(std::make_shared<SlotPool>(options.allocator != nullptr
                                           ? options.allocator
                                           : NewPlainSlotAllocator(),
                                       window, plan_.max_payload_bytes())),
      transport_(std::move(transport)),
      window_(window),
      servers_(
          static_cast<uint64_t>(absl::ToUnixNanos(opened_at)) ^ options.rank,
          options.rank),
      ready_(window) {
  expect_.tensors = &plan_.tensors();
  expect_.rank = options_.rank;
  expect_.world_size = options_.world_size;
  expect_.max_payload_bytes = plan_.max_payload_bytes();
  expect_.max_rows = plan_.resolved_spec().batch_size() / options_.world_size;
  pool_->OnRelease([this] {
    if (WorthAsking()) transport_->Wake();
  });
}

// --- the consumer -----------------------------------------------------------

absl::StatusOr<HostBatch> PrefetchLoader::Next() {
  HostBatch batch;
  {
    MutexLock lock(mu_);
    const uint64_t number = next_.load();
    Ready& ready = ready_[number % ready_.size()];
    absl::Time started = absl::InfinitePast();
    while (!ready.full || closed_) {
      if (closed_) return absl::CancelledError("the loader was closed");
      if (!error_.ok()) return error_;
      if (number >= sequence_.total()) {
        return absl::OutOfRangeError(absl::StrCat("all batches up to ",
                                                  Text(sequence_.At(number)),
                                                  " were delivered"));
      }
      const absl::Time now = now_();
      if (started == absl::InfinitePast()) started = now;
      if (now - started >= options_.next_timeout) {
        stats_.wait_seconds += absl::ToDoubleSeconds(now - started);
        return TimeoutError(now - started);
      }
      // In pieces: the condition's clock is the wall's, which may jump.
      changed_.WaitUntil(
          lock, absl::Now() + std::min(absl::Milliseconds(200),
                                       started + options_.next_timeout - now));
    }
    if (started != absl::InfinitePast()) {
      const double waited = absl::ToDoubleSeconds(now_() - started);
      stats_.wait_seconds += waited;
      stats_.by_server[ready.server].waited_seconds += waited;
    }
    if (stats_.batches++ == 0) {
      stats_.first_batch_seconds = absl::ToDoubleSeconds(now_() - opened_at_);
    }
    batch.position = sequence_.At(number);
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

absl::Status PrefetchLoader::TimeoutError(absl::Duration waited) const {
  const std::string what =
      absl::StrCat("no batch within ", absl::FormatDuration(waited));
  if (pool_->held() == pool_->slots()) {
    return absl::DeadlineExceededError(absl::StrCat(
        what, ": all ", pool_->slots(),
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
  }
  stats.retried_steps = retried_steps_.load();
  stats.servers = usable_.load();
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
  const uint64_t chunk = (pool_->slots() - held) / (2 * usable);
  return std::max<uint64_t>(1,
                            std::min(chunk, sequence_.total() - end_.load()));
}

uint64_t PrefetchLoader::Free() const {
  // Next() counts a slot as held before it counts the batch as handed out, so
  // that this order of reading never finds more free slots than there are.
  const uint64_t next = next_.load();
  const uint64_t used = end_.load() - next + pool_->held();
  return pool_->slots() - std::min<uint64_t>(used, pool_->slots());
}

bool PrefetchLoader::WorthAsking() const {
  return end_.load() < sequence_.total() && Free() >= ChunkFor(pool_->held());
}

// --- the transport's thread -------------------------------------------------

void PrefetchLoader::OnServers(absl::Span<const ServerState> servers) {
  servers_.Update(servers);
  Pump();
}

void PrefetchLoader::OnTick() {
  WatchProgress();
  Pump();
  SayWhenNobodyAnswers();
}

void PrefetchLoader::Pump() {
  usable_.store(servers_.usable());
  if (failed_) return;
  const absl::Time now = now_();
  while (window_.has_waiting()) {
    const Run run = window_.FirstWaiting(ChunkFor(pool_->held()), sequence_);
    const auto server = servers_.Pick(now, window_.at(run.first).avoid);
    if (!server.has_value()) return;
    window_.Ask(run);
    StartCall(*server, run);
  }
  while (WorthAsking()) {
    const auto server = servers_.Pick(now, 0);
    if (!server.has_value()) return;
    const uint64_t first = window_.end();
    // Free slots only become more meanwhile.
    const uint64_t count = std::min(ChunkFor(pool_->held()), Free());
    const Run run = {first, std::min(count, sequence_.LeftInEpoch(first))};
    window_.Append(run.count);
    end_.store(window_.end());
    StartCall(*server, run);
  }
}

void PrefetchLoader::StartCall(ServerId server, Run run) {
  const CallId id = next_call_++;
  Call& call = calls_[id];
  call.server = server;
  call.run = run;
  call.unsettled = run.count;
  call.progress = now_();
  servers_.Asked(server, run.count);
  const Position first = sequence_.At(run.first);
  transport_->StartCall(id, server, {first.epoch, first.step, run.count});
}

void PrefetchLoader::OnFrame(CallId id, FrameView& frame) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  Call& call = it->second;
  call.progress = now_();
  if (absl::Status status = Receive(call, frame); !status.ok()) {
    transport_->CancelCall(id);
    Fail(WithErrorDetail(
        absl::Status(status.code(),
                     absl::StrCat("server ", servers_.AddressOf(call.server),
                                  ": ", status.message())),
        MakeErrorDetail("prefetch")));
  }
}

absl::Status PrefetchLoader::Receive(Call& call, FrameView& frame) {
  if (frame.has_header) {
    MR_RETURN_IF_ERROR(BeginBatch(call, frame));
  } else if (!call.in_batch || frame.step != sequence_.At(call.number).step) {
    return absl::DataLossError(
        absl::StrCat("a frame of step ", frame.step,
                     " came before the header of its batch"));
  }
  if (frame.offset != call.received ||
      frame.data_bytes > call.payload_bytes - call.received) {
    return absl::DataLossError(
        absl::StrCat("a frame with ", frame.data_bytes, " bytes for offset ",
                     frame.offset, " came when ", call.received, " of ",
                     call.payload_bytes, " bytes of the batch were there"));
  }
  // Not when another call was faster: the slot may be the consumer's already.
  if (window_.incomplete(call.number) && Keeps(frame)) {
    if (frame.data_bytes != call.payload_bytes) {
      return absl::DataLossError(
          "a part of a batch came in memory that is shared");
    }
    window_.at(call.number).shared = std::move(frame.hold);
  } else if (window_.incomplete(call.number)) {
    MR_RETURN_IF_ERROR(
        CopyFrameData(frame, {window_.at(call.number).slot,
                              static_cast<size_t>(call.payload_bytes)}));
    copy_seconds_ += absl::ToDoubleSeconds(now_() - call.progress);
  }
  call.received += frame.data_bytes;
  if (call.received < call.payload_bytes) return absl::OkStatus();
  return FinishBatch(call);
}

absl::Status PrefetchLoader::BeginBatch(Call& call, FrameView& frame) {
  const Position first = sequence_.At(call.run.first);
  const BatchHeader& header = frame.header;
  if (call.in_batch) {
    return absl::DataLossError(absl::StrCat(
        "the batch of step ", header.step(), " began before the one of step ",
        sequence_.At(call.number).step, " was whole"));
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
  call.begun = call.progress;
  call.number = call.run.first + (header.step() - first.step);
  call.payload_bytes = header.payload_bytes();
  call.received = 0;
  if (!window_.incomplete(call.number)) return absl::OkStatus();
  StepWindow::Step& step = window_.at(call.number);
  if (step.slot == nullptr) {
    if (!Keeps(frame)) {
      MR_ASSIGN_OR_RETURN(step.slot, pool_->Take());
    }
  } else if (step.header.payload_bytes() != header.payload_bytes()) {
    return absl::DataLossError(absl::StrCat(
        "the batch of ", Text(first), " has ", header.payload_bytes(),
        " bytes here and ", step.header.payload_bytes(),
        " bytes at the server that was asked before"));
  }
  step.header = std::move(frame.header);
  return absl::OkStatus();
}

absl::Status PrefetchLoader::FinishBatch(Call& call) {
  call.in_batch = false;
  if (call.unsettled > 0) {
    --call.unsettled;
    servers_.Settled(call.server, 1);
  }
  servers_.Progress(call.server);
  if (!window_.incomplete(call.number)) return absl::OkStatus();
  StepWindow::Step& step = window_.at(call.number);
  if (step.shared != nullptr && step.slot != nullptr) {
    // Another call has begun to fill it.
    pool_->PutBack(std::exchange(step.slot, nullptr));
  }
  const absl::Span<const uint8_t> payload = {
      step.shared != nullptr ? static_cast<const uint8_t*>(step.shared.get())
                             : step.slot,
      static_cast<size_t>(call.payload_bytes)};
  MR_RETURN_IF_ERROR(ValidatePayload(step.header, payload));
  if (options_.verify_payload && XXH3_64bits(payload.data(), payload.size()) !=
                                     step.header.payload_xxh3()) {
    return absl::DataLossError(absl::StrCat(
        "the payload of ", Text(sequence_.At(call.number)),
        " differs from the digest that was sent with it: damaged on the way"));
  }
  window_.MarkWhole(call.number);
  MutexLock lock(mu_);
  Ready& ready = ready_[call.number % ready_.size()];
  MR_CHECK(!ready.full) << "a batch that was not consumed is replaced";
  ready.full = true;
  ready.slot = step.slot;
  ready.shared = std::move(step.shared);
  ready.server = CountBatch(call, step.header);
  ready.header = std::move(step.header);
  if (call.number == next_.load()) changed_.NotifyAll();
  return absl::OkStatus();
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
  all[i].AddStages(header);
  // Batches that arrive side by side count once.
  all[i].receive_seconds +=
      absl::ToDoubleSeconds(now - std::max(call.begun, last_whole_[i]));
  last_whole_[i] = now;
  stats_.copy_seconds = copy_seconds_;
  return i;
}

void PrefetchLoader::OnCallDone(CallId id, absl::Status status) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  const Call call = it->second;
  calls_.erase(it);
  servers_.Settled(call.server, call.unsettled);
  if (failed_) return;
  if (status.ok()) {
    for (uint64_t i = 0; i < call.run.count; ++i) {
      if (!window_.incomplete(call.run.first + i)) continue;
      status = absl::UnavailableError(
          absl::StrCat("ended the stream without the batch of ",
                       Text(sequence_.At(call.run.first + i))));
      break;
    }
    if (status.ok()) return;
  }
  LoseSteps(call);

  const absl::Time now = now_();
  const std::string address = servers_.AddressOf(call.server);
  const ErrorDetail detail = GetErrorDetail(status);
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      if (servers_.Failed(call.server, now, status.message())) {
        MR_LOG(WARNING) << "server " << address << ": " << status.message()
                        << "; its steps are asked again";
      }
      break;
    case absl::StatusCode::kResourceExhausted:
      if (detail.retry_delay_ms() > 0) {
        servers_.Paused(call.server, now,
                        absl::Milliseconds(detail.retry_delay_ms()));
        MR_LOG_EVERY(WARNING, kTroubleLogInterval)
            << "server " << address << " is busy: " << status.message();
        break;
      }
      [[fallthrough]];
    default: {
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
      absl::Status error(status.code(), absl::StrCat("server ", address, ": ",
                                                     status.message()));
      ErrorDetail where = detail;
      if (where.stage().empty()) where.set_stage("receive");
      Fail(WithErrorDetail(std::move(error), where));
      return;
    }
  }
  Pump();
}

void PrefetchLoader::LoseSteps(const Call& call) {
  for (uint64_t i = 0; i < call.run.count; ++i) {
    const uint64_t number = call.run.first + i;
    if (window_.incomplete(number) && window_.Lost(number, call.server)) {
      retried_steps_.fetch_add(1);
    }
  }
}

void PrefetchLoader::WatchProgress() {
  if (failed_) return;
  const absl::Time now = now_();
  std::vector<CallId> over;
  std::vector<std::pair<ServerId, Run>> again;
  for (auto& [id, call] : calls_) {
    if (now - call.progress < options_.step_timeout) continue;
    std::vector<Run> missing;
    for (uint64_t i = 0; i < call.run.count; ++i) {
      const uint64_t number = call.run.first + i;
      if (!window_.incomplete(number)) continue;
      // Those of an earlier epoch do not occur: a run lies within one.
      if (missing.empty() ||
          missing.back().first + missing.back().count != number) {
        missing.push_back({number, 0});
      }
      ++missing.back().count;
    }
    if (missing.empty()) {
      over.push_back(id);
      continue;
    }
    servers_.Silent(call.server, now);
    if (call.asked_elsewhere) continue;
    const auto other = servers_.PickOther(now, call.server);
    if (!other.has_value()) continue;
    call.asked_elsewhere = true;
    MR_LOG(WARNING) << "server " << servers_.AddressOf(call.server)
                    << " has sent nothing of "
                    << Text(sequence_.At(missing.front().first)) << " for "
                    << absl::FormatDuration(now - call.progress)
                    << ": asking another server too";
    for (const Run& run : missing) {
      retried_steps_.fetch_add(run.count);
      again.emplace_back(*other, run);
    }
  }
  for (const CallId id : over) {
    transport_->CancelCall(id);
    servers_.Settled(calls_[id].server, calls_[id].unsettled);
    calls_.erase(id);
  }
  for (const auto& [server, run] : again) {
    window_.Ask(run);
    StartCall(server, run);
  }
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
                    << Text(sequence_.At(next_.load()));
  }
  MutexLock lock(mu_);
  servers_text_ = std::move(text);
}

void PrefetchLoader::Fail(absl::Status error) {
  failed_ = true;
  for (const auto& [id, call] : calls_) transport_->CancelCall(id);
  calls_.clear();
  MutexLock lock(mu_);
  if (error_.ok()) error_ = std::move(error);
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
                     " batches: give 0 for the default, or 2 to ", kMostSlots));
  }
  if (open_timeout <= absl::ZeroDuration() ||
      next_timeout <= absl::ZeroDuration() ||
      step_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("a timeout must be longer than 0");
  }
  return absl::OkStatus();
}

uint32_t ChooseWindow(const HostLoaderOptions& options,
                      uint64_t max_payload_bytes) {
  if (options.window != 0) return options.window;
  const uint64_t fit =
      options.window_bytes / std::max<uint64_t>(1, max_payload_bytes);
  return static_cast<uint32_t>(std::clamp<uint64_t>(fit, 4, 64));
}

absl::StatusOr<std::unique_ptr<HostLoader>> NewPrefetchLoader(
    const HostLoaderOptions& options, OpenResponse plan,
    std::unique_ptr<BatchTransport> transport, absl::Time opened_at,
    std::function<absl::Time()> now) {
  MR_RETURN_IF_ERROR(options.Validate());
  MR_ASSIGN_OR_RETURN(
      Sequence sequence,
      Sequence::Create(options.start, options.epochs, plan.steps_per_epoch()));
  const uint32_t window = ChooseWindow(options, plan.max_payload_bytes());
  auto loader = std::make_unique<PrefetchLoader>(
      options, std::move(plan), sequence, window, std::move(transport),
      opened_at, std::move(now));
  loader->Start();
  return loader;
}

}  // namespace millrace
