// millrace-train: trains a model on batches from Millrace data servers, on one
// rank or several.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/torch/cuda_runtime.h"
#include "common/cgroup.h"
#include "common/malloc_tuning.h"
#include "common/version.h"
#include "trainer/config.h"
#include "trainer/launcher.h"
#include "trainer/rank_env.h"
#include "trainer/run.h"
#include "trainer/stop_signal.h"
#include "trainer/summary.h"

namespace millrace {

// A flag's duration: 5s, 300ms, or a number of seconds.
struct Time {
  absl::Duration duration;
};

bool AbslParseFlag(absl::string_view text, Time* time, std::string* error) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    time->duration = absl::Seconds(seconds);
    return true;
  }
  if (absl::ParseDuration(text, &time->duration)) return true;
  *error = "give a time such as 5s, 300ms, or a number of seconds";
  return false;
}

std::string AbslUnparseFlag(Time time) {
  return absl::FormatDuration(time.duration);
}

}  // namespace millrace

ABSL_FLAG(std::string, endpoint, "",
          "Data servers: HOST:PORT[,HOST:PORT...] or one DNS name with port.");
ABSL_FLAG(std::string, dataset, "", "Dataset to train on.");
ABSL_FLAG(std::string, eval_dataset, "",
          "Dataset to evaluate on after each epoch. Empty: no evaluation.");
ABSL_FLAG(std::string, train_subset, "",
          "Train on a part of the dataset: FROM:TO in samples (0:48000) or as "
          "shares (0:0.8), in a random order that --subset_seed fixes.");
ABSL_FLAG(std::string, eval_subset, "",
          "Evaluate on a part: of --eval_dataset, or without it of --dataset; "
          "training then takes the rest, or --train_subset.");
ABSL_FLAG(uint64_t, subset_seed, 0, "Another cut for another number.");
ABSL_FLAG(uint64_t, subset_unit, 0,
          "Neighbours of the dataset that are cut together, as frames of one "
          "film. 0: none.");
ABSL_FLAG(std::string, preset, "",
          "Pipeline by name. Empty: what the dataset recommends.");
ABSL_FLAG(std::string, pipeline, "",
          "Pipeline of your own: a PipelineSpec as text in this file.");
ABSL_FLAG(std::string, eval_preset, "", "As --preset, for evaluation.");
ABSL_FLAG(std::string, eval_pipeline, "", "As --pipeline, for evaluation.");
ABSL_FLAG(std::string, model, "mlp",
          "mlp, cnn, resnet18, resnet34, resnet50, or torchscript:FILE, a "
          "module that Python saved with torch.jit.script or trace.");
ABSL_FLAG(bool, graph, false,
          "Run the model as a graph that libtorch traces and optimises.");
ABSL_FLAG(std::string, loss, "cross_entropy",
          "cross_entropy, bce_with_logits, mse, or torchscript:FILE, a module "
          "of outputs and target.");
ABSL_FLAG(std::string, init_weights, "",
          "Begin with the weights of this file: safetensors, or torch.save of "
          "a state_dict.");
ABSL_FLAG(std::vector<std::string>, init_weights_without, {},
          "Layers or tensors that --init_weights leaves alone: fc,layer4.1");
ABSL_FLAG(std::string, save_weights, "",
          "Write the weights after each epoch and at the end to this file, "
          "NAME.safetensors or, for torch.load, NAME.pt.");
ABSL_FLAG(std::string, input, "",
          "Tensor to learn from. Empty: the first that is not the target.");
ABSL_FLAG(std::string, target, "",
          "Tensor to learn. Empty: the one that has classes.");
ABSL_FLAG(uint64_t, epochs, 1, "Epochs to train.");
ABSL_FLAG(uint64_t, batch_size, 0,
          "Samples of a global batch. 0: what the pipeline says, else 64.");
ABSL_FLAG(uint64_t, max_steps, 0,
          "Stop after this many optimiser steps of this run. 0: no limit.");
ABSL_FLAG(std::string, last_batch, "",
          "What becomes of the rest of an epoch: drop, or pad (learnt with its "
          "right weight). Empty: what the pipeline says, else drop.");
ABSL_FLAG(uint64_t, seed, 0,
          "Fixes the order, the augmentation and the first weights.");
ABSL_FLAG(std::string, optimizer, "adam", "sgd, adam or adamw.");
ABSL_FLAG(double, lr, 1e-3, "Learning rate, the schedule's highest.");
ABSL_FLAG(std::optional<double>, momentum, std::nullopt, "Of sgd; 0.9.");
ABSL_FLAG(bool, nesterov, false, "Of sgd: Nesterov's momentum.");
ABSL_FLAG(std::optional<double>, beta1, std::nullopt,
          "Of adam and adamw: decay of the gradients' mean; 0.9.");
