// millrace-train: trains a model on batches from Millrace data servers, on one
// rank or several.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/diagnosis/run_summary.h"
#include "client/torch/cuda_runtime.h"
#include "common/cgroup.h"
#include "common/count_text.h"
#include "common/log_level.h"
#include "common/malloc_tuning.h"
#include "common/program/exit_code.h"
#include "common/standard_output.h"
#include "common/stop_signals.h"
#include "common/usage_error.h"
#include "common/version.h"
#include "proto/flag_hint.h"
#include "proto/library_logs.h"
#include "trainer/error_text.h"
#include "trainer/flags.h"
#include "trainer/launcher.h"
#include "trainer/rank_env.h"
#include "trainer/run.h"

namespace millrace::trainer {
namespace {

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "millrace-train: %s\n",
                ErrorText(WithOwnFlag(status, {"outputs", "last_batch"})));
  return program::ExitCode(status);
}

// Without its output the command would be useless.
int Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  const absl::Status printed = FlushStandardOutput();
  return printed.ok() ? program::kExitOk : Fail(printed);
}

// Starts the program once for each rank.
int Launch(LaunchOptions options, const std::vector<std::string>& arguments) {
  // A value of OMP_NUM_THREADS that the user set stays.
  options.threads_per_rank =
      std::getenv("OMP_NUM_THREADS") != nullptr
          ? 0
          : std::max(1u, AvailableCpus() / options.ranks);
  options.command = {"/proc/self/exe"};
  options.command.insert(options.command.end(), arguments.begin(),
                         arguments.end());
  const absl::Status status = RunRanks(options);
  return status.ok() ? program::kExitOk : Fail(status);
}

int Main(const std::vector<std::string>& arguments) {
  if (const absl::Status level = UseLogLevelOfEnvironment(); !level.ok()) {
    return Fail(level);
  }
  IgnoreWriteSignals();
  const bool launched = std::getenv("MILLRACE_LAUNCHED") != nullptr;
  const absl::StatusOr<TrainFlags> flags = ParseTrainFlags(arguments, launched);
  if (!flags.ok()) return Fail(flags.status());
  if (!flags->help.empty()) return Print(flags->help);
  if (flags->version) {
    return Print(absl::StrCat("millrace-train ", kMillraceVersion, "\n"));
  }
  if (!launched && flags->launch.ranks > 0) {
    return Launch(flags->launch, arguments);
  }

  const TrainerConfig& config = flags->config;
  // Never destroyed: a launcher's SIGTERM that arrives while this rank ends
  // must not replace its exit code.
  static StopSignals& stop = *new StopSignals;
  const absl::Status cuda = device::LoadCudaRuntime();
  if (!cuda.ok() && !absl::IsNotFound(cuda) && config.device == "auto") {
    absl::FPrintF(stderr, "millrace-train: %s; training on the CPU\n",
                  cuda.message());
  }
  if (!cuda.ok() && config.device == "cuda") {
    return Fail(WithWords(cuda, "--device=cuda cannot be used: ",
                          "; --device=cpu trains without a GPU"));
  }
  // Kineto reports as an error (level 4) that a machine has no GPU to profile.
  // The trainer reports a trace that is not written. No other thread reads the
  // environment yet.
  if (absl::IsNotFound(cuda)) setenv("KINETO_LOG_LEVEL", "5", 0);
  const absl::StatusOr<RankEnv> env = ReadRankEnv();
  if (!env.ok()) return Fail(UsageError(env.status()));
  const absl::StatusOr<diagnosis::RunSummary> summary =
      RunTraining(config, *env, stop);
  if (!summary.ok()) return Fail(summary.status());
  if (env->rank == 0) {
    absl::FPrintF(stdout, "%s, %s samples/s, waiting for data %.1f %%",
                  CountText(summary->samples, "sample"),
                  RateText(summary->samples_per_second),
                  100 * summary->stall_share);
    if (!summary->loss.empty()) {
      absl::FPrintF(stdout, ", loss %.4f", summary->loss.back());
    }
    if (summary->eval_accuracy.has_value()) {
      absl::FPrintF(stdout, ", accuracy %.4f", *summary->eval_accuracy);
    }
    absl::FPrintF(stdout, "\n");
    const diagnosis::BadSampleSummary& bad = summary->bad_samples;
    const uint64_t empty = std::accumulate(bad.empty_rows.begin(),
                                           bad.empty_rows.end(), uint64_t{0});
    if (empty > 0 || !bad.damaged.empty()) {
      absl::FPrintF(stdout,
                    "bad samples (%s): the servers found %s, %s left empty; "
                    "--json lists them\n",
                    bad.policy, CountText(bad.damaged.size(), "damaged sample"),
                    CountText(empty, "row was", "rows were"));
    }
    if (summary->replay_batches > 0) {
      absl::FPrintF(
          stdout,
          "repeated batches: the first %s repeated; the rate is the "
          "upper bound with a perfect loader, loss and accuracy have "
          "no meaning\n",
          CountText(summary->replay_batches, "batch was", "batches were"));
    }
    if (absl::Status printed = FlushStandardOutput(); !printed.ok()) {
      return Fail(printed);
    }
  }
  return 0;
}

}  // namespace
}  // namespace millrace::trainer

int main(int argc, char** argv) {
  millrace::HoldStandardStreams();
  // By default libgomp's idle threads spin and take the cores from data servers
  // and other ranks on the same machine: small models were measured up to 60
  // times slower. libgomp reads the variable before main(), so the program
  // executes itself once more.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr &&
      std::getenv("GOMP_SPINCOUNT") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 0);
    execv("/proc/self/exe", argv);
    // On failure training is only slower.
  }
  millrace::KeepFreedMemory();
  millrace::RouteLibraryLogs();
  return millrace::trainer::Main({argv + 1, argv + argc});
}
