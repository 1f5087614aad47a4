// `millrace bench`: the rate at which batches arrive at this machine, its
// bottleneck, and the settings with the highest rate.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/bench_plot.h"
#include "client/cli/bench_progress.h"
#include "client/cli/bench_run.h"
#include "client/cli/bench_server.h"
#include "client/cli/bench_sweep.h"
#include "client/cli/bench_table.h"
#include "client/cli/bench_waits.h"
#include "client/cli/commands.h"
#include "client/cli/spec_flags.h"
#include "client/cli/synthetic_flags.h"
#include "client/flags/loader_flags.h"
#include "client/prefetch/host_loader.h"
#include "common/atomic_file.h"
#include "common/count_text.h"
#include "common/host_name.h"
#include "common/json_text.h"
#include "common/output_file.h"
#include "common/picture/picture_renderer.h"
#include "common/program/flag_set.h"
#include "common/program/report.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/version.h"

namespace millrace::cli {
namespace {

// For each setting of a sweep without --seconds.
constexpr absl::Duration kSweepDuration = absl::Seconds(3);
constexpr uint32_t kSweepRounds = 3;
constexpr uint32_t kMaxRounds = 1000;
constexpr uint32_t kMaxLoaders = 256;

struct BenchFlags {
  SpecFlags spec;
  SyntheticFlags synthetic;
  uint64_t batches = 200;
  absl::Duration seconds;  // 0: use `batches`
  absl::Duration warmup;   // 0: a window of batches
  uint64_t epochs = 0;     // 0: use `batches`
  uint32_t loaders = 1;
  std::string sweep;
  uint32_t rounds = 0;  // 0: 1, or kSweepRounds in a sweep
  std::string plot;
  std::string server;
  std::string dataset_uri;
  bool json = false;

  void AddTo(program::FlagSet& flags);
  // Sets `spec` for synthetic data, and checks the flags.
  absl::Status Finish(const program::FlagSet& flags);
  // InvalidArgument: flags that a sweep with these knobs would ignore.
  absl::Status CheckSweep(const program::FlagSet& flags,
                          const std::vector<SweepKnob>& knobs) const;

  bool batches_given = false;
};

void BenchFlags::AddTo(program::FlagSet& flags) {
  spec.AddTo(flags);
  spec.loader.AddVerification(flags);
  spec.loader.AddHedging(flags);
  synthetic.AddTo(flags);
  flags.Group("Measurement");
  flags.Add("batches", &batches, "N", "Batches to receive, at least 2")
      .Default("200; a sweep receives by time");
  flags
      .Add("seconds", &seconds, "TIME", "Time to measure, instead of --batches")
      .Default("3s for each setting and round of a sweep");
  flags
      .Add("warmup", &warmup, "TIME",
           "With --seconds: time to receive before the measurement, until "
           "adaptive settings are stable")
      .Default("about one window of batches");
  flags.Add("epochs", &epochs, "N",
            "Number of whole epochs to receive, instead of --batches; 0: use "
            "--batches");
  spec.loader.AddWorld(flags);
  spec.loader.AddRank(flags);
  spec.loader.AddWindow(flags);
  spec.loader.AddInitialWindow(flags);
  flags.Add("loaders", &loaders, "N",
            "Number of clients that run in parallel; each receives all "
            "batches");
  flags.Group("Sweeps");
  flags.Add("sweep", &sweep, "KNOB=V,V;...",
            "Run every combination and name the best; knobs: window, "
            "batch_size, loaders, same_host; with --server also threads, "
            "read_threads, memory_budget");
  flags
      .Add("rounds", &rounds, "N",
           "Number of runs of each setting; each round runs all settings")
      .Default("1; for a sweep 3");
  flags.Add("plot", &plot, "FILE.png|svg",
            "File for a plot of the results of a sweep");
  flags.Add("server", &server, "PROGRAM",
            "Path of millrace-server: start a server on this machine for each "
            "setting, instead of using --endpoint");
  flags
      .Add("dataset_uri", &dataset_uri, "URI",
           "URI of the dataset that --server serves")
      .Needs({"server"});
  flags.Group("Output");
  flags.Add("json", &json, "", "Print one JSON object");
}

absl::Status BenchFlags::CheckSweep(const program::FlagSet& flags,
                                    const std::vector<SweepKnob>& knobs) const {
  for (const SweepKnob& knob : knobs) {
    if (flags.Given(knob.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", knob.name, " and --sweep=", knob.name,
                       "=... cannot be used together: remove one of them"));
    }
    if (knob.name == "window" && spec.loader.options.initial_window != 0 &&
        std::find(knob.values.begin(), knob.values.end(), "auto") ==
            knob.values.end()) {
      return absl::InvalidArgumentError(
          "--initial_window needs an adaptive window, but --sweep sets fixed "
          "windows: add auto to the values of window, or remove "
          "--initial_window");
    }
    if (IsServerKnob(knob.name) && server.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "flag --sweep: ", knob.name,
          " is set when a server starts; give --server=PROGRAM on the server's "
          "machine, so that bench starts a server for each setting"));
    }
  }
  if (knobs.empty() && rounds <= 1 && !plot.empty()) {
    return absl::InvalidArgumentError(
        "--plot draws the results of a --sweep: give --sweep");
  }
  return absl::OkStatus();
}