ABSL_FLAG(std::optional<double>, beta2, std::nullopt,
          "Of adam and adamw: decay of their squares' mean; 0.999.");
ABSL_FLAG(std::optional<double>, eps, std::nullopt,
          "Of adam and adamw: added to the divisor; 1e-8.");
ABSL_FLAG(double, weight_decay, 0,
          "L2 penalty with sgd and adam; with adamw taken off the weights.");
ABSL_FLAG(bool, decay_all, false,
          "Decay biases and the scales of normalising layers too.");
ABSL_FLAG(std::string, schedule, "constant",
          "The learning rate over the run: constant, step or cosine.");
ABSL_FLAG(double, warmup_epochs, 0,
          "Epochs, whole or not, in which the learning rate rises to --lr.");
ABSL_FLAG(std::optional<uint64_t>, step_epochs, std::nullopt,
          "Of --schedule=step: epochs between two falls; 30.");
ABSL_FLAG(std::optional<double>, step_gamma, std::nullopt,
          "Of --schedule=step: the factor of a fall; 0.1.");
ABSL_FLAG(std::optional<double>, min_lr, std::nullopt,
          "Of step and cosine: the lowest learning rate; 0.");
ABSL_FLAG(double, label_smoothing, 0,
          "Share of a label that is spread over all classes.");
ABSL_FLAG(uint64_t, accumulate, 1,
          "Batches whose gradients one optimiser step takes together.");
ABSL_FLAG(double, clip_grad_norm, 0,
          "Shorten longer gradients to this norm. 0: never.");
ABSL_FLAG(double, ema, 0,
          "Decay of averaged weights, which are evaluated and kept beside the "
          "others. 0: none.");
ABSL_FLAG(std::string, precision, "float32",
          "Of the forward pass: float32, bfloat16 or float16 (autocast).");
ABSL_FLAG(std::optional<double>, loss_scale, std::nullopt,
          "Of --precision=float16: the first loss scale; 65536.");
ABSL_FLAG(bool, channels_last, true,
          "Lay images and the weights of convolutions out channels-last.");
ABSL_FLAG(uint32_t, nproc, 0,
          "Start this many ranks on this machine, and on each of --nnodes. 0: "
          "this process is a rank, "
          "as torchrun's environment says, or the only one.");
ABSL_FLAG(uint32_t, nnodes, 1,
          "Machines of the job. Above 1: start this program on each of them "
          "with the same flags but for --node_rank.");
ABSL_FLAG(uint32_t, node_rank, 0, "Which of --nnodes this is, from 0.");
ABSL_FLAG(std::string, master_addr, "",
          "Address of the machine with --node_rank=0, as the others reach it.");
ABSL_FLAG(uint32_t, master_port, 29500,
          "A free port there, at which the ranks meet.");
ABSL_FLAG(std::string, device, "auto", "auto, cpu or cuda.");
ABSL_FLAG(uint32_t, device_prefetch, 2, "Batches kept ready on the device.");
ABSL_FLAG(bool, prepare_ahead, false,
          "On the CPU, normalise batches on a thread of its own. Good when "
          "training leaves cores idle.");
ABSL_FLAG(bool, same_host, false,
          "Take batches of servers on this machine in memory that they share.");
ABSL_FLAG(uint32_t, window, 0,
          "Batches asked for ahead. 0: chosen by their size.");
ABSL_FLAG(uint64_t, replay_batches, 0,
          "Repeat the first so many batches, from copies on the device, to see "
          "what a perfect loader would gain. Trains nothing of use. 0: off.");
ABSL_FLAG(millrace::Time, timeout, millrace::Time{absl::Seconds(5)},
          "Give up on an endpoint that does not answer for so long.");
ABSL_FLAG(millrace::Time, rank_timeout, millrace::Time{absl::Minutes(2)},
          "Give up on other ranks that do not answer for so long; once they "
          "have joined, not before --data_timeout is over as well.");
ABSL_FLAG(millrace::Time, data_timeout, millrace::Time{absl::Minutes(5)},
          "Give up when no batch comes for so long.");
ABSL_FLAG(millrace::Time, step_timeout,
          millrace::Time{millrace::TrainerConfig().step_timeout},
          "Ask another server for a step without progress for so long.");
ABSL_FLAG(double, hedge_share, millrace::TrainerConfig().hedge_share,
          "Ask a second server for steps that are late, at most for this share "
          "of them. 0: never.");
ABSL_FLAG(millrace::Time, hedge_floor,
          millrace::Time{millrace::TrainerConfig().hedge_floor},
          "No step is late before.");
ABSL_FLAG(std::string, audit_dir, "",
          "Write down in this folder which samples each rank was given: 32 "
          "bytes a step, for `millrace audit --files=DIR`.");
