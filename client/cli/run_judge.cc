#include "client/cli/run_judge.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/count_text.h"

namespace millrace {
namespace {

// Shares of the time; run_judge.h says what they are for.
constexpr double kWaits = 0.05;
constexpr double kCopies = 0.5;
constexpr double kTransforms = 0.1;
constexpr double kCoresBusy = 0.8;
constexpr double kRanksWait = 0.1;
constexpr double kComputes = 0.5;
constexpr double kOverhead = 0.25;
// Of the machine's cores: what other programs take when they are named. In
// cores: what is worth a word.
constexpr double kOthersTake = 0.25;
constexpr double kOthersTold = 0.1;
constexpr double kOthersStarve = 0.75;
// Seconds of which the ticks of /proc/stat, of 10 ms, tell enough.
constexpr double kTicksTell = 0.5;
// What a run must have to be judged: below, its start and its end weigh too
// much.
constexpr double kLeastRunSeconds = 1;
constexpr double kLeastRunSteps = 10;
// A GPU that is busy less, while the host waits for nothing, gets work in
// pieces that are too small.
constexpr double kGpuIdles = 0.7;

// Up to this share a bound is told.
constexpr double kBoundUpTo = 0.75;

// That other programs used on average.
double OtherCores(const PartTimes& times) {
  if (times.machine_cpus < 1 || times.seconds < kTicksTell) return 0;
  const double left = times.machine_cpus - times.cpu / times.seconds;
  return std::clamp(times.other_cpu / times.seconds, 0.0, std::max(0.0, left));
}

double MostGain(double share) {
  return share <= kBoundUpTo ? 1 / (1 - share) : 0;
}

Finding Make(std::string part, double share, std::string text,
             std::vector<std::string> advice) {
  Finding finding;
  finding.part = std::move(part);
  finding.share = share;
  finding.most_gain = MostGain(share);
  finding.text = std::move(text);
  finding.advice = std::move(advice);
  return finding;
}

std::string Percent(double share) {
  return absl::StrFormat("%.0f %%", 100 * share);
}

std::string Endpoint(const RunReport& run) {
  return run.endpoint.empty() ? "HOST:PORT" : run.endpoint;
}

// Where transforms are computed, in the words of a pipeline file.
constexpr char kOnServers[] =
    "move the work to the servers: in the --pipeline file give normalize and "
    "to_dtype `placement: PLACEMENT_SERVER`";
constexpr char kSmallOnWire[] =
    "send smaller types: uint8 images with `normalize` on the device "
    "(`placement: PLACEMENT_CLIENT`, the default) are a quarter of float32";

// Twice the batch size, or nothing where that is more than an epoch has: a
// server refuses such batches, or pads them. Of a summary without this number
// an epoch has what the largest one took, or more.
std::optional<double> LargerBatch(const RunReport& run) {
  double samples = run.samples_per_epoch;
  if (samples == 0) {
    for (const PartTimes& epoch : run.epochs) {
      samples = std::max(samples, epoch.samples);
    }
  }
  if (samples > 0 && 2 * run.batch_size > samples) return std::nullopt;
  return 2 * run.batch_size;
}

Finding DataFinding(const RunReport& run) {
  const PartTimes& t = run.times;
  const double share =
      t.share(t.wait_cause == "preparing" ? t.data : run.waited_for_servers());
  const std::string waited = absl::StrCat("the trainer waited for data ",
                                          Percent(share), " of the time: ");
  const std::string more_servers = absl::StrCat(
      "more servers: --endpoint=", Endpoint(run), ",ONE_MORE:PORT");
  const std::string& cause = t.wait_cause;
  if (cause == "reading") {
    return Make("storage", share,
                absl::StrCat(waited, "the servers' threads wait for storage"),
                {"more reads at once: millrace-server without --read_threads "
                 "adapts their number by what it measures; a fixed one may be "
                 "larger, as --read_threads=64",
                 "faster storage, or a copy of the dataset beside the servers",
                 more_servers});
  }
  if (cause == "decoding" || cause == "augmenting" || cause == "work") {
    // Reading is part of "work", and most of it while data come from a storage
    // that no server has read before.
    const std::string what =
        cause == "work" ? "reading, decoding and augmenting together" : cause;
    return Make(
        cause == "work" ? "servers" : cause, share,
        absl::StrCat(waited, what, cause == "work" ? " keep" : " keeps",
                     " the servers' threads busy"),
        {more_servers,
         "more cores for the servers: millrace-server without --threads takes "
         "all that it may use",
         cause == "decoding"
             ? "less to decode: shrink the images before they are packed"
             : "fewer or cheaper transforms in the pipeline"});
  }
  if (cause == "link") {
    return Make(
        "network", share,
        absl::StrCat(waited, "the network between servers and trainer is full"),
        {kSmallOnWire,
         "`compression: COMPRESSION_ZSTD` in the --pipeline file, for "
         "what can be packed",
         "shared memory with servers on this machine: --same_host",
         "a faster link, or servers on several links"});
  }
  if (cause == "shared_memory") {
    return Make("shared_memory", share,
                absl::StrCat(waited,
                             "the servers' batches lie ready in shared memory, "
                             "and this process takes them out too slowly"),
                {kSmallOnWire,
                 "fewer programs beside the trainer: it copies batches out of "
                 "shared memory with a core of its own"});
  }
  if (cause == "memory") {
    return Make("server_memory", share,
                absl::StrCat(waited, "batches wait for memory at the servers"),
                {"a larger budget: millrace-server --memory_budget=4GiB, "
                 "for example",
                 "a smaller --window where many clients share the servers"});
  }
  if (cause == "window") {
    return Make("window", share,
                absl::StrCat(waited, "too few batches are requested at once"),
                {run.has_flag("window")
                     ? "a larger --window, or none: without the flag it adapts"
                     : "a fixed window above what was chosen, as --window=64",
                 more_servers});
  }
  if (cause == "preparing") {
    if (run.on_cpu()) {
      std::vector<std::string> advice = {kOnServers};
      if (!run.has_flag("prepare_ahead")) {
        advice.push_back(
            "with idle cores, transform ahead on a thread: --prepare_ahead");
      }
      return Make(
          "trainer_cpu", share,
          absl::StrCat(waited, "its own CPU copies and transforms batches"),
          std::move(advice));
    }
    return Make(
        "copy", share,
        absl::StrCat(waited,
                     "copies to the device and transforms there hold "
                     "batches up (from pinned memory, without blocking, "
                     "as always)"),
        {kSmallOnWire, "more batches ready: --device_prefetch=4",
         "look at the device's link: it should run at full width"});
  }
  if (cause == "no_answer") {
    return Make("no_answer", share, absl::StrCat(waited, "no server answered"),
                {absl::StrCat("millrace status --endpoint=", Endpoint(run),
                              " says which servers answer"),
                 more_servers});
  }
  return Make(
      "data", share, absl::StrCat(waited, "what held them up is not clear"),
      {absl::StrCat("millrace status --interval=5s --endpoint=", Endpoint(run),
                    " while it trains"),
       absl::StrCat("millrace bench --endpoint=", Endpoint(run),
                    " without the trainer (docs/operations.md)")});
}

void AddCopies(const RunReport& run, std::vector<Finding>* findings) {
  const PartTimes& t = run.times;
  const bool named =
      !findings->empty() && (findings->back().part == "copy" ||
                             findings->back().part == "trainer_cpu");
  if (named) return;
  if (run.on_cpu()) {
    const double share = t.share(t.copy);
    if (share < kTransforms) return;
    findings->push_back(
        Make("trainer_cpu", share,
             absl::StrCat("the trainer's own CPU copies and transforms batches "
                          "for ",
                          Percent(share), " of the time"),
             {kOnServers}));
    return;
  }
  const double copying = t.share(t.device_copy);
  if (copying >= kCopies) {
    findings->push_back(
        Make("copy", copying,
             absl::StrCat("the device copies and transforms batches for ",
                          Percent(copying),
                          " of the time (beside the step, from pinned memory)"),
             {kSmallOnWire,
              "look at the device's link: it should run at full "
              "width"}));
  }
  const double cores = t.cpus > 0 ? t.share(t.cpu / t.cpus) : 0;
  if (cores >= kCoresBusy) {
    Finding cpu = Make(
        "trainer_cpu", cores,
        absl::StrFormat("the trainer keeps %s of its %.0f cores busy beside "
                        "the GPU",
                        Percent(cores), t.cpus),
        {kOnServers, "more cores for this process, or fewer ranks on them"});
    // Busy is not late: what it costs cannot be told from here.
    cpu.most_gain = 1;
    findings->push_back(std::move(cpu));
  }
}

Finding ComputeFinding(const RunReport& run, double share) {
  const PartTimes& t = run.times;
  std::string text = absl::StrCat(
      "the model takes ", Percent(share), " of the time (forward ",
      Percent(t.share(t.forward)), ", backward ", Percent(t.share(t.backward)),
      ", optimiser ", Percent(t.share(t.optimizer)), ")");
  std::vector<std::string> advice;
  const bool nvml = t.device_busy_source == "nvml";
  if (nvml) {
    absl::StrAppend(&text, ", and the GPU is busy ", Percent(t.device_busy),
                    " of the time");
  }
  const bool small_pieces = nvml && t.device_busy < kGpuIdles;
  if (!run.has_flag("precision")) {
    advice.push_back(
        run.on_cpu() ? "mixed precision: --precision=bfloat16, on CPUs that "
                       "compute with it"
                     : "mixed precision: --precision=bfloat16 (or float16)");
  }
  // What costs when the GPU idles is the starting of kernels.
  const std::optional<double> larger = LargerBatch(run);
  if (larger.has_value()) {
    advice.insert(
        small_pieces ? advice.begin() : advice.end(),
        absl::StrFormat(
            "a larger batch: --batch_size=%.0f (with --lr to match)", *larger));
  }
  // On the CPU the graph executor fuses nothing (docs/training.md).
  if (!run.on_cpu() && !run.has_flag("graph")) {
    advice.insert(small_pieces ? advice.begin() + (larger.has_value() ? 1 : 0)
                               : advice.end(),
                  "fewer kernels, each of several operations: --graph");
  }
  if (run.on_cpu()) {
    advice.push_back("a GPU: --device=cuda");
  } else {
    const double ranks = 2 * run.world_size;
    // Ranks take equal parts of a batch.
    advice.push_back(absl::StrFormat(
        "more GPUs: --nproc=%.0f, or more machines with torchrun%s", ranks,
        std::fmod(run.batch_size, ranks) == 0
            ? ""
            : absl::StrFormat(" (with a batch size that %.0f divides)",
                              ranks)));
  }
  return Make("compute", share, std::move(text), std::move(advice));
}

}  // namespace

std::string RateText(double rate) {
  return rate < 100 ? absl::StrFormat("%.3g", rate)
                    : absl::StrFormat("%.0f", rate);
}

std::string GainText(const Finding& finding) {
  if (finding.most_gain == 0) {
    return " (nearly all of the time: how fast the run becomes without it "
           "depends on what limits it then)";
  }
  if (finding.most_gain <= 1.005) return "";
  return absl::StrFormat(
      " (without it the run would be at most %.2f times as fast)",
      finding.most_gain);
}

std::string TooShortText(const PartTimes& times) {
  if (times.steps >= kLeastRunSteps && times.seconds >= kLeastRunSeconds)
    return "";
  return absl::StrFormat(
      "too short to judge: %s in %.3g s; train at least %.0f steps and %.0f s "
      "for figures that tell something",
      CountText(static_cast<uint64_t>(times.steps), "step"), times.seconds,
      kLeastRunSteps, kLeastRunSeconds);
}

std::string OtherProgramsText(const PartTimes& times) {
  const double cores = OtherCores(times);
  if (cores < kOthersTold) return "";
  return absl::StrFormat(
      "other programs on the trainer's machine use %.1f of its %.0f core%s",
      cores, times.machine_cpus, times.machine_cpus == 1 ? "" : "s");
}

std::vector<Finding> JudgeRun(const RunReport& run) {
  const PartTimes& t = run.times;
  std::vector<Finding> findings;

  const double data = t.share(t.data);
  const bool data_named =
      t.share(t.wait_cause == "preparing" ? t.data
                                          : run.waited_for_servers()) >= kWaits;
  if (data_named) findings.push_back(DataFinding(run));
  // Local servers are among the other programs.
  const std::string servers_part =
      data_named && run.servers_are_local() && t.wait_cause != "preparing"
          ? findings[0].part
          : "";
  AddCopies(run, &findings);

  const double allreduce = t.share(t.allreduce);
  double slowest = 0;
  size_t slowest_rank = 0;
  for (size_t rank = 0; rank < run.rank_stall_shares.size(); ++rank) {
    if (run.rank_stall_shares[rank] > slowest) {
      slowest = std::min(1.0, run.rank_stall_shares[rank]);
      slowest_rank = rank;
    }
  }
  if (slowest >= kWaits && slowest >= 2 * data) {
    findings.push_back(Make(
        "ranks", slowest,
        absl::StrCat("rank ", slowest_rank, " waited for data ",
                     Percent(slowest), " of the time, this one ", Percent(data),
                     ": the others wait for it"),
        {absl::StrCat("the lines of rank ", slowest_rank, " say why it waited"),
         "as many and as near servers for every host"}));
  } else if (allreduce >= kRanksWait) {
    std::vector<std::string> advice = {
        run.has_flag("accumulate")
            ? "average gradients more rarely: a larger --accumulate"
            : "average gradients more rarely: --accumulate=4"};
    if (const auto larger = LargerBatch(run)) {
      advice.push_back(absl::StrFormat(
          "more work between two averages: --batch_size=%.0f", *larger));
    }
    advice.push_back(
        "a faster network between the ranks (GLOO_SOCKET_IFNAME and "
        "NCCL_SOCKET_IFNAME choose the interface)");
    findings.push_back(
        Make("allreduce", allreduce,
             absl::StrFormat("%.0f ranks waited for one another %s of the time",
                             run.world_size, Percent(allreduce)),
             std::move(advice)));
  }
  std::stable_sort(
      findings.begin(), findings.end(),
      [](const Finding& a, const Finding& b) { return a.share > b.share; });

  const double compute = t.share(t.compute);
  if (compute >= kComputes) findings.push_back(ComputeFinding(run, compute));
  const double rest = 1 - data - allreduce - compute;
  if (rest >= kOverhead) {
    std::vector<std::string> advice;
    if (const auto larger = LargerBatch(run)) {
      advice.push_back(
          absl::StrFormat("a larger batch: --batch_size=%.0f", *larger));
    }
    advice.push_back("a look at fewer steps: a larger --log_every");
    findings.push_back(
        Make("overhead", rest,
             absl::StrCat(Percent(rest),
                          " of the time lie between the parts of the steps: "
                          "steps are short, and looking at losses and counters "
                          "takes time"),
             std::move(advice)));
  }
  const double others =
      t.machine_cpus >= 1 ? OtherCores(t) / t.machine_cpus : 0;
  if (others >= kOthersTake) {
    Finding taken = Make(
        "other_programs", others,
        absl::StrCat(OtherProgramsText(t), ", data servers there included"),
        {"end them, or run them on another machine, and train again: the "
         "figures above are those of a machine that is shared"});
    taken.most_gain = 1;
    const auto before = std::find_if(
        findings.begin(), findings.end(), [&](const Finding& finding) {
          if (finding.part == servers_part) return false;
          return finding.share < others ||
                 (finding.part == "compute" && run.on_cpu() &&
                  others >= kOthersStarve);
        });
    findings.insert(before, std::move(taken));
  }
  return findings;
}

}  // namespace millrace