absl::Status BenchFlags::Finish(const program::FlagSet& flags) {
  batches_given = flags.Given("batches");
  if (flags.Given("synthetic_latency_us") && !synthetic.wanted()) {
    return absl::InvalidArgumentError(
        "flag --synthetic_latency_us=0: give a time above 0, or --synthetic "
        "for reads that do not wait");
  }
  if (synthetic.wanted()) {
    MR_ASSIGN_OR_RETURN(spec.base, synthetic.MakeSpec());
    if (flags.Given("seed") &&
        spec.base->sources(0).synthetic().ready_batches() > 0) {
      return absl::InvalidArgumentError(
          "--seed has no effect on ready batches, which are the same for every "
          "seed: leave --seed out, or give --ready_batches=0");
    }
  }
  if (!server.empty()) {
    if (!spec.loader.options.endpoint.empty()) {
      return absl::InvalidArgumentError(
          "--server and --endpoint cannot be used together: remove one of "
          "them");
    }
    if (!synthetic.wanted() &&
        (spec.choices.dataset.empty() || dataset_uri.empty())) {
      return absl::InvalidArgumentError(
          "--server needs data: give --dataset=NAME and "
          "--dataset_uri=lmdb:PATH, or --synthetic");
    }
    if (synthetic.wanted() && !dataset_uri.empty()) {
      return absl::InvalidArgumentError(
          "--dataset_uri and synthetic data cannot be used together: remove "
          "one of them");
    }
    // Until the server of a setting starts.
    spec.loader.options.endpoint = "127.0.0.1:1";
  }
  MR_RETURN_IF_ERROR(spec.Validate());
  if (batches < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "flag --batches=", batches,
        ": expected at least 2, because the first batch is not measured"));
  }
  const std::pair<const char*, bool> ends[] = {
      {"--batches", batches_given},
      {"--epochs", epochs > 0},
      {"--seconds", seconds > absl::ZeroDuration()}};
  for (const auto& first : ends) {
    for (const auto* second = &first + 1; second != std::end(ends); ++second) {
      if (!first.second || !second->second) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(first.first, " and ", second->first,
                       " cannot be used together: remove one of them"));
    }
  }
  const bool by_time = seconds > absl::ZeroDuration() ||
                       (!sweep.empty() && !batches_given && epochs == 0);
  if (warmup > absl::ZeroDuration() && !by_time) {
    return absl::InvalidArgumentError(
        "--warmup has no effect without --seconds: give --seconds, or leave "
        "--warmup out");
  }
  if (loaders == 0 || loaders > kMaxLoaders) {
    return absl::InvalidArgumentError(absl::StrCat(
        "flag --loaders=", loaders, ": expected 1 to ", kMaxLoaders));
  }
  if (rounds > kMaxRounds || (rounds == 0 && flags.Given("rounds"))) {
    return absl::InvalidArgumentError(
        absl::StrCat("flag --rounds=", rounds, ": expected 1 to ", kMaxRounds));
  }
  if (!plot.empty()) {
    const auto format = picture::PictureFormatOf(plot);
    if (!format.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("flag --plot=", format.status().message()));
    }
    MR_RETURN_IF_ERROR(CheckOutputFile("--plot", plot,
                                       *format == picture::PictureFormat::kPng
                                           ? OutputKind::kPng
                                           : OutputKind::kSvg));
  }
  return absl::OkStatus();
}

