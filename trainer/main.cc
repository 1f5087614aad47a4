// millrace-train: trains a model on batches from Millrace data servers, on one
// rank or several.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/torch/cuda_runtime.h"
#include "common/cgroup.h"
#include "common/count_text.h"
#include "common/flag_needs.h"
#include "common/malloc_tuning.h"
#include "common/standard_output.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "common/version.h"
#include "proto/flag_hint.h"
#include "proto/library_logs.h"
#include "trainer/config.h"
#include "trainer/error_text.h"
#include "trainer/launcher.h"
#include "trainer/rank_env.h"
#include "trainer/run.h"
#include "trainer/stop_signal.h"
#include "trainer/summary.h"

namespace millrace {

// A flag's duration: 5s, 300ms, or a number of seconds.
struct Time {
  Time(absl::Duration given) : duration(given) {}  // NOLINT: as a Duration
  Time() = default;
  operator absl::Duration() const { return duration; }

  absl::Duration duration;
};

bool AbslParseFlag(absl::string_view text, Time* time, std::string* error) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    time->duration = absl::Seconds(seconds);  // of no number: infinite
  } else if (!absl::ParseDuration(text, &time->duration)) {
    *error = "give a time such as 5s, 300ms, or a number of seconds";
    return false;
  }
  // Libraries count in nanoseconds, and fail beyond some centuries.
  constexpr absl::Duration kLongest = absl::Hours(24 * 365);
  if (time->duration > kLongest || time->duration < -kLongest) {
    *error = "give a time of at most a year (8760h)";
    return false;
  }
  return true;
}

std::string AbslUnparseFlag(Time time) {
  return absl::FormatDuration(time.duration);
}

namespace {

// What the flags say. A function's own, for the flags fill it in while this
// file's other statics are still being made.
TrainerConfig& FlaggedConfig() {
  static TrainerConfig config;
  return config;
}

}  // namespace
}  // namespace millrace

