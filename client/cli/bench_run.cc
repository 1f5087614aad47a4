#include "client/cli/bench_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/spec_flags.h"
#include "client/cli/wire_share.h"
#include "client/diagnosis/wait_verdict.h"
#include "client/receive/open_host_loader.h"
#include "common/monotonic_now.h"
#include "common/status_macros.h"
#include "common/thread.h"

namespace millrace::cli {
namespace {

// Processor time of this process so far, user and system.
double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) +
           1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Calls `body` with the number of each loader, on threads when there are
// several loaders. Returns the first error.
template <typename Body>
absl::Status ForEach(size_t loaders, const Body& body) {
  std::vector<absl::Status> statuses(loaders);
  {
    std::vector<NamedThread> threads;
    for (size_t i = 1; i < loaders; ++i) {
      threads.emplace_back(absl::StrCat("mr-bench-", i),
                           [&, i] { statuses[i] = body(i); });
    }
    statuses[0] = body(0);
  }
  for (absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Includes the first batch, as --batches does.
uint64_t EpochsToBatches(const BenchOptions& options,
                         const HostLoader& loader) {
  const uint64_t steps = loader.plan().steps_per_epoch();
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const uint64_t batches =
      steps > kMax / options.epochs ? kMax : steps * options.epochs;
  return std::max<uint64_t>(2, batches);
}

}  // namespace

absl::StatusOr<BenchResult> MeasureBatches(const BenchOptions& options,
                                           StopSignals& signals) {
  std::vector<std::unique_ptr<HostLoader>> loaders;
  // Destroyed before the loaders, which a signal would close.
  struct Quiet {
    StopSignals& signals;
    ~Quiet() { signals.OnSignal(nullptr); }
  };
  const bool timed = options.duration > absl::ZeroDuration();
  HostLoaderOptions host = options.host;
  // If the server is gone, the measurement ends soon after `duration`.
  if (timed) host.next_timeout = std::min(host.next_timeout, host.step_timeout);
  for (uint32_t i = 0; i < options.loaders; ++i) {
    if (signals.signal() != 0) return absl::CancelledError("interrupted");
    MR_ASSIGN_OR_RETURN(loaders.emplace_back(),
                        OfRequest(receive::OpenHostLoader(host)));
  }
  const Quiet quiet{signals};
  signals.OnSignal([&loaders] {
    for (const auto& loader : loaders) loader->Close();
  });
  const auto over = [&signals](const absl::Status& status) {
    return signals.signal() != 0 && absl::IsCancelled(status);
  };

  const absl::Status first = ForEach(loaders.size(), [&](size_t i) {
    HostLoader& loader = *loaders[i];
    // Cold storage may be slow.
    const absl::Time patience = MonotonicNow() + options.host.next_timeout;
    absl::Status begun = loader.Next().status();
    while ((absl::IsDeadlineExceeded(begun) || absl::IsUnavailable(begun)) &&
           MonotonicNow() < patience) {
      begun = loader.Next().status();
    }
    MR_RETURN_IF_ERROR(begun);
    if (!timed) return absl::OkStatus();
    // The first use of each slot faults its pages in, which would make large
    // windows look slow.
    const bool by_window = options.warmup == absl::ZeroDuration();
    const absl::Time enough =
        MonotonicNow() + (by_window ? options.duration : options.warmup);
    for (uint32_t n = 1;
         (!by_window || n < loader.window()) && MonotonicNow() < enough; ++n) {
      MR_RETURN_IF_ERROR(loader.Next().status());
    }
    return absl::OkStatus();
  });
  if (over(first)) return absl::CancelledError("interrupted");
  MR_RETURN_IF_ERROR(first);
  std::vector<HostLoader::Stats> before;
  for (const auto& loader : loaders) before.push_back(loader->stats());
  const double cpu_before = CpuSeconds();
  const absl::Time started = MonotonicNow();
  const absl::Time end = started + options.duration;
  const uint64_t batches = options.epochs == 0
                               ? options.batches
                               : EpochsToBatches(options, *loaders[0]);
  std::vector<BenchWaits> waits(loaders.size());
  std::vector<absl::Time> last(loaders.size(), started);
  // Seconds that Next() took to return an error: they are not measured time.
  std::vector<double> in_vain(loaders.size());
  const absl::Status taken = ForEach(loaders.size(), [&](size_t i) {
    for (uint64_t n = 1; timed || n < batches; ++n) {
      const absl::Time asked = MonotonicNow();
      const absl::StatusOr<HostBatch> batch = loaders[i]->Next();
      const absl::Time now = MonotonicNow();
      if (!batch.ok()) {
        // A wait that a signal interrupts is a wait for data.
        if (!over(batch.status())) {
          in_vain[i] = absl::ToDoubleSeconds(now - asked);
        }
        return batch.status();
      }
      last[i] = now;
      waits[i].Add(batch->position.step == 0,
                   absl::ToDoubleSeconds(now - asked));
      if (timed && now >= end) break;
    }
    return absl::OkStatus();
  });

  BenchResult result;
  result.interrupted = over(taken);
  if (!result.interrupted) result.ended = taken;
  result.seconds = absl::ToDoubleSeconds(
      (result.ended.ok() ? MonotonicNow()
                         : *std::max_element(last.begin(), last.end())) -
      started);
  result.cpu_seconds = CpuSeconds() - cpu_before;
  result.plan = loaders[0]->plan();
  double first_batch = 0;
  std::vector<HostLoader::Stats> at_end;
  for (size_t i = 0; i < loaders.size(); ++i) {
    result.waits.Merge(waits[i]);
    const HostLoader::Stats& after = at_end.emplace_back(loaders[i]->stats());
    result.servers = std::max(result.servers, after.servers);
    result.batches += after.batches - before[i].batches;
    result.images += after.samples - before[i].samples;
    result.payload_bytes += after.payload_bytes - before[i].payload_bytes;
    // `in_vain` includes the call of Next(), so it may be a little longer.
    result.wait_seconds +=
        std::max(0.0, after.wait_seconds - before[i].wait_seconds - in_vain[i]);
    result.retried_steps += after.retried_steps - before[i].retried_steps;
    result.hedged_steps += after.hedged_steps - before[i].hedged_steps;
    first_batch = std::max(first_batch, before[i].first_batch_seconds);
    if (i == 0) {
      result.window = after.window;
      result.first_window = after.first_window;
      result.window_changes = after.window_changes;
      result.window_reason = after.window_reason;
      result.servers_times =
          diagnosis::Difference(after.by_server, before[i].by_server);
      result.no_answer_seconds =
          std::max(0.0, after.no_answer_seconds - before[i].no_answer_seconds -
                            in_vain[i]);
      result.no_answer = after.no_answer;
    }
  }
  result.wire_bytes = static_cast<uint64_t>(
      WireShare(before, at_end) * static_cast<double>(result.payload_bytes));
  signals.OnSignal(nullptr);
  for (const auto& loader : loaders) loader->Close();
  if (result.batches == 0) {
    MR_RETURN_IF_ERROR(result.ended);
    return absl::CancelledError("interrupted before the second batch");
  }
  const double gigabytes = 1e-9 * static_cast<double>(result.payload_bytes);
  result.figures.images_per_second =
      static_cast<double>(result.images) / result.seconds;
  result.figures.gigabytes_per_second = gigabytes / result.seconds;
  result.figures.cpu_seconds_per_gigabyte = result.cpu_seconds / gigabytes;
  result.figures.wait_share =
      std::min(1.0, result.wait_seconds / (result.seconds * options.loaders));
  result.figures.first_batch_ms = 1e3 * first_batch;
  result.figures.batches = result.batches / options.loaders;
  result.few_batches = FewBatchesText(result.figures.batches,
                                      timed ? 0 : uint64_t{result.window});
  result.figures.few = !result.few_batches.empty();
  return result;
}

std::string BenchVerdict(const BenchResult& result, uint32_t loaders) {
  diagnosis::WaitReport waits;
  waits.elapsed_seconds = result.seconds;
  waits.wait_seconds = waits.host_wait_seconds = result.wait_seconds / loaders;
  waits.retried_steps = result.retried_steps;
  waits.no_answer_seconds = result.no_answer_seconds;
  waits.no_answer = result.no_answer;
  waits.servers = result.servers_times;
  waits.consumer = "this client";
  // With the first batch of each loader.
  waits.less_than_an_epoch =
      result.batches / loaders + 1 < result.plan.steps_per_epoch();
  // The wait for the error is no wait for data.
  return absl::StrCat(result.ended.ok() ? "" : "before the error: ",
                      diagnosis::JudgeWait(waits).text);
}

}  // namespace millrace::cli