ABSL_FLAG(std::string, json, "", "Write the summary to this file.");
ABSL_FLAG(std::string, step_losses, "",
          "Write the loss of every step to this file: epoch step loss.");
ABSL_FLAG(std::string, checkpoint, "",
          "Write a checkpoint to this file after each epoch, at the end and on "
          "failure.");
ABSL_FLAG(uint64_t, checkpoint_every, 0,
          "Write --checkpoint after so many steps as well. 0: not.");
ABSL_FLAG(std::string, failed_batch, "",
          "Keep the batch of a step whose loss is no finite number in this "
          "folder. Empty: beside --checkpoint.");
ABSL_FLAG(std::string, resume, "",
          "Go on from this checkpoint; auto: from --checkpoint when it is "
          "there. --lr and the like are those given now.");
ABSL_FLAG(uint64_t, log_every, 100,
          "Steps between lines when output is not a terminal, and between "
          "points in TensorBoard. 0: none, and one an epoch.");
ABSL_FLAG(std::string, tensorboard, "",
          "Write TensorBoard's event files to this folder: losses, accuracy, "
          "learning rate, and where the time of a step goes.");
ABSL_FLAG(std::string, profile, "",
          "Write a trace of some steps to this folder, for ui.perfetto.dev or "
          "TensorBoard, and print the operators that took longest.");
ABSL_FLAG(std::string, profile_steps, "5-9",
          "Steps that --profile records: FROM-TO, counted from 1 in this "
          "run.");

namespace millrace {
namespace {

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "millrace-train: %s\n", status.message());
  return 1;
}

TrainerConfig ReadFlags() {
  TrainerConfig config;
  config.endpoint = absl::GetFlag(FLAGS_endpoint);
  config.dataset = absl::GetFlag(FLAGS_dataset);
  config.eval_dataset = absl::GetFlag(FLAGS_eval_dataset);
  config.train_subset = absl::GetFlag(FLAGS_train_subset);
  config.eval_subset = absl::GetFlag(FLAGS_eval_subset);
  config.subset_seed = absl::GetFlag(FLAGS_subset_seed);
  config.subset_unit = absl::GetFlag(FLAGS_subset_unit);
  config.preset = absl::GetFlag(FLAGS_preset);
  config.pipeline = absl::GetFlag(FLAGS_pipeline);
  config.eval_preset = absl::GetFlag(FLAGS_eval_preset);
  config.eval_pipeline = absl::GetFlag(FLAGS_eval_pipeline);
  config.model = absl::GetFlag(FLAGS_model);
  config.graph = absl::GetFlag(FLAGS_graph);
  config.loss = absl::GetFlag(FLAGS_loss);
  config.init_weights = absl::GetFlag(FLAGS_init_weights);
  config.init_weights_without = absl::GetFlag(FLAGS_init_weights_without);
  config.save_weights = absl::GetFlag(FLAGS_save_weights);
  config.input = absl::GetFlag(FLAGS_input);
  config.target = absl::GetFlag(FLAGS_target);
  config.epochs = absl::GetFlag(FLAGS_epochs);
  config.batch_size = absl::GetFlag(FLAGS_batch_size);
  config.max_steps = absl::GetFlag(FLAGS_max_steps);
  config.last_batch = absl::GetFlag(FLAGS_last_batch);
  config.seed = absl::GetFlag(FLAGS_seed);
  config.optimizer = absl::GetFlag(FLAGS_optimizer);
  config.lr = absl::GetFlag(FLAGS_lr);
  config.momentum = absl::GetFlag(FLAGS_momentum);
  config.nesterov = absl::GetFlag(FLAGS_nesterov);
  config.beta1 = absl::GetFlag(FLAGS_beta1);
  config.beta2 = absl::GetFlag(FLAGS_beta2);
  config.eps = absl::GetFlag(FLAGS_eps);
  config.weight_decay = absl::GetFlag(FLAGS_weight_decay);
  config.decay_all = absl::GetFlag(FLAGS_decay_all);
  config.schedule = absl::GetFlag(FLAGS_schedule);
  config.warmup_epochs = absl::GetFlag(FLAGS_warmup_epochs);
  config.step_epochs = absl::GetFlag(FLAGS_step_epochs);
  config.step_gamma = absl::GetFlag(FLAGS_step_gamma);
  config.min_lr = absl::GetFlag(FLAGS_min_lr);
  config.label_smoothing = absl::GetFlag(FLAGS_label_smoothing);
  config.accumulate = absl::GetFlag(FLAGS_accumulate);
  config.clip_grad_norm = absl::GetFlag(FLAGS_clip_grad_norm);
  config.ema = absl::GetFlag(FLAGS_ema);
  config.precision = absl::GetFlag(FLAGS_precision);
  config.loss_scale = absl::GetFlag(FLAGS_loss_scale);
  config.channels_last = absl::GetFlag(FLAGS_channels_last);
  config.device = absl::GetFlag(FLAGS_device);
  config.device_prefetch = absl::GetFlag(FLAGS_device_prefetch);
  config.prepare_ahead = absl::GetFlag(FLAGS_prepare_ahead);
  config.window = absl::GetFlag(FLAGS_window);
  config.same_host = absl::GetFlag(FLAGS_same_host);
  config.replay_batches = absl::GetFlag(FLAGS_replay_batches);
  config.timeout = absl::GetFlag(FLAGS_timeout).duration;
  config.rank_timeout = absl::GetFlag(FLAGS_rank_timeout).duration;
  config.data_timeout = absl::GetFlag(FLAGS_data_timeout).duration;
  config.step_timeout = absl::GetFlag(FLAGS_step_timeout).duration;
  config.hedge_share = absl::GetFlag(FLAGS_hedge_share);
  config.hedge_floor = absl::GetFlag(FLAGS_hedge_floor).duration;
  config.audit_dir = absl::GetFlag(FLAGS_audit_dir);
  config.json = absl::GetFlag(FLAGS_json);
  config.step_losses = absl::GetFlag(FLAGS_step_losses);
  config.checkpoint = absl::GetFlag(FLAGS_checkpoint);
  config.checkpoint_every = absl::GetFlag(FLAGS_checkpoint_every);
  config.failed_batch = absl::GetFlag(FLAGS_failed_batch);
  config.resume = absl::GetFlag(FLAGS_resume);
  config.log_every = absl::GetFlag(FLAGS_log_every);
  config.tensorboard = absl::GetFlag(FLAGS_tensorboard);
  config.profile = absl::GetFlag(FLAGS_profile);
  config.profile_steps = absl::GetFlag(FLAGS_profile_steps);
  return config;
}