// The flag of a field of TrainerConfig, with the field's name and default.
// Abseil runs OnUpdate once at the start, too, and whenever the flag is set.
#define TRAINER_FLAG(type, field, help)                                       \
  ABSL_FLAG(type, field, millrace::TrainerConfig().field, help).OnUpdate([] { \
    millrace::FlaggedConfig().field = absl::GetFlag(FLAGS_##field);           \
  })

TRAINER_FLAG(
    std::string, endpoint,
    "Data servers: HOST:PORT[,HOST:PORT...] or one DNS name with port.");
TRAINER_FLAG(std::string, dataset, "Dataset to train on.");
TRAINER_FLAG(std::string, eval_dataset,
             "Dataset to evaluate on after each epoch. Empty: no evaluation.");
TRAINER_FLAG(
    std::string, train_subset,
    "Train on a part of the dataset: FROM:TO in samples (0:48000) or as "
    "shares (0:0.8), in a random order that --subset_seed fixes.");
TRAINER_FLAG(
    std::string, eval_subset,
    "Evaluate on a part: of --eval_dataset, or without it of --dataset; "
    "training then takes the rest, or --train_subset.");
TRAINER_FLAG(uint64_t, subset_seed,
             "Seed of the random order that --train_subset and --eval_subset "
             "cut.");
TRAINER_FLAG(
    uint64_t, subset_unit,
    "Neighbours of the dataset that are cut together, as frames of one "
    "film. 0: none.");
TRAINER_FLAG(
    std::string, preset,
    "Pipeline by name. Empty: what the dataset recommends, and samples "
    "as they are stored when it recommends none.");
TRAINER_FLAG(std::string, pipeline,
             "Pipeline of your own: a PipelineSpec as text in this file.");
TRAINER_FLAG(
    std::string, outputs,
    "Fields that become tensors of a batch, with commas: image,label. Empty: "
    "what the pipeline lists, else all. Of the evaluation as well, unless "
    "--eval_pipeline is given.");
TRAINER_FLAG(std::string, eval_preset,
             "Evaluation's pipeline by name. Empty: the preset that the "
             "dataset recommends for evaluation, whatever --preset or "
             "--pipeline say.");
TRAINER_FLAG(std::string, eval_pipeline,
             "Evaluation's own pipeline: a PipelineSpec as text in this file.");
TRAINER_FLAG(std::string, model,
             "mlp, cnn, resnet18, resnet34, resnet50, unet (values for each "
             "pixel), or torchscript:FILE, a module that Python saved with "
             "torch.jit.script or trace.");
TRAINER_FLAG(bool, graph,
             "Run the model as a graph that libtorch traces and optimises.");
TRAINER_FLAG(
    std::string, loss,
    "cross_entropy, bce_with_logits, mse, or torchscript:FILE, a module "
    "of outputs and target.");
TRAINER_FLAG(
    std::string, init_weights,
    "Begin with the weights of this file: safetensors, or torch.save of "
    "a state_dict.");
TRAINER_FLAG(std::vector<std::string>, init_weights_without,
             "Layers or tensors that --init_weights leaves alone: fc,layer4.1");
TRAINER_FLAG(std::string, save_weights,
             "Write the weights after each epoch and at the end to this file, "
             "NAME.safetensors or, for torch.load, NAME.pt.");
TRAINER_FLAG(std::string, input,
             "Tensor to learn from. Empty: the one beside the target, or the "
             "one image where there are several.");
TRAINER_FLAG(std::string, target,
             "Tensor to learn. Empty: the one that has classes, else the one "
             "that is a mask.");
TRAINER_FLAG(uint64_t, classes,
             "Number of classes of a target that does not say it, such as a "
             "mask or a whole number. 0: what the data say.");
TRAINER_FLAG(std::optional<int64_t>, ignore_value,
             "Pixels of the target with this value do not count, often 255. "
             "Not given: all count.");
TRAINER_FLAG(uint64_t, epochs, "Epochs to train.");
TRAINER_FLAG(uint64_t, batch_size,
             "Samples of a global batch. 0: what the pipeline says, else 64.");
TRAINER_FLAG(uint64_t, max_steps,
             "Stop after this many optimiser steps of this run. 0: no limit.");
TRAINER_FLAG(
    std::string, last_batch,
    "What becomes of the rest of an epoch: drop, or pad (learnt with its "
    "right weight). Empty: what the pipeline says, else drop.");
TRAINER_FLAG(std::optional<uint64_t>, seed,
             "Seed of the order, the augmentation and the first weights "
             "(default 0, and for order and augmentation what the pipeline "
             "says).");
TRAINER_FLAG(std::string, optimizer, "sgd, adam or adamw.");
TRAINER_FLAG(double, lr, "Learning rate; with a schedule the highest one.");
TRAINER_FLAG(std::optional<double>, momentum, "Momentum of sgd (default 0.9).");
TRAINER_FLAG(bool, nesterov, "Of sgd: Nesterov's momentum.");
TRAINER_FLAG(std::optional<double>, beta1,
             "Of adam and adamw: decay of the gradients' mean (default 0.9).");
TRAINER_FLAG(std::optional<double>, beta2,
             "Of adam and adamw: decay of the mean of the gradients' squares "
             "(default 0.999).");
TRAINER_FLAG(std::optional<double>, eps,
             "Of adam and adamw: added to the divisor (default 1e-8).");
TRAINER_FLAG(double, weight_decay,
             "L2 penalty with sgd and adam; with adamw taken off the weights.");
TRAINER_FLAG(bool, decay_all,
             "Decay biases and the scales of normalising layers too.");
TRAINER_FLAG(std::string, schedule,
             "The learning rate over the run: constant, step or cosine.");
TRAINER_FLAG(double, warmup_epochs,
             "Epochs, whole or not, in which the learning rate rises to --lr.");
TRAINER_FLAG(
    std::optional<uint64_t>, step_epochs,
    "Of --schedule=step: epochs between two falls of the rate (default "
    "30).");
TRAINER_FLAG(std::optional<double>, step_gamma,
             "Of --schedule=step: the factor of a fall (default 0.1).");
TRAINER_FLAG(
    std::optional<double>, min_lr,
    "Of --schedule=step and cosine: the lowest learning rate (default 0).");
TRAINER_FLAG(double, label_smoothing,
             "Share of a label that is spread over all classes.");
TRAINER_FLAG(uint64_t, accumulate,
             "Batches whose gradients one optimiser step takes together.");
TRAINER_FLAG(double, clip_grad_norm,
             "Upper bound of the gradients' norm. 0: none.");
TRAINER_FLAG(
    double, ema,
    "Decay of averaged weights, which are evaluated and kept beside the "
    "others. 0: none.");
TRAINER_FLAG(std::string, precision,
             "Of the forward pass: float32, bfloat16 or float16 (autocast).");
TRAINER_FLAG(std::optional<double>, loss_scale,
             "Of --precision=float16: the first loss scale (default 65536).");
TRAINER_FLAG(bool, channels_last,
             "Lay images and the weights of convolutions out channels-last.");
ABSL_FLAG(uint32_t, nproc, 0,
          "Ranks to start on this machine, and on each of --nnodes. 0: this "
          "process is a rank, as torchrun's environment says, or the only "
          "one.");
ABSL_FLAG(uint32_t, nnodes, 1,
          "Machines of the job. Above 1: start this program on each of them "
          "with the same flags but for --node_rank.");
ABSL_FLAG(uint32_t, node_rank, 0,
          "Number of this machine among --nnodes, from 0.");
ABSL_FLAG(std::optional<millrace::Time>, stop_grace, std::nullopt,
          "With --nproc: time from a signal to end until ranks that still run "
          "are killed (default 20s). Time for a checkpoint.");
ABSL_FLAG(std::string, master_addr, "",
          "Address of the machine with --node_rank=0, as the others reach it.");
ABSL_FLAG(std::optional<uint32_t>, master_port, std::nullopt,
          "With --master_addr: a free port of that machine, at which the ranks "
          "meet (default 29500).");
TRAINER_FLAG(std::string, device, "auto, cpu or cuda.");
TRAINER_FLAG(uint32_t, device_prefetch, "Batches kept ready on the device.");
TRAINER_FLAG(bool, prepare_ahead,
             "On the CPU, normalise batches on a thread of its own. Good when "
             "training leaves cores idle.");
TRAINER_FLAG(
    bool, same_host,
    "Take batches of servers on this machine in memory that they share.");
TRAINER_FLAG(uint32_t, window,
             "Batches that are requested ahead. 0: chosen by their size.");
TRAINER_FLAG(
    uint64_t, replay_batches,
    "Repeat the first N batches, from copies on the device, to measure what "
    "a perfect loader would gain. Trains nothing of use. 0: off.");
TRAINER_FLAG(millrace::Time, timeout,
             "Time after which an endpoint that does not answer is given up.");
TRAINER_FLAG(std::optional<millrace::Time>, rank_timeout,
             "Of several ranks: time after which one that does not answer is "
             "given up (default 2m); a collective call has --data_timeout and "
             "30s at least.");
TRAINER_FLAG(millrace::Time, data_timeout,
             "Time without a batch after which the run ends.");
TRAINER_FLAG(
    millrace::Time, step_timeout,
    "Time without progress after which a step is requested from another "
    "server.");
TRAINER_FLAG(
    double, hedge_share,
    "Upper bound of the share of steps that are requested from a second "
    "server because they are late. 0: never.");
TRAINER_FLAG(std::optional<millrace::Time>, hedge_floor,
             "Minimum time before a step counts as late (default 20ms).");
TRAINER_FLAG(std::string, audit_dir,
             "Write down in this folder which samples each rank was given: 32 "
             "bytes a step, for `millrace audit --files=DIR`. One folder for "
             "each job: restarts with --resume go on in it.");
TRAINER_FLAG(std::string, json, "Write the summary to this file.");
TRAINER_FLAG(std::string, step_losses,
             "Write the loss of every step to this file: epoch step loss.");
TRAINER_FLAG(
    std::string, checkpoint,
    "Write a checkpoint to this file after each epoch, at the end and on "
    "failure.");
TRAINER_FLAG(uint64_t, checkpoint_every,
             "Optimiser steps between two further writes of --checkpoint. 0: "
             "after each epoch alone.");
TRAINER_FLAG(std::string, failed_batch,
             "Keep the batch of a step whose loss is no finite number in this "
             "folder. Empty: beside --checkpoint.");
TRAINER_FLAG(std::string, resume,
             "Go on from this checkpoint; auto: from --checkpoint when it is "
             "there. --lr and the like are those given now.");
TRAINER_FLAG(uint64_t, log_every,
             "Steps between lines when output is not a terminal, and between "
             "points in TensorBoard. 0: none, and one an epoch.");
TRAINER_FLAG(
    std::string, tensorboard,
    "Write TensorBoard's event files to this folder: losses, accuracy, "
    "learning rate, and where the time of a step goes.");
TRAINER_FLAG(
    std::string, profile,
    "Write a trace of some steps to this folder, for ui.perfetto.dev or "
    "TensorBoard, and print the operators that took longest.");
TRAINER_FLAG(std::optional<std::string>, profile_steps,
             "Steps that --profile records: FROM-TO, counted from 1 in this "
             "run (default 5-9).");

#undef TRAINER_FLAG

namespace millrace {
namespace {

// Exit codes: as those of the other programs.
constexpr int kFailed = 1;
constexpr int kUsage = 2;

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "millrace-train: %s\n",
                ErrorText(WithOwnFlag(status, {"outputs", "last_batch"})));
  return IsUsageError(status) ? kUsage : kFailed;
}

// Abseil ends the program itself, with 1, after --help and after a flag that it
// cannot read. While it reads the flags this turns that into the code for it.
int exit_code_of_flags = -1;  // not reading flags

void ExitWithTheCodeOfFlags() {
  if (exit_code_of_flags < 0) return;
  const absl::Status printed = FlushStandardOutput();
  if (!printed.ok() && exit_code_of_flags == 0) {
    exit_code_of_flags = Fail(printed);
  }
  std::fflush(stderr);
  _exit(exit_code_of_flags);
}

// Abseil takes whatever follows `--name` for its value, another flag as well.
absl::Status CheckNoFlagIsAValue(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i) {
    absl::string_view name = argv[i];
    if (name == "--" || !absl::ConsumePrefix(&name, "-")) break;
    absl::ConsumePrefix(&name, "-");
    if (absl::StrContains(name, '=')) continue;
    const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    if (flag == nullptr || flag->IsOfType<bool>()) continue;
    const absl::string_view value = argv[++i];
    if (value.size() < 2 || value[0] != '-' ||
        !(value[1] == '-' || absl::ascii_isalpha(value[1]))) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "--", name, " has no value: \"", value,
        "\" follows, which looks like a flag; give --", name, "=VALUE, or --",
        name, "=", value, " when that is the value"));
  }
  return absl::OkStatus();
}

