// `millrace bench`: how fast batches arrive at this machine.

#include <sys/resource.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/flags.h"
#include "client/cli/report.h"
#include "client/cli/spec_flags.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/prefetch_loader.h"
#include "client/prefetch/verdict.h"
#include "common/status_macros.h"

namespace millrace {
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

}  // namespace

absl::Status RunBench(absl::Span<const std::string> arguments) {
  SpecFlags spec_flags;
  uint64_t batches = 200;
  uint32_t world = 1;
  uint32_t rank = 0;
  uint32_t window = 0;
  bool json = false;
  FlagSet flags("bench",
                "how fast batches arrive here; rates do not count the time to "
                "the first batch");
  spec_flags.AddTo(flags);
  flags.Add("batches", &batches, "N", "batches to receive, at least 2");
  flags.Add("world", &world, "N", "ranks of the job that this one stands for");
  flags.Add("rank", &rank, "N", "the rank to receive for");
  flags.Add("window", &window, "N",
            "batches asked for ahead; 0: by their size");
  flags.Add("json", &json, "", "print one JSON object");
  MR_RETURN_IF_ERROR(UsageError(flags.Parse(arguments)));
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return absl::OkStatus();
  }
  MR_RETURN_IF_ERROR(UsageError(spec_flags.Validate()));
  if (batches < 2) {
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        "flag --batches=", batches,
        ": a rate needs at least 2: the first batch does not count")));
  }

  HostLoaderOptions options;
  options.endpoint = spec_flags.endpoint;
  options.same_host = spec_flags.MakeSameHost();
  options.read_only_payload = true;
  options.rank = rank;
  options.world_size = world;
  options.window = window;
  options.epochs = 0;
  options.open_timeout = spec_flags.timeout;
  options.next_timeout = std::max(absl::Seconds(60), spec_flags.timeout);
  MR_RETURN_IF_ERROR(UsageError(options.Validate()));
  MR_ASSIGN_OR_RETURN(options.spec, spec_flags.MakeSpec());
  MR_ASSIGN_OR_RETURN(std::unique_ptr<HostLoader> loader,
                      OpenHostLoader(options));

  MR_RETURN_IF_ERROR(loader->Next().status());
  const HostLoader::Stats before = loader->stats();
  const double cpu_before = CpuSeconds();
  const absl::Time started = MonotonicNow();
  for (uint64_t i = 1; i < batches; ++i) {
    MR_RETURN_IF_ERROR(loader->Next().status());
  }
  const double seconds = absl::ToDoubleSeconds(MonotonicNow() - started);
  const double cpu = CpuSeconds() - cpu_before;
  const HostLoader::Stats after = loader->stats();
  loader->Close();

  const double samples = static_cast<double>(after.samples - before.samples);
  const double gigabytes =
      1e-9 * static_cast<double>(after.payload_bytes - before.payload_bytes);
  Report report;
  report.Add(
      "", "dataset",
      absl::string_view(loader->plan().resolved_spec().sources(0).dataset()));
  report.Add("", "batches", batches);
  report.Add("", "samples of the global batch",
             loader->plan().resolved_spec().batch_size());
  report.Add("", "rank", absl::StrCat(rank, " of ", world));
  report.Add("", "servers", after.servers);
  report.Add("", "window", uint64_t{loader->window()});
  report.Add("images_per_second", "images per second", samples / seconds, "");
  report.Add("gigabytes_per_second", "payload", gigabytes / seconds, "GB/s");
  report.Add("client_cpu_seconds_per_gigabyte", "CPU of this client",
             cpu / gigabytes, "s/GB");
  report.Add("time_to_first_batch_ms", "time to the first batch",
             1e3 * before.first_batch_seconds, "ms");
  WaitReport waits;
  waits.elapsed_seconds = seconds;
  waits.wait_seconds = after.wait_seconds - before.wait_seconds;
  waits.host_wait_seconds = waits.wait_seconds;
  waits.retried_steps = after.retried_steps - before.retried_steps;
  waits.servers = Difference(after.by_server, before.by_server);
  waits.consumer = "this client";
  report.Add("", "waited for data", waits.wait_seconds, "s");
  report.Add("", "where the time went", absl::string_view(Judge(waits).text));
  if (json) {
    std::printf("%s\n", report.Json().c_str());
  } else {
    std::fputs(report.Text().c_str(), stdout);
  }
  return absl::OkStatus();
}

}  // namespace millrace