// What --nproc and --nnodes say; `ranks` of them here.
absl::StatusOr<LaunchOptions> ReadLaunchFlags(uint32_t ranks,
                                              uint64_t batch_size) {
  LaunchOptions options;
  options.ranks = ranks;
  options.nodes = absl::GetFlag(FLAGS_nnodes);
  options.node_rank = absl::GetFlag(FLAGS_node_rank);
  options.master_address = absl::GetFlag(FLAGS_master_addr);
  const uint32_t port = absl::GetFlag(FLAGS_master_port);
  auto bad = [](const auto&... words) {
    return absl::InvalidArgumentError(absl::StrCat(words...));
  };
  if (ranks == 0) {
    if (options.nodes != 1 || options.node_rank != 0 ||
        !options.master_address.empty()) {
      return bad(
          "--nnodes, --node_rank and --master_addr start ranks; say with "
          "--nproc how many on each machine");
    }
    return options;
  }
  if (std::getenv("RANK") != nullptr || std::getenv("WORLD_SIZE") != nullptr) {
    return bad(
        "--nproc starts ranks, but RANK or WORLD_SIZE is set already; "
        "drop one of them");
  }
  if (options.nodes < 1) return bad("--nnodes is 0; give at least 1");
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
  if (batch_size % all != 0) {
    return bad(
        "--batch_size=", batch_size, " cannot be shared by --nproc=", ranks,
        " ranks",
        options.nodes == 1
            ? std::string()
            : absl::StrCat(" on each of --nnodes=", options.nodes, " machines"),
        "; make it a multiple of ", all);
  }
  return options;
}

// Starts the program once for each rank.
int Launch(LaunchOptions options, int argc, char** argv) {
  options.threads_per_rank = std::max(1u, AvailableCpus() / options.ranks);
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
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("unexpected argument \"", rest[1], "\"; see --help")));
  }
  TrainerConfig config = ReadFlags();
  config.flags.assign(argv + 1, argv + argc);
  if (absl::Status status = config.Validate(); !status.ok()) {
    return Fail(status);
  }

  const bool launched = std::getenv("MILLRACE_LAUNCHED") != nullptr;
  if (!launched) {
    const absl::StatusOr<LaunchOptions> launch =
        ReadLaunchFlags(absl::GetFlag(FLAGS_nproc), config.batch_size);
    if (!launch.ok()) return Fail(launch.status());
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
  const absl::StatusOr<RankEnv> env = ReadRankEnv();
  if (!env.ok()) return Fail(env.status());
  const absl::StatusOr<TrainSummary> summary = RunTraining(config, *env, stop);
  if (!summary.ok()) return Fail(summary.status());
  if (env->rank == 0) {
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
    if (summary->replay_batches > 0) {
      absl::FPrintF(stdout,
                    "headspace: the first %d batches were repeated; the speed "
                    "is that of a perfect loader, loss and accuracy mean "
                    "nothing\n",
                    summary->replay_batches);
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
  millrace::KeepFreedMemory();
  return millrace::Main(argc, argv);
}