// --help in one of Abseil's forms, or --version.
bool AsksForHelp(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    if (flag == "--") return false;
    if (!absl::ConsumePrefix(&flag, "-")) continue;
    absl::ConsumePrefix(&flag, "-");
    if (absl::StartsWith(flag, "help") || flag == "version") return true;
  }
  return false;
}

std::vector<char*> ParseFlags(int argc, char** argv) {
  std::atexit(ExitWithTheCodeOfFlags);
  exit_code_of_flags = AsksForHelp(argc, argv) ? 0 : kUsage;
  std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  exit_code_of_flags = -1;
  return rest;
}

// A flag of ranks that this process does not start, or that have no others, is
// a mistake.
absl::Status CheckLaunchNeeds(const LaunchOptions& options, bool rank_timeout,
                              bool environment) {
  static const auto* const needs =
      new std::vector<FlagNeed>{{"nnodes", {"nproc"}},
                                {"node_rank", {"nproc"}},
                                {"master_addr", {"nproc"}},
                                {"master_port", {"nproc"}},
                                {"master_port", {"master_addr"}},
                                {"stop_grace", {"nproc"}}};
  MR_RETURN_IF_ERROR(CheckFlagNeeds(*needs, [&](absl::string_view name) {
    if (name == "nproc") return options.ranks > 0;
    if (name == "nnodes") return options.nodes != 1;
    if (name == "node_rank") return options.node_rank != 0;
    if (name == "master_addr") return !options.master_address.empty();
    if (name == "master_port") {
      return absl::GetFlag(FLAGS_master_port).has_value();
    }
    return absl::GetFlag(FLAGS_stop_grace).has_value();
  }));
  // The same command may be one rank of torchrun's today and of four tomorrow.
  if (rank_timeout && !environment &&
      uint64_t{options.ranks} * options.nodes <= 1) {
    return absl::InvalidArgumentError(
        "--rank_timeout has no effect with one rank: start several with "
        "--nproc, --nnodes or torchrun, or leave --rank_timeout out");
  }
  return absl::OkStatus();
}