// Runs one setting at a time.
class Bench {
 public:
  Bench(BenchFlags flags, StopSignals& signals)
      : flags_(std::move(flags)), signals_(signals) {}

  absl::StatusOr<BenchResult> Run(const BenchSetting& setting) {
    BenchFlags flags = flags_;
    std::vector<std::string> server_flags;
    for (const auto& [knob, value] : setting.values) {
      if (IsServerKnob(knob)) {
        server_flags.push_back(absl::StrCat("--", knob, "=", value));
      } else if (knob == "same_host") {
        flags.spec.loader.options.same_host = flags::SameHostOf(value);
      } else if (knob == "batch_size") {
        flags.spec.choices.batch_size = Number(value);
      } else if (knob == "window") {
        flags.spec.loader.options.window = value == "auto" ? 0 : Number(value);
      } else if (knob == "loaders") {
        flags.loaders = Number(value);
      }
    }
    std::unique_ptr<BenchServer> server;
    if (!flags.server.empty()) {
      server_flags.push_back(
          flags.synthetic.wanted()
              ? std::string("--synthetic_only")
              : absl::StrCat("--dataset=", flags.spec.choices.dataset, "=",
                             flags.dataset_uri));
      MR_ASSIGN_OR_RETURN(server, BenchServer::Start(flags.server, server_flags,
                                                     signals_.mask_before()));
      flags.spec.loader.options.endpoint = server->endpoint();
    }
    BenchOptions options;
    options.loaders = flags.loaders;
    options.batches = flags.batches;
    options.duration = flags.seconds;
    options.warmup = flags.warmup;
    options.epochs = flags.epochs;
    HostLoaderOptions& host = options.host;
    host = flags.spec.MakeOptions();
    host.read_only_payload = true;
    // A sweep may have adaptive and fixed windows.
    if (host.window != 0) host.initial_window = 0;
    host.epochs = 0;
    MR_RETURN_IF_ERROR(UsageError(host.Validate()));
    MR_ASSIGN_OR_RETURN(host.spec, flags.spec.MakeSpec());
    MR_RETURN_IF_ERROR(UsageError(CheckShares(host.spec, host.world_size)));
    return MeasureBatches(options, signals_);
  }

 private:
  static uint32_t Number(const std::string& text) {
    uint32_t number = 0;
    // Finish() or ParseSweep() has checked the text.
    return absl::SimpleAtoi(text, &number) ? number : 0;
  }

  const BenchFlags flags_;
  StopSignals& signals_;
};

std::string DataText(const PipelineSpec& spec) {
  if (!spec.sources(0).has_synthetic()) {
    return absl::StrJoin(spec.sources(), ", ",
                         [](std::string* out, const Source& source) {
                           out->append(source.dataset());
                         });
  }
  const Synthetic& made = spec.sources(0).synthetic();
  return made.ready_batches() > 0
             ? absl::StrCat("synthetic, ",
                            CountText(made.ready_batches(), "ready batch",
                                      "ready batches"))
             : absl::StrCat("synthetic, read sample by sample, with ",
                            made.latency_us(), " us of latency each");
}

// Milliseconds per batch, from the headers of the batches.
void AddStages(const BenchResult& result, program::Report& report) {
  diagnosis::ServerTimes sum;
  for (const diagnosis::ServerTimes& server : result.servers_times) {
    sum.timed_batches += server.timed_batches;
    sum.read_seconds += server.read_seconds;
    sum.decode_seconds += server.decode_seconds;
    sum.augment_seconds += server.augment_seconds;
    sum.wait_memory_seconds += server.wait_memory_seconds;
    sum.wait_thread_seconds += server.wait_thread_seconds;
    sum.send_seconds += server.send_seconds;
  }
  if (sum.timed_batches == 0) return;
  const auto ms = [&sum](double seconds) {
    return 1e3 * seconds / static_cast<double>(sum.timed_batches);
  };
  const std::pair<const char*, double> stages[] = {
      {"read", ms(sum.read_seconds)},
      {"decode", ms(sum.decode_seconds)},
      {"augment", ms(sum.augment_seconds)},
      {"wait_memory", ms(sum.wait_memory_seconds)},
      {"wait_thread", ms(sum.wait_thread_seconds)},
      {"send", ms(sum.send_seconds)},
  };
  double all = 0;
  for (const auto& [name, value] : stages) all += value;
  if (!(all > 0)) return;  // the server does not measure stages
  JsonObject json;
  std::vector<std::string> text;
  for (const auto& [name, value] : stages) {
    json.Add(name, value);
    text.push_back(absl::StrCat(name, " ", RateText(value)));
  }
  report.Add("", "ms per batch on the servers",
             absl::string_view(absl::StrJoin(text, ", ")));
  report.AddJson("stage_ms_per_batch", json.Json());
}

