#include "client/diagnosis/run_verdict.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/clean_text.h"
#include "common/count_text.h"

namespace millrace::diagnosis {
namespace {

// In the order of RunPart.
constexpr absl::string_view kNames[] = {
    "storage",       "decoding",      "augmenting",    "servers",   "network",
    "shared_memory", "server_memory", "window",        "no_answer", "start",
    "data",          "copy",          "trainer_cpu",   "allreduce", "ranks",
    "compute",       "overhead",      "other_programs"};
static_assert(std::size(kNames) ==
              static_cast<size_t>(RunPart::kOtherPrograms) + 1);

// Shares of the time; run_verdict.h says what they are for.
constexpr double kCopies = 0.5;
constexpr double kTransforms = 0.1;
constexpr double kCoresBusy = 0.8;
constexpr double kRanksWait = 0.1;
constexpr double kComputes = 0.5;
constexpr double kOverhead = 0.25;
// Shares of the machine's cores that other programs use.
constexpr double kOthersNamed = 0.25;
constexpr double kOthersStarve = 0.75;
constexpr double kMinOtherCores = 0.1;
// /proc/stat counts in ticks of 10 ms.
constexpr double kMinSecondsOfTicks = 0.5;
// Of a run that can be judged.
constexpr double kMinRunSeconds = 1;
constexpr uint64_t kMinRunSteps = 10;
// A GPU that is busy less, while the host waits for nothing, gets its work in
// kernels that are too small.
constexpr double kGpuIdles = 0.7;
// Up to this share a bound is given.
constexpr double kMaxBoundShare = 0.75;
constexpr size_t kMaxErrorBytes = 4096;

// The average that other programs used.
double OtherCores(const RunTimes& times) {
  if (times.machine_cpus < 1 || times.seconds < kMinSecondsOfTicks) return 0;
  const double left = times.machine_cpus - times.rate(times.cpu_seconds);
  return std::clamp(times.rate(times.other_cpu_seconds), 0.0,
                    std::max(0.0, left));
}

// Of the cores that the process may use.
double CoresBusy(const RunTimes& times) {
  return times.cpus > 0 ? times.share(times.cpu_seconds / times.cpus) : 0;
}

Finding Make(RunPart part, double share, std::string text,
             std::vector<std::string> advice) {
  Finding finding;
  finding.part = part;
  finding.share = share;
  finding.max_gain = share <= kMaxBoundShare ? 1 / (1 - share) : 0;
  finding.text = std::move(text);
  finding.advice = std::move(advice);
  return finding;
}

std::string Percent(double share) {
  return absl::StrFormat("%.0f %%", 100 * share);
}

std::string Endpoint(const RunSummary& run) {
  return run.endpoint.empty() ? "HOST:PORT" : run.endpoint;
}

constexpr char kOnServers[] =
    "move the work to the servers: set `placement: PLACEMENT_SERVER` of "
    "normalize and to_dtype in the --pipeline file";
constexpr char kSmallOnWire[] =
    "send smaller types: uint8 images that the device normalizes "
    "(`placement: PLACEMENT_CLIENT`, the default) take a quarter of the bytes "
    "of float32";
constexpr char kDeviceLink[] =
    "check that the device's PCIe link runs at full width";

// Twice the batch size. Nothing where that is more than an epoch has: a server
// refuses such batches, or pads them. Where the summary does not say how many
// samples an epoch has, its largest epoch stands for the number.
std::optional<uint64_t> LargerBatch(const RunSummary& run) {
  uint64_t samples = run.samples_per_epoch;
  if (samples == 0) {
    for (const RunTimes& epoch : run.epoch_times) {
      samples = std::max(samples, epoch.samples);
    }
  }
  if (samples > 0 && 2 * run.batch_size > samples) return std::nullopt;
  return 2 * run.batch_size;
}

WaitCause CauseOf(const RunSummary& run) {
  return run.times.wait_cause.value_or(WaitCause::kUnclear);
}

double WaitShare(const RunSummary& run) {
  return run.times.share(CauseOf(run) == WaitCause::kPreparing
                             ? run.times.data_seconds
                             : run.waited_for_servers());
}

// Share of the time after the start.
double WaitShareAfterStart(const RunSummary& run) {
  const RunTimes& t = run.times;
  return std::max(0.0, run.waited_for_servers() - t.start_data_seconds) /
         (t.seconds - t.start_seconds);
}

// The trainer waited for its first batches, and hardly for later ones.
bool WaitedAtStartOnly(const RunSummary& run) {
  return run.times.start_data_seconds > 0 &&
         run.times.seconds - run.times.start_seconds >= kMinRunSeconds &&
         CauseOf(run) != WaitCause::kPreparing &&
         CauseOf(run) != WaitCause::kNoAnswer &&
         WaitShareAfterStart(run) < kMinWaitShare;
}

Finding StartFinding(const RunSummary& run) {
  const double share = WaitShare(run);
  return Make(
      RunPart::kStart, share,
      absl::StrFormat("the trainer waited for data %s of the time, for the "
                      "first batches: %s s of the first %s s of the run, "
                      "and %.1f %% of the time after them",
                      Percent(share), RateText(run.times.start_data_seconds),
                      RateText(run.times.start_seconds),
                      100 * WaitShareAfterStart(run)),
      {"change nothing for a longer run: the wait for the first batches does "
       "not grow with the run"});
}

Finding DataFinding(const RunSummary& run) {
  const double share = WaitShare(run);
  const auto make = [share](RunPart part, absl::string_view text,
                            std::vector<std::string> advice) {
    return Make(part, share,
                absl::StrCat("the trainer waited for data ", Percent(share),
                             " of the time: ", text),
                std::move(advice));
  };
  const std::string more_servers = absl::StrCat(
      "add servers: --endpoint=", Endpoint(run), ",NEW_SERVER:PORT");
  const auto busy = [&](RunPart part, absl::string_view work,
                        const char* cheaper) {
    return make(part, absl::StrCat(work, " the servers' threads busy"),
                {more_servers,
                 "give the servers more cores: millrace-server without "
                 "--threads uses all cores that it is allowed to use",
                 cheaper});
  };
  constexpr char kCheaper[] = "use fewer or cheaper transforms in the pipeline";
  switch (CauseOf(run)) {
    case WaitCause::kReading:
      return make(
          RunPart::kStorage, "the servers' threads wait for storage",
          {"allow more parallel reads: millrace-server without --read_threads "
           "adjusts their number to the load; a fixed number can be larger, "
           "for example --read_threads=64",
           "use faster storage, or copy the dataset to disks of the servers",
           more_servers});
    case WaitCause::kDecoding:
      return busy(RunPart::kDecoding, "decoding keeps",
                  "decode less: shrink the images before you pack them");
    case WaitCause::kAugmenting:
      return busy(RunPart::kAugmenting, "augmenting keeps", kCheaper);
    case WaitCause::kWork:
      // Most of it is reading while no server has read the data before.
      return busy(RunPart::kServers,
                  "reading, decoding and augmenting together keep", kCheaper);
    case WaitCause::kLink:
      return make(RunPart::kNetwork,
                  "the network between servers and trainer is full",
                  {kSmallOnWire,
                   "compress batches, where the data compress well: "
                   "`compression: COMPRESSION_ZSTD` in the --pipeline file",
                   "use shared memory for servers on this machine: --same_host",
                   "use a faster link, or servers on several links"});
    case WaitCause::kSharedMemory:
      return make(RunPart::kSharedMemory,
                  "batches are ready in shared memory, and this process copies "
                  "them out too slowly",
                  {kSmallOnWire,
                   "stop other programs on this machine: the trainer needs a "
                   "core of its own to copy batches out of shared memory"});
    case WaitCause::kMemory:
      return make(RunPart::kServerMemory,
                  "batches wait for memory on the servers",
                  {"raise the memory budget, for example: millrace-server "
                   "--memory_budget=4GiB",
                   "use a smaller --window where many clients share the "
                   "servers"});
    case WaitCause::kWindow:
      return make(RunPart::kWindow, "too few batches are in flight",
                  {run.has_flag("window")
                       ? "raise --window, or omit the flag to adjust the "
                         "window automatically"
                       : "set a fixed window above the automatic one, for "
                         "example --window=64",
                   more_servers});
    case WaitCause::kPreparing: {
      if (!run.on_cpu()) {
        return make(RunPart::kCopy,
                    "copies to the device and transforms on it delay batches "
                    "(copies are asynchronous, from pinned memory)",
                    {kSmallOnWire,
                     "keep more batches ready on the device: "
                     "--device_prefetch=4",
                     kDeviceLink});
      }
      std::vector<std::string> advice = {kOnServers};
      if (!run.has_flag("prepare_ahead")) {
        advice.push_back(
            "if cores are idle, transform batches on a separate thread: "
            "--prepare_ahead");
      }
      return make(RunPart::kTrainerCpu,
                  "the trainer's own CPU copies and transforms batches",
                  std::move(advice));
    }
    case WaitCause::kNoAnswer:
      return make(RunPart::kNoAnswer, "no server answered",
                  {absl::StrCat("see which servers answer: millrace status "
                                "--endpoint=",
                                Endpoint(run)),
                   more_servers});
    case WaitCause::kConsumer:
    case WaitCause::kUnclear:
      break;
  }
  return make(RunPart::kData, "the cause is not clear",
              {absl::StrCat("run millrace status --interval=5s --endpoint=",
                            Endpoint(run), " during the training"),
               absl::StrCat("run millrace bench --endpoint=", Endpoint(run),
                            " without the trainer (docs/operations.md)")});
}

// The run ended because no batch came.
Finding FinalWaitFinding(const RunSummary& run) {
  Finding finding =
      Make(RunPart::kNoAnswer, run.times.share(run.final_wait_seconds),
           absl::StrCat("the run ended in a wait of ",
                        RateText(run.final_wait_seconds),
                        " s for a batch that no server sent"),
           {absl::StrCat("see which servers answer, and read their logs: "
                         "millrace status --endpoint=",
                         Endpoint(run)),
            "check that no server is stopped or overloaded"});
  finding.max_gain = 1;  // it is not a matter of speed
  return finding;
}

void AddCopies(const RunSummary& run, std::vector<Finding>* findings) {
  const RunTimes& t = run.times;
  if (!findings->empty() && (findings->back().part == RunPart::kCopy ||
                             findings->back().part == RunPart::kTrainerCpu)) {
    return;
  }
  if (run.on_cpu()) {
    const double share = t.share(t.copy_seconds);
    if (share < kTransforms) return;
    findings->push_back(
        Make(RunPart::kTrainerCpu, share,
             absl::StrCat("the trainer's own CPU copies and transforms batches "
                          "for ",
                          Percent(share), " of the time"),
             {kOnServers}));
    return;
  }
  const double copying = t.share(t.device_copy_seconds);
  if (copying >= kCopies) {
    findings->push_back(Make(
        RunPart::kCopy, copying,
        absl::StrCat("the device copies and transforms batches for ",
                     Percent(copying),
                     " of the time (in parallel with the step, from pinned "
                     "memory)"),
        {kSmallOnWire, kDeviceLink}));
  }
  const double cores = CoresBusy(t);
  if (cores >= kCoresBusy) {
    Finding cpu = Make(
        RunPart::kTrainerCpu, cores,
        absl::StrFormat("the trainer keeps %s of its %d cores busy in addition "
                        "to the GPU",
                        Percent(cores), t.cpus),
        {kOnServers,
         "give this process more cores, or run fewer ranks on them"});
    // Busy cores are not late: their cost is unknown.
    cpu.max_gain = 1;
    findings->push_back(std::move(cpu));
  }
}

Finding ComputeFinding(const RunSummary& run, double share) {
  const RunTimes& t = run.times;
  std::string text =
      absl::StrCat("the model takes ", Percent(share), " of the time (forward ",
                   Percent(t.share(t.forward_seconds)), ", backward ",
                   Percent(t.share(t.backward_seconds)), ", optimiser ",
                   Percent(t.share(t.optimizer_seconds)), ")");
  std::vector<std::string> advice;
  if (t.has_gpu_load()) {
    absl::StrAppend(&text, ", and the GPU is busy ", Percent(t.device_busy),
                    " of the time");
  }
  if (!run.has_flag("precision")) {
    advice.push_back(absl::StrCat(
        "use mixed precision: --precision=bfloat16",
        run.on_cpu() ? ", if the CPU supports bfloat16" : " (or float16)"));
  }
  // An idle GPU waits for kernels to start: fewer and larger ones come first.
  auto place = t.has_gpu_load() && t.device_busy < kGpuIdles ? advice.begin()
                                                             : advice.end();
  if (const auto larger = LargerBatch(run)) {
    place = 1 + advice.insert(place,
                              absl::StrCat("use a larger batch: --batch_size=",
                                           *larger, " (with --lr to match)"));
  }
  // On the CPU the graph executor fuses nothing (docs/training.md).
  if (!run.on_cpu() && !run.has_flag("graph")) {
    advice.insert(place, "start fewer and larger kernels: --graph");
  }
  if (run.on_cpu()) {
    advice.push_back("train on a GPU: --device=cuda");
  } else {
    const uint64_t ranks = 2 * uint64_t{run.world_size};
    // Ranks take equal parts of a batch.
    advice.push_back(absl::StrCat(
        "use more GPUs: --nproc=", ranks, ", or more machines with torchrun",
        run.batch_size % ranks == 0
            ? ""
            : absl::StrCat(" (with a batch size that is divisible by ", ranks,
                           ")")));
  }
  return Make(RunPart::kCompute, share, std::move(text), std::move(advice));
}

// Waits for other ranks.
void AddRanks(const RunSummary& run, double data, double allreduce,
              std::vector<Finding>* findings) {
  double slowest = 0;
  size_t slowest_rank = 0;
  for (size_t rank = 0; rank < run.rank_stall_shares.size(); ++rank) {
    if (run.rank_stall_shares[rank] > slowest) {
      slowest = std::min(1.0, run.rank_stall_shares[rank]);
      slowest_rank = rank;
    }
  }
  if (slowest >= kMinWaitShare && slowest >= 2 * data) {
    findings->push_back(Make(
        RunPart::kRanks, slowest,
        absl::StrCat("rank ", slowest_rank, " waited for data ",
                     Percent(slowest), " of the time, rank 0 ", Percent(data),
                     ": the other ranks wait for rank ", slowest_rank),
        {absl::StrCat("see the lines of rank ", slowest_rank,
                      " for the cause of its wait"),
         "give every host the same number of servers at the same distance"}));
    return;
  }
  if (allreduce < kRanksWait) return;
  std::vector<std::string> advice;
  // With one optimiser step in an epoch a larger group of batches has no
  // effect.
  const uint64_t epochs = run.epoch_seconds.size();
  if (epochs == 0 || run.steps > epochs) {
    advice.push_back(absl::StrCat("average gradients less often: ",
                                  run.has_flag("accumulate")
                                      ? "a larger --accumulate"
                                      : "--accumulate=4"));
  }
  if (const auto larger = LargerBatch(run)) {
    advice.push_back(absl::StrCat(
        "do more work between two averages: --batch_size=", *larger));
  }
  advice.push_back(
      "use a faster network between the ranks (GLOO_SOCKET_IFNAME and "
      "NCCL_SOCKET_IFNAME choose the interface)");
  findings->push_back(
      Make(RunPart::kAllreduce, allreduce,
           absl::StrCat(run.world_size, " ranks waited for each other ",
                        Percent(allreduce), " of the time"),
           std::move(advice)));
}

}  // namespace

absl::string_view NameOf(RunPart part) {
  return kNames[static_cast<size_t>(part)];
}

std::string GainText(const Finding& finding) {
  if (finding.max_gain == 0) {
    return " (nearly all of the time; the gain depends on the next bottleneck)";
  }
  if (finding.max_gain <= 1.005) return "";
  return absl::StrFormat(" (without it, the run is at most %.2f times as fast)",
                         finding.max_gain);
}

absl::Status CheckHasSteps(const RunSummary& run, absl::string_view path) {
  if (run.times.seconds > 0 &&
      (run.times.steps > 0 || run.final_wait_seconds > 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      " has no times of training steps: the run ended before its first step, "
      "the file is not a summary of millrace-train, or an earlier version "
      "wrote it; train again with --json=FILE",
      run.error.has_value() ? absl::StrCat(". ", EndText(run)) : ""));
}

std::string EndText(const RunSummary& run) {
  if (run.ended == "finished" || !run.error.has_value()) return "";
  const std::string error = CleanText(*run.error, kMaxErrorBytes);
  if (absl::StartsWith(error, "stopped ")) {
    return absl::StrCat("the run was ", error);
  }
  return absl::StrCat("the run failed: ", error);
}

bool IsTooShort(const RunTimes& times) {
  return times.steps < kMinRunSteps || times.seconds < kMinRunSeconds;
}

std::string TooShortText(const RunTimes& times) {
  if (!IsTooShort(times)) return "";
  const std::string missing[] = {
      times.steps < kMinRunSteps
          ? absl::StrFormat("fewer than %d steps", kMinRunSteps)
          : "",
      times.seconds < kMinRunSeconds
          ? absl::StrFormat("less than %.0f s", kMinRunSeconds)
          : ""};
  return absl::StrFormat(
      "too short to judge: %s in %s s (%s%s%s); train at least %d steps and "
      "%.0f s",
      CountText(times.steps, "step"), RateText(times.seconds), missing[0],
      missing[0].empty() || missing[1].empty() ? "" : " and ", missing[1],
      kMinRunSteps, kMinRunSeconds);
}

std::string OtherProgramsText(const RunTimes& times) {
  const double cores = OtherCores(times);
  if (cores < kMinOtherCores) return "";
  return absl::StrFormat(
      "other programs on the trainer's machine use %.1f of its %s", cores,
      CountText(times.machine_cpus, "core"));
}

static std::vector<Finding> JudgeTimes(const RunSummary& run) {
  const RunTimes& t = run.times;
  std::vector<Finding> findings;

  const bool waited = WaitShare(run) >= kMinWaitShare;
  const bool data_named = waited && !WaitedAtStartOnly(run);
  if (data_named) findings.push_back(DataFinding(run));
  // Local servers are among the other programs.
  std::optional<RunPart> servers_part;
  if (data_named && run.servers_are_local() &&
      CauseOf(run) != WaitCause::kPreparing) {
    servers_part = findings[0].part;
  }
  AddCopies(run, &findings);
  const double data = t.share(t.data_seconds);
  const double allreduce = t.share(t.allreduce_seconds);
  AddRanks(run, data, allreduce, &findings);
  std::stable_sort(
      findings.begin(), findings.end(),
      [](const Finding& a, const Finding& b) { return a.share > b.share; });

  const double compute = t.share(t.compute_seconds());
  if (compute >= kComputes) findings.push_back(ComputeFinding(run, compute));
  const double rest = 1 - data - allreduce - compute;
  if (rest >= kOverhead) {
    std::vector<std::string> advice;
    if (const auto larger = LargerBatch(run)) {
      advice.push_back(
          absl::StrCat("use a larger batch: --batch_size=", *larger));
    }
    advice.push_back(
        "read losses and counters less often: a larger --log_every");
    findings.push_back(
        Make(RunPart::kOverhead, rest,
             absl::StrCat(Percent(rest),
                          " of the time is spent between the parts of the "
                          "steps: steps are short, and reading losses and "
                          "counters takes time"),
             std::move(advice)));
  }
  if (waited && !data_named) findings.push_back(StartFinding(run));
  const double others =
      t.machine_cpus >= 1 ? OtherCores(t) / t.machine_cpus : 0;
  if (others >= kOthersNamed) {
    Finding taken =
        Make(RunPart::kOtherPrograms, others,
             absl::StrCat(OtherProgramsText(t), ", including data servers"),
             {"stop these programs, or run them on another machine, and train "
              "again: the figures above are from a shared machine"});
    taken.max_gain = 1;
    const auto before = std::find_if(
        findings.begin(), findings.end(), [&](const Finding& finding) {
          if (finding.part == servers_part) return false;
          return finding.share < others ||
                 (finding.part == RunPart::kCompute && run.on_cpu() &&
                  others >= kOthersStarve);
        });
    findings.insert(before, std::move(taken));
  }
  // A change because of a run that shows nothing would be a guess.
  if (IsTooShort(t)) {
    for (Finding& finding : findings) finding.advice.clear();
  }
  return findings;
}

std::vector<Finding> JudgeRun(const RunSummary& run) {
  std::vector<Finding> findings = JudgeTimes(run);
  if (run.final_wait_seconds <= 0) return findings;
  // That the data stopped matters more than the speed before. The same wait is
  // not named twice.
  const double before =
      WaitShare(run) - run.times.share(run.final_wait_seconds);
  findings.erase(std::remove_if(findings.begin(), findings.end(),
                                [before](const Finding& finding) {
                                  return finding.part == RunPart::kNoAnswer ||
                                         (finding.part <= RunPart::kData &&
                                          before < kMinWaitShare);
                                }),
                 findings.end());
  findings.insert(findings.begin(), FinalWaitFinding(run));
  return findings;
}

}  // namespace millrace::diagnosis