// What --nproc and --nnodes say; `ranks` of them here.
absl::StatusOr<LaunchOptions> ReadLaunchFlags(uint32_t ranks,
                                              const TrainerConfig& config) {
  LaunchOptions options;
  options.ranks = ranks;
  options.nodes = absl::GetFlag(FLAGS_nnodes);
  options.node_rank = absl::GetFlag(FLAGS_node_rank);
  options.master_address = absl::GetFlag(FLAGS_master_addr);
  const uint32_t port = absl::GetFlag(FLAGS_master_port).value_or(29500);
  options.grace = absl::GetFlag(FLAGS_stop_grace).value_or(options.grace);
  auto bad = [](const auto&... words) {
    return absl::InvalidArgumentError(absl::StrCat(words...));
  };
  const bool environment =
      std::getenv("RANK") != nullptr || std::getenv("WORLD_SIZE") != nullptr;
  MR_RETURN_IF_ERROR(
      CheckLaunchNeeds(options, config.rank_timeout.has_value(), environment));
  if (ranks == 0) return options;
  if (environment) {
    return bad(
        "--nproc starts ranks, but RANK or WORLD_SIZE is set already; "
        "drop one of them");
  }
  if (options.nodes < 1) return bad("--nnodes is 0; give at least 1");
  if (options.grace < absl::ZeroDuration()) {
    return bad("--stop_grace is negative; give 0 (kill at once) or more");
  }
  if (uint64_t{ranks} * options.nodes > 1'000'000) {
    return bad("--nproc=", ranks, " on --nnodes=", options.nodes,
               " machines are more ranks than any job has");
  }
  if (options.node_rank >= options.nodes) {
    return bad("--node_rank=", options.node_rank,
               " is none of --nnodes=", options.nodes,
               " machines, which are counted from 0");
  }
  if (options.nodes > 1 && options.master_address.empty()) {
    return bad("--nnodes=", options.nodes,
               " needs --master_addr=HOST, the address of the machine with "
               "--node_rank=0");
  }
  if (port < 1 || port > 65535) {
    return bad("--master_port is ", port, "; give 1 to 65535");
  }
  options.master_port = static_cast<uint16_t>(port);
  const uint32_t all = ranks * options.nodes;
  if (config.batch_size % all != 0) {
    return bad(
        "--batch_size=", config.batch_size,
        " cannot be shared by --nproc=", ranks, " ranks",
        options.nodes == 1
            ? std::string()
            : absl::StrCat(" on each of --nnodes=", options.nodes, " machines"),
        "; make it a multiple of ", all);
  }
  return options;
}