// Waits for batches inside an epoch, and for the first batch of an epoch.
void AddWaits(const BenchWaits& waits, program::Report& report) {
  const auto ms = [](double seconds) { return 1e3 * seconds; };
  const double inside = ms(waits.inside().Percentile(50));
  const double inside_p99 = ms(waits.inside().Percentile(99));
  if (waits.inside().count() > 0) {
    report.Add("", "wait for a batch",
               absl::StrFormat("median %s ms, 99th percentile %s ms",
                               RateText(inside), RateText(inside_p99)));
  }
  report.Add("step_wait_ms", "", inside, "");
  report.Add("step_wait_p99_ms", "", inside_p99, "");
  const WaitHistogram& borders = waits.borders();
  const double border = ms(borders.Percentile(50));
  const double longest =
      ms(borders.count() > 0 ? borders.longest()
                             : std::numeric_limits<double>::quiet_NaN());
  if (borders.count() > 0) {
    report.Add(
        "",
        absl::StrCat("wait at ", CountText(borders.count(), "epoch border")),
        absl::StrFormat("median %s ms, longest %s ms", RateText(border),
                        RateText(longest)));
  }
  report.Add("borders", "", borders.count());
  report.Add("border_wait_ms", "", border, "");
  report.Add("border_wait_longest_ms", "", longest, "");
}

std::string RankText(const BenchFlags& flags) {
  const LoaderOptions& options = flags.spec.loader.options;
  return absl::StrCat(options.rank, " of ", options.world_size);
}

program::Report ReportOf(const BenchResult& result, const BenchFlags& flags) {
  const PipelineSpec& spec = result.plan.resolved_spec();
  program::Report report;
  report.Add("dataset", "dataset", absl::string_view(DataText(spec)));
  // With the first batches, as --batches counts them.
  const bool timed = flags.seconds > absl::ZeroDuration();
  report.Add("batches", "batches",
             result.batches + (timed ? 0 : flags.loaders));
  report.Add("batch_size", "global batch size", spec.batch_size());
  report.Add("", "rank", RankText(flags));
  report.Add("servers", "servers", result.servers);
  report.Add("window", "", uint64_t{result.window});
  report.Add("first_window", "", uint64_t{result.first_window});
  report.Add("window_changes", "", result.window_changes);
  report.Add(
      "", "window",
      result.window_changes == 0
          ? absl::StrCat(result.window)
          : absl::StrCat(result.window, " (at first ", result.first_window,
                         ", changed ", CountText(result.window_changes, "time"),
                         "; last change: ", result.window_reason, ")"));
  if (flags.loaders > 1) {
    report.Add("", "parallel clients", uint64_t{flags.loaders});
  }
  report.Add("loaders", "", uint64_t{flags.loaders});
  report.Add("seconds", "", result.seconds, "");
  report.Add("payload_bytes", "", result.payload_bytes);
  report.Add("wire_bytes", "", result.wire_bytes);
  report.Add("images_per_second", "", result.figures.images_per_second, "");
  report.Add("", "images per second",
             absl::string_view(RateText(result.figures.images_per_second)));
  report.Add("gigabytes_per_second", "payload",
             result.figures.gigabytes_per_second, "GB/s");
  if (spec.compression() != COMPRESSION_NONE && result.wire_bytes > 0) {
    const auto wire = static_cast<double>(result.wire_bytes);
    report.Add(
        "", "compressed, on the network",
        absl::StrFormat("%.4g GB/s, %.3g of the payload",
                        1e-9 * wire / result.seconds,
                        wire / static_cast<double>(result.payload_bytes)));
  }
  report.Add("client_cpu_seconds_per_gigabyte", "CPU of this client",
             result.figures.cpu_seconds_per_gigabyte, "s/GB");
  report.Add("time_to_first_batch_ms", "time to the first batch",
             result.figures.first_batch_ms, "ms");
  report.Add("wait_seconds", "time waiting for data", result.wait_seconds, "s");
  report.Add("wait_share", "", result.figures.wait_share, "");
  AddWaits(result.waits, report);
  report.AddJson("few_batches", JsonOf(result.figures.few));
  if (!result.few_batches.empty()) {
    report.Add("", "few batches", absl::string_view(result.few_batches));
  }
  report.Add("retried_steps", "", result.retried_steps);
  report.Add("hedged_steps", "", result.hedged_steps);
  AddStages(result, report);
  report.Add("verdict", "bottleneck",
             absl::string_view(BenchVerdict(result, flags.loaders)));
  report.AddJson("interrupted", JsonOf(result.interrupted));
  if (result.interrupted) {
    report.Add("", "interrupted",
               absl::string_view("the figures cover the time until then"));
  }
  if (!result.ended.ok()) {
    report.Add("ended_by", "", absl::string_view(result.ended.message()));
    report.Add("", "ended early",
               absl::StrFormat(
                   "after %.1f s: %s; the figures cover the time until then",
                   result.seconds, result.ended.message()));
  }
  return report;
}

