#include "client/c/loader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
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

// Who writes what:
//
// - The opener, the thread that runs Open(), sets either opened_ or failure_,
//   once, and neither after closed_. Neither is cleared before the
//   destructor. So a pointer to *opened_ that was read under mu_ stays valid
//   without mu_, also after Close(). The members of *opened_ are constant, and
//   the HostLoader is thread-safe.
// - The opener alone writes request_.options.spec, and no other thread reads
// it.
//   The other options are constant.
//
// Locks: mu_ and close_mu_ are never held together. mu_ is not held while a
// HostLoader is closed or destroyed, because that joins threads. The opener
// never takes close_mu_, so a Close() may join it under close_mu_.

Loader::Loader(LoadRequest request)
    : request_(std::move(request)),
      opened_at_(MonotonicNow()),
      told_at_(opened_at_) {
  MutexLock lock(close_mu_);
  // Last: the thread uses all other members at once.
  opener_ = NamedThread("mr-open", [this] { Open(); });
}

void Loader::Open() {
  absl::StatusOr<std::unique_ptr<Opened>> opened = Closed();
  try {
    opened = OpenHost();
  } catch (...) {
    opened = StatusOfException();
  }
  // Declared before the lock, so destroyed after it.
  std::unique_ptr<Opened> late;
  MutexLock lock(mu_);
  // Close() sets closed_ and reads opened_ under mu_. So exactly one of the two
  // threads ends a HostLoader: this one if closed_ is set by now, Close() if
  // opened_ is set before.
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
  // changed_ is notified by the opener and by Close(), so each wait ends with
  // the opening, with the close or at `deadline`.
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
  // opened_ comes before closed_: position, plan and statistics can be read
  // after Close(). A HostLoader that is closed answers the other methods with
  // Cancelled itself.
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
  // One consumer at a time, as HostLoader requires. The flag is cleared at the
  // end of the call that has set it, and orders that call before the next one.
  if (in_next_.exchange(true)) {
    return absl::FailedPreconditionError(
        "another thread is in millrace_loader_next() of this loader; let one "
        "thread at a time take batches");
  }
  const absl::Cleanup leave = [this] { in_next_.store(false); };
  const SteadyTime deadline = SteadyDeadline(timeout);
  MR_ASSIGN_OR_RETURN(Opened * opened, AwaitOpen(deadline));
  if (opened == nullptr) return nullptr;
  // Without mu_: this wait may be long, and Close() ends it through the
  // HostLoader.
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
  // Held for the snapshot, too, so that told_ is never later than `now` when
  // two threads call. The locks of the HostLoader come after mu_: none of its
  // callbacks comes back into this object.
  MutexLock lock(mu_);
  const HostLoader::Stats now = (*opened)->host->stats();
  const absl::Time now_at = MonotonicNow();
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
    // Checked and added under one lock: a Close() either sets the flag or has
    // set closed_ before.
    MutexLock lock(mu_);
    if (closed_) return Closed();
    explaining_.insert(&cancelled);
  }
  // Removed under mu_ before the flag, which is on this stack, is gone. So
  // Close() and CancelExplain(), which set flags under mu_, find no dead one.
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
  // Set after closed_: an opener that this flag ends finds closed_ set and does
  // not report the cancelled call as a failure.
  cancelled_.store(true);
  // First, so that a waiting Next() returns, even while another Close() waits.
  if (host != nullptr) host->Close();
  // The opener watches cancelled_ while it waits for servers, and takes no lock
  // but mu_. So it ends; a name server that does not answer may delay that.
  MutexLock lock(close_mu_);
  opener_.Join();
}

}  // namespace millrace::c