// Starts the program once for each rank.
int Launch(LaunchOptions options, int argc, char** argv) {
  // Who sets OMP_NUM_THREADS has decided already.
  options.threads_per_rank =
      std::getenv("OMP_NUM_THREADS") != nullptr
          ? 0
          : std::max(1u, AvailableCpus() / options.ranks);
  options.command = {"/proc/self/exe"};
  for (int i = 1; i < argc; ++i) options.command.push_back(argv[i]);
  const absl::Status status = RunRanks(options);
  return status.ok() ? 0 : Fail(status);
}

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "trains a model on batches from Millrace data servers.\n\n"
      "  millrace-train --endpoint=data-1:7001,data-2:7001 --dataset=photos "
      "\\\n      --model=resnet18 --epochs=10 --batch_size=256 --nproc=2\n");
  absl::FlagsUsageConfig usage;
  usage.version_string = [] {
    return absl::StrCat("millrace-train ", kMillraceVersion, "\n");
  };
  // All flags of this program are in this file.
  usage.contains_help_flags = [](absl::string_view file) {
    return absl::EndsWith(file, "trainer/main.cc");
  };
  absl::SetFlagsUsageConfig(usage);
  if (absl::Status status = CheckNoFlagIsAValue(argc, argv); !status.ok()) {
    return Fail(UsageError(status));
  }
  const std::vector<char*> rest = ParseFlags(argc, argv);
  if (rest.size() > 1) {
    return Fail(UsageError(absl::InvalidArgumentError(
        absl::StrCat("unexpected argument \"", rest[1], "\"; see --help"))));
  }
  TrainerConfig config = FlaggedConfig();
  config.flags.assign(argv + 1, argv + argc);
  if (absl::Status status = config.Validate(); !status.ok()) {
    return Fail(UsageError(status));
  }

  const bool launched = std::getenv("MILLRACE_LAUNCHED") != nullptr;
  if (!launched) {
    const absl::StatusOr<LaunchOptions> launch =
        ReadLaunchFlags(absl::GetFlag(FLAGS_nproc), config);
    if (!launch.ok()) return Fail(UsageError(launch.status()));
    if (absl::GetFlag(FLAGS_nproc) > 0) return Launch(*launch, argc, argv);
  }

  // A file that grows too large is an error of its write(), with a sentence.
  signal(SIGXFSZ, SIG_IGN);
  StopSignal stop;
  const absl::Status cuda = LoadCudaRuntime();
  if (!cuda.ok() && !absl::IsNotFound(cuda) && config.device == "auto") {
    absl::FPrintF(stderr, "millrace-train: %s; training on the CPU\n",
                  cuda.message());
  }
  if (!cuda.ok() && config.device == "cuda") return Fail(cuda);
  // The profiler's library reports it as an error (level 4) when a machine has
  // no GPU to count. A trace that is not written is reported by the trainer. No
  // thread reads the environment yet.
  if (absl::IsNotFound(cuda)) setenv("KINETO_LOG_LEVEL", "5", 0);
  const absl::StatusOr<RankEnv> env = ReadRankEnv();
  if (!env.ok()) return Fail(UsageError(env.status()));
  const absl::StatusOr<TrainSummary> summary = RunTraining(config, *env, stop);
  if (!summary.ok()) return Fail(summary.status());
  if (env->rank == 0) {
    // What could not be drawn of the progress is no error of the summary.
    std::fflush(stdout);
    std::clearerr(stdout);
    absl::FPrintF(stdout,
                  "%d samples, %.0f samples/s, waiting for data %.1f %%",
                  summary->samples, summary->samples_per_second,
                  100 * summary->stall_share);
    if (!summary->loss.empty()) {
      absl::FPrintF(stdout, ", loss %.4f", summary->loss.back());
    }
    if (summary->eval_accuracy.has_value()) {
      absl::FPrintF(stdout, ", accuracy %.4f", *summary->eval_accuracy);
    }
    absl::FPrintF(stdout, "\n");
    const BadSampleSummary& bad = summary->bad_samples;
    const uint64_t empty = std::accumulate(bad.empty_rows.begin(),
                                           bad.empty_rows.end(), uint64_t{0});
    if (empty > 0 || !bad.damaged.empty()) {
      absl::FPrintF(
          stdout,
          "bad samples (%s): the servers met %s, %s left empty; --json lists "
          "them\n",
          bad.policy, CountText(bad.damaged.size(), "damaged sample"),
          CountText(empty, "row was", "rows were"));
    }
    if (summary->replay_batches > 0) {
      absl::FPrintF(stdout,
                    "repeated batches: the first %d batches were repeated; the "
                    "rate is the upper bound that a perfect loader would give, "
                    "loss and accuracy mean nothing\n",
                    summary->replay_batches);
    }
    if (absl::Status printed = FlushStandardOutput(); !printed.ok()) {
      return Fail(printed);
    }
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  // libgomp's idle threads spin by default. On cores that are shared with data
  // servers or other ranks the one that works is then pushed aside: small
  // models were measured up to 60 times slower. libgomp reads this before
  // main, so the program starts itself anew, once.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr &&
      std::getenv("GOMP_SPINCOUNT") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 0);
    execv("/proc/self/exe", argv);
    // Without it training is slower, no more.
  }
  millrace::SetMallocThresholds();
  millrace::RouteLibraryLogs();
  return millrace::Main(argc, argv);
}