// The flags that all settings of a sweep share, and the date and host.
std::vector<std::string> PlotLines(const BenchFlags& flags,
                                   const BenchSetting& setting,
                                   const PipelineSpec& spec, absl::Time start) {
  std::vector<std::string> how = {
      flags.server.empty()
          ? absl::StrCat("servers ", flags.spec.loader.options.endpoint)
          : absl::StrCat("a server for each setting: ", flags.server)};
  if (!flags.spec.choices.preset.empty()) {
    how.push_back(absl::StrCat("preset ", flags.spec.choices.preset));
  }
  if (!flags.spec.choices.pipeline.empty()) {
    how.push_back(absl::StrCat("pipeline ", flags.spec.choices.pipeline));
  }
  const auto fixed = [&](absl::string_view knob, std::string text) {
    if (setting.Find(knob) == nullptr) how.push_back(std::move(text));
  };
  fixed("batch_size",
        absl::StrCat("batch of ", CountText(spec.batch_size(), "sample")));
  const uint32_t window = flags.spec.loader.options.window;
  fixed("window", window == 0 ? std::string("window auto")
                              : absl::StrCat("window ", window));
  fixed("loaders", CountText(flags.loaders, "loader"));
  fixed("same_host",
        absl::StrCat("same_host ",
                     flags::SameHostWord(flags.spec.loader.options.same_host)));
  if (flags.spec.loader.options.world_size > 1) {
    how.push_back(absl::StrCat("rank ", RankText(flags)));
  }
  how.push_back(absl::StrCat(
      CountText(flags.rounds, "round"), " of ",
      flags.seconds > absl::ZeroDuration() ? absl::FormatDuration(flags.seconds)
      : flags.epochs > 0                   ? CountText(flags.epochs, "epoch")
                         : CountText(flags.batches, "batch", "batches")));
  return {absl::StrJoin(how, ", "),
          absl::StrCat(absl::FormatTime("%Y-%m-%d %H:%M UTC", start,
                                        absl::UTCTimeZone()),
                       ", host ", HostName(), ", ",
                       CountText(std::thread::hardware_concurrency(), "CPU"),
                       ", millrace ", kMillraceVersion)};
}

absl::Status RunOnce(const BenchFlags& flags, StopSignals& signals) {
  MR_ASSIGN_OR_RETURN(const BenchResult result, Bench(flags, signals).Run({}));
  const program::Report report = ReportOf(result, flags);
  if (flags.json) {
    std::printf("%s\n", report.Json().c_str());
  } else {
    std::fputs(report.Text().c_str(), stdout);
  }
  return result.ended;
}

