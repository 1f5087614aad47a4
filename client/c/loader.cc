#include "client/c/loader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/c/plan_json.h"
#include "client/diagnosis/wait_verdict.h"
#include "client/receive/open_host_loader.h"
#include "client/receive/server_queries.h"
#include "common/monotonic_now.h"
#include "common/status_macros.h"

namespace millrace::c {
namespace {

absl::Status Closed() { return absl::CancelledError("the loader was closed"); }

// JudgeWait() is written for a loader that copies to a device, too.
struct WaitStats {
  HostLoader::Stats host;
  double wait_seconds = 0;
  double copy_seconds = 0;
  double device_copy_seconds = 0;
};

WaitStats WaitStatsOf(const HostLoader::Stats& stats) {
  return {.host = stats, .wait_seconds = stats.wait_seconds};
}

}  // namespace

Loader::Loader(LoadRequest request)
    : request_(std::move(request)),
      opened_at_(MonotonicNow()),
      told_at_(opened_at_) {
  MutexLock lock(close_mu_);
  opener_ = NamedThread("mr-open", [this] { Open(); });
}

void Loader::Open() {
  absl::StatusOr<std::unique_ptr<Opened>> opened = Closed();
  try {
    opened = OpenHost();
  } catch (...) {
    opened = StatusOfException();
  }
  std::unique_ptr<Opened> late;  // closed meanwhile: it ends without the lock
  MutexLock lock(mu_);
  if (closed_) {
    if (opened.ok()) late = *std::move(opened);
    return;
  }
  if (opened.ok()) {
    opened_ = *std::move(opened);
  } else {
    failure_ = opened.status();
  }
  changed_.NotifyAll();
}

absl::StatusOr<std::unique_ptr<Loader::Opened>> Loader::OpenHost() {
  HostLoaderOptions& options = request_.options;
  if (!request_.preset_of.empty()) {
    MR_ASSIGN_OR_RETURN(
        const DatasetInfo info,
        receive::DescribeDataset(options.endpoint, request_.preset_of,
                                 options.open_timeout, &cancelled_));
    options.spec.set_preset(info.train_preset());
  }
  auto opened = std::make_unique<Opened>();
  MR_ASSIGN_OR_RETURN(opened->host,
                      receive::OpenHostLoader(options, &cancelled_));
  const OpenResponse& plan = opened->host->plan();
  opened->batch_plan = MakeBatchPlan(plan, options.read_only_payload);
  opened->plan_hash = absl::BytesToHexString(plan.plan_hash());
  opened->plan_json = PlanJson(plan);
  return opened;
}

absl::StatusOr<Loader::Opened*> Loader::AwaitOpen(SteadyTime deadline) {
  MutexLock lock(mu_);
  while (true) {
    if (closed_) return Closed();
    if (!failure_.ok()) return failure_;
    if (opened_ != nullptr) return opened_.get();
    if (SteadyTime::clock::now() >= deadline) return nullptr;
    changed_.WaitUntil(lock, deadline);
  }
}

absl::StatusOr<Loader::Opened*> Loader::GetOpened() {
  MutexLock lock(mu_);
  if (opened_ != nullptr) return opened_.get();
  if (!failure_.ok()) return failure_;
  if (closed_) return Closed();
  return absl::FailedPreconditionError(
      "the loader is not open yet: wait for it with "
      "millrace_loader_wait_open()");
}

Ready Loader::WaitOpen(absl::Duration timeout) {
  MR_ASSIGN_OR_RETURN(const Opened* opened, AwaitOpen(SteadyDeadline(timeout)));
  return opened != nullptr;
}

absl::StatusOr<std::unique_ptr<millrace_batch>> Loader::Next(
    absl::Duration timeout) {
  if (in_next_.exchange(true)) {
    return absl::FailedPreconditionError(
        "another thread is in millrace_loader_next() of this loader; let one "
        "thread at a time take batches");
  }
  const absl::Cleanup leave = [this] { in_next_.store(false); };
  const SteadyTime deadline = SteadyDeadline(timeout);
  MR_ASSIGN_OR_RETURN(Opened * opened, AwaitOpen(deadline));
  if (opened == nullptr) return nullptr;
  const absl::Duration left =
      deadline == SteadyTime::max()
          ? absl::InfiniteDuration()
          : std::max(absl::ZeroDuration(),
                     absl::FromChrono(deadline - SteadyTime::clock::now()));
  MR_ASSIGN_OR_RETURN(std::optional<HostBatch> batch,
                      opened->host->NextWithin(left));
  if (!batch.has_value()) return nullptr;
  return NewBatch(opened->batch_plan, *std::move(batch));
}

Position Loader::position() {
  const absl::StatusOr<Opened*> opened = GetOpened();
  return opened.ok() ? (*opened)->host->position() : request_.options.start;
}

absl::Status Loader::Seek(Position position) {
  MR_ASSIGN_OR_RETURN(Opened * opened, GetOpened());
  return opened->host->Seek(position);
}

absl::Status Loader::Offer(void* data, uint64_t bytes) {
  if (request_.options.offered == nullptr) {
    return absl::FailedPreconditionError(
        "the loader has memory of its own (option memory=own); set "
        "memory=offered before opening to offer memory");
  }
  MR_RETURN_IF_ERROR(GetOpened().status());
  return request_.options.offered->Offer(static_cast<uint8_t*>(data), bytes);
}

absl::StatusOr<uint32_t> Loader::Wanted() {
  MR_ASSIGN_OR_RETURN(Opened * opened, GetOpened());
  {
    MutexLock lock(mu_);
    if (closed_) return Closed();
  }
  if (request_.options.offered == nullptr) return 0;
  return request_.options.offered->Wanted(opened->host->window());
}

absl::StatusOr<millrace_plan> Loader::Plan() {
  MR_ASSIGN_OR_RETURN(const Opened* opened, GetOpened());
  const OpenResponse& plan = opened->host->plan();
  millrace_plan result{};
  result.content_revision = plan.content_revision();
  result.steps_per_epoch = plan.steps_per_epoch();
  result.samples_per_epoch = plan.samples_per_epoch();
  result.dropped_per_epoch = plan.dropped_per_epoch();
  result.batch_size = plan.resolved_spec().batch_size();
  result.max_batch_bytes = plan.max_payload_bytes();
  result.plan_hash = opened->plan_hash.c_str();
  result.fingerprint = plan.fingerprint().c_str();
  result.json = opened->plan_json.c_str();
  return result;
}

std::string Loader::Stats() {
  const absl::StatusOr<Opened*> opened = GetOpened();
  return StatsJson(opened.ok() ? (*opened)->host->stats()
                               : HostLoader::Stats());
}

std::string Loader::WhereTheTimeWent() {
  const absl::StatusOr<Opened*> opened = GetOpened();
  if (!opened.ok()) return "the loader is not open";
  const HostLoader::Stats now = (*opened)->host->stats();
  const absl::Time now_at = MonotonicNow();
  MutexLock lock(mu_);
  diagnosis::WaitReport report =
      diagnosis::WaitBetween(WaitStatsOf(told_), WaitStatsOf(now),
                             absl::ToDoubleSeconds(now_at - told_at_));
  report.consumer = "the program";
  report.less_than_an_epoch =
      now.batches < (*opened)->host->plan().steps_per_epoch();
  told_ = now;
  told_at_ = now_at;
  return diagnosis::JudgeWait(report).text;
}

absl::StatusOr<std::string> Loader::Explain(Position position,
                                            absl::Duration timeout) {
  MR_ASSIGN_OR_RETURN(const Opened* opened, GetOpened());
  receive::CancelFlag cancelled{false};
  {
    MutexLock lock(mu_);
    if (closed_) return Closed();
    explaining_.insert(&cancelled);
  }
  const absl::Cleanup leave = [this, &cancelled] {
    MutexLock lock(mu_);
    explaining_.erase(&cancelled);
  };
  const HostLoaderOptions& options = request_.options;
  const absl::StatusOr<ExplainBatchResponse> explained =
      receive::ExplainWholeBatch(options.endpoint, opened->host->plan(),
                                 position, options.rank, options.world_size,
                                 timeout, &cancelled);
  {
    MutexLock lock(mu_);
    if (closed_ && absl::IsCancelled(explained.status())) return Closed();
  }
  MR_RETURN_IF_ERROR(explained.status());
  return ExplanationJson(*explained, position);
}

void Loader::CancelExplain() {
  MutexLock lock(mu_);
  for (receive::CancelFlag* cancelled : explaining_) cancelled->store(true);
}

void Loader::Close() {
  HostLoader* host = nullptr;
  {
    MutexLock lock(mu_);
    closed_ = true;
    for (receive::CancelFlag* cancelled : explaining_) cancelled->store(true);
    if (opened_ != nullptr) host = opened_->host.get();
    changed_.NotifyAll();
  }
  cancelled_.store(true);
  // First, so that a waiting Next() returns, even while another Close() waits.
  if (host != nullptr) host->Close();
  MutexLock lock(close_mu_);
  opener_.Join();
}

}  // namespace millrace::c