absl::Status RunSweep(BenchFlags flags, std::vector<BenchSetting> settings,
                      StopSignals& signals) {
  if (flags.seconds == absl::ZeroDuration() && flags.epochs == 0 &&
      !flags.batches_given && !flags.sweep.empty()) {
    flags.seconds = kSweepDuration;
  }
  if (flags.rounds == 0) flags.rounds = kSweepRounds;
  std::optional<picture::PictureRenderer> renderer;
  if (!flags.plot.empty()) {
    MR_ASSIGN_OR_RETURN(renderer, picture::PictureRenderer::Load(
                                      picture::PictureRenderer::Paths()));
    // Checks the path before minutes of measuring. Leaves no file behind.
    MR_RETURN_IF_ERROR(
        AtomicFile::Create(flags.plot, Lasts::kThroughCrash).status());
  }
  const absl::Time start = absl::Now();
  std::vector<BenchRow> rows;
  for (BenchSetting& setting : settings) {
    rows.emplace_back().setting = std::move(setting);
  }
  Bench bench(flags, signals);
  absl::Status first_error;
  PipelineSpec spec;
  BenchProgress progress(STDERR_FILENO, isatty(STDERR_FILENO) == 1);
  // Round by round, so that a change of the machine affects all settings.
  for (uint32_t round = 0; round < flags.rounds; ++round) {
    for (BenchRow& row : rows) {
      if (signals.signal() != 0) break;
      if (!row.error.empty()) continue;
      progress.Round(round + 1, flags.rounds, row.setting.Name());
      const absl::StatusOr<BenchResult> result = bench.Run(row.setting);
      if (result.ok() && result->ended.ok()) {
        // An interrupted round does not count.
        if (result->interrupted) break;
        row.rounds.push_back(result->figures);
        spec = result->plan.resolved_spec();
      } else if (signals.signal() == 0) {
        const absl::Status error =
            result.ok() ? result->ended : result.status();
        if (first_error.ok()) first_error = error;
        row.error = std::string(error.message());
        row.rounds.clear();
      }
    }
  }
  progress.Clear();
  const std::string best = BestSetting(rows);
  if (best.empty()) {
    if (!first_error.ok()) return first_error;
    return absl::CancelledError(
        "interrupted before the first measurement of the sweep ended, so there "
        "are no figures");
  }
  const std::string loaded = DataText(spec);
  const std::string few = FewBatchesNote(rows);
  if (flags.json) {
    std::printf("%s\n", JsonObject()
                            .Add("dataset", loaded)
                            .Add("rounds", flags.rounds)
                            .AddJson("settings", BenchRowsJson(rows))
                            .Add("best", best)
                            .Add("interrupted", signals.signal() != 0)
                            .Json()
                            .c_str());
  } else {
    std::printf("%s\n%s\n%s%s", BenchTable(rows).c_str(), best.c_str(),
                few.empty() ? "" : absl::StrCat(few, "\n").c_str(),
                signals.signal() != 0
                    ? "\ninterrupted: only whole rounds are counted\n"
                    : "\n");
  }
  if (!renderer) return absl::OkStatus();
  const BenchPlotHead head = {"millrace bench: " + loaded,
                              PlotLines(flags, rows[0].setting, spec, start)};
  MR_ASSIGN_OR_RETURN(const picture::PictureFormat format,
                      picture::PictureFormatOf(flags.plot));
  MR_ASSIGN_OR_RETURN(const std::string plot,
                      renderer->Render(LayOutBenchPlot(rows, head), format));
  return WriteFileAtomically(flags.plot, plot, Lasts::kThroughCrash);
}

}  // namespace

absl::Status RunBench(absl::Span<const std::string> arguments) {
  BenchFlags flags;
  program::FlagSet set(
      {.command = "millrace bench",
       .summary = "Measures the rate at which batches arrive at this machine, "
                  "and names the bottleneck. Rates exclude the time to the "
                  "first batch.",
       .examples = {"millrace bench --endpoint=data-1:7001 --dataset=photos "
                    "--preset=imagenet_train",
                    "millrace bench --endpoint=data-1:7001 --synthetic",
                    "millrace bench --endpoint=data-1:7001 --dataset=photos "
                    "--sweep=window=4,16"}});
  flags.AddTo(set);
  MR_RETURN_IF_ERROR(set.Parse(arguments));
  if (set.help_wanted()) {
    std::fputs(set.Help().c_str(), stdout);
    return absl::OkStatus();
  }
  MR_RETURN_IF_ERROR(UsageError(flags.Finish(set)));
  std::vector<SweepKnob> knobs;
  if (!flags.sweep.empty()) {
    absl::StatusOr<std::vector<SweepKnob>> parsed = ParseSweep(flags.sweep);
    if (!parsed.ok()) return UsageError(parsed.status());
    knobs = *std::move(parsed);
  }
  MR_RETURN_IF_ERROR(UsageError(flags.CheckSweep(set, knobs)));
  const bool sweeps = !knobs.empty() || flags.rounds > 1;
  // Before any thread of gRPC.
  StopSignals signals;
  if (!sweeps) return RunOnce(flags, signals);
  return RunSweep(std::move(flags), Combine(knobs), signals);
}

}  // namespace millrace::cli
