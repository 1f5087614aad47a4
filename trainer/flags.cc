#include "trainer/flags.h"

#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/flags/loader_flags.h"
#include "common/flag_needs.h"
#include "common/program/flag_set.h"
#include "common/status_macros.h"
#include "common/usage_error.h"

namespace millrace::trainer {
namespace {

constexpr uint32_t kDefaultMasterPort = 29500;
constexpr uint32_t kMaxPort = 65535;
constexpr uint64_t kMaxRanks = 1'000'000;

template <typename... Words>
absl::Status Bad(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(words...));
}

// The values of the flags that start ranks.
struct RankFlags {
  uint32_t nproc = 0;
  uint32_t nnodes = 1;
  uint32_t node_rank = 0;
  std::string master_addr;
  std::optional<uint32_t> master_port;
  std::optional<absl::Duration> stop_grace;
};

void AddDataFlags(TrainerConfig* c, flags::LoaderFlags& loader,
                  program::FlagSet& flags) {
  flags.Group("Data");
  loader.AddEndpoint(flags);
  flags.Add("dataset", &c->dataset, "NAME", "Dataset to train on");
  flags
      .Add("preset", &c->preset, "NAME",
           "Pipeline by name, such as imagenet_train")
      .Default(
          "the one that the dataset recommends, or samples as they are stored");
  flags.Add("pipeline", &c->pipeline, "FILE",
            "Pipeline from a file, a PipelineSpec as protobuf text");
  flags
      .Add("outputs", &c->outputs, "FIELD,...",
           "Fields that become tensors of a batch; also for the evaluation, "
           "unless --eval_pipeline is given")
      .Default("those that the pipeline lists, or all");
  flags.Add("batch_size", &c->batch_size, "N",
            "Samples of a global batch; 0: the pipeline's number, or 64");
  flags
      .Add("last_batch", &c->last_batch, "drop|pad",
           "What happens to the samples at the end of an epoch that fill no "
           "whole batch. drop: they are left out; pad: they are trained in a "
           "batch with empty rows, which the loss does not count")
      .Default("the pipeline's, or drop");
  flags
      .Add("train_subset", &c->train_subset, "FROM:TO",
           "Part of the dataset to train on, in samples (whole numbers: "
           "0:48000) or as shares (a point or a per cent sign: 0:0.8, "
           "0%:80%), in a random order that --subset_seed fixes")
      .Default("the whole dataset");
  flags.Add("subset_seed", &c->subset_seed, "N",
            "Seed of the random order that --train_subset and --eval_subset "
            "cut");
  flags.Add("subset_unit", &c->subset_unit, "N",
            "Number of neighbouring samples that stay in one part, such as the "
            "frames of a film; 0: single samples");

  flags.Group("Evaluation");
  flags
      .Add("eval_dataset", &c->eval_dataset, "NAME",
           "Dataset to evaluate on after each epoch")
      .Default("no evaluation");
  flags
      .Add("eval_subset", &c->eval_subset, "FROM:TO",
           "Part to evaluate on, in samples (48000:60000) or as shares "
           "(0.8:1.0), of --eval_dataset, or without it of "
           "--dataset; training then takes the rest, or --train_subset")
      .Default("the whole --eval_dataset");
  flags
      .Add("eval_preset", &c->eval_preset, "NAME",
           "Pipeline of the evaluation by name")
      .Default(
          "the one that the dataset recommends for evaluation; not "
          "--preset or --pipeline");
  flags.Add("eval_pipeline", &c->eval_pipeline, "FILE",
            "Pipeline of the evaluation from a file, a PipelineSpec as "
            "protobuf text");
}

void AddModelFlags(TrainerConfig* c, program::FlagSet& flags) {
  flags.Group("Model and loss");
  flags.Add("model", &c->model, "NAME",
            "mlp, cnn, resnet18, resnet34, resnet50, unet (values for each "
            "pixel), or torchscript:FILE, a module that Python saved with "
            "torch.jit.script or trace");
  flags.Add("graph", &c->graph, "",
            "Run the model as a graph that libtorch traces and optimises");
  flags.Add("loss", &c->loss, "NAME",
            "cross_entropy, bce_with_logits, mse, or torchscript:FILE, a "
            "module that takes outputs and target");
  flags.Add("label_smoothing", &c->label_smoothing, "SHARE",
            "Share of a label that is spread over all classes");
  flags.Add("input", &c->input, "FIELD", "Tensor that is the model's input")
      .Default(
          "the only one besides the target, or the only image among several");
  flags.Add("target", &c->target, "FIELD", "Tensor that is the target")
      .Default("the one that has classes, or the one that is a mask");
  flags.Add("classes", &c->classes, "N",
            "Number of classes of the target, if the dataset does not contain "
            "it (a mask, a whole number); 0: from the dataset");
  flags
      .Add("ignore_value", &c->ignore_value, "N",
           "Pixels of the target with this value are ignored, often 255")
      .Default("none");
  flags.Add("init_weights", &c->init_weights, "FILE",
            "Initial weights: safetensors, or torch.save of a state_dict");
  flags.Add(
      "init_weights_without",
      [c](absl::string_view text) {
        c->init_weights_without = absl::StrSplit(text, ',');
        return absl::OkStatus();
      },
      "NAME,...", "Layers or tensors that --init_weights does not set");
  flags.Add("channels_last", &c->channels_last, "",
            "Use channels-last memory for images and convolution weights");
}

void AddOptimizerFlags(TrainerConfig* c, program::FlagSet& flags) {
  flags.Group("Optimisation");
  flags.Add("optimizer", &c->optimizer, "sgd|adam|adamw", "Optimiser").Choice();
  flags.Add("lr", &c->lr, "RATE", "Learning rate; with a schedule its maximum");
  flags.Add("momentum", &c->momentum, "SHARE", "sgd: momentum").Default("0.9");
  flags.Add("nesterov", &c->nesterov, "", "sgd: Nesterov's momentum");
  flags
      .Add("beta1", &c->beta1, "SHARE",
           "adam, adamw: decay of the gradients' mean")
      .Default("0.9");
  flags
      .Add("beta2", &c->beta2, "SHARE",
           "adam, adamw: decay of the mean of the gradients' squares")
      .Default("0.999");
  flags.Add("eps", &c->eps, "NUMBER", "adam, adamw: added to the divisor")
      .Default("1e-8");
  flags.Add("weight_decay", &c->weight_decay, "SHARE",
            "sgd, adam: L2 penalty; adamw: decay of the weights");
  flags.Add("decay_all", &c->decay_all, "",
            "Decay biases and the scales of normalising layers too");
  flags
      .Add("schedule", &c->schedule, "constant|step|cosine",
           "Learning rate over the run")
      .Choice();
  flags.Add("warmup_epochs", &c->warmup_epochs, "NUMBER",
            "Number of epochs, whole or not, in which the learning rate rises "
            "to --lr");
  flags
      .Add("step_epochs", &c->step_epochs, "N",
           "--schedule=step: epochs between two reductions of the rate")
      .Default("30");
  flags
      .Add("step_gamma", &c->step_gamma, "FACTOR",
           "--schedule=step: factor of a reduction")
      .Default("0.1");
  flags
      .Add("min_lr", &c->min_lr, "RATE",
           "--schedule=step and cosine: minimum learning rate")
      .Default("0");
  flags.Add("accumulate", &c->accumulate, "N",
            "Number of batches whose gradients one optimiser step combines");
  flags.Add("clip_grad_norm", &c->clip_grad_norm, "NORM",
            "Upper bound of the gradients' norm; 0: none");
  flags.Add("ema", &c->ema, "SHARE",
            "Decay of averaged weights, which are evaluated and saved besides "
            "the trained ones; 0: none");
  flags
      .Add("precision", &c->precision, "float32|bfloat16|float16",
           "Precision of the forward pass (autocast)")
      .Choice();
  flags
      .Add("loss_scale", &c->loss_scale, "NUMBER",
           "--precision=float16: initial loss scale")
      .Default("65536");
}

void AddRunFlags(TrainerConfig* c, program::FlagSet& flags) {
  flags.Group("Run");
  flags.Add("epochs", &c->epochs, "N", "Epochs to train");
  flags.Add("max_steps", &c->max_steps, "N",
            "Optimiser steps after which this run ends; 0: no limit");
  flags
      .Add("seed", &c->seed, "N",
           "Seed of the order, the augmentation and the initial weights")
      .Default("0; for order and augmentation the pipeline's seed");
  flags.Add("checkpoint", &c->checkpoint, "FILE",
            "Write a checkpoint after each epoch, at the end and on failure");
  flags.Add("checkpoint_every", &c->checkpoint_every, "N",
            "Optimiser steps between further writes of --checkpoint; 0: only "
            "after each epoch");
  flags.Add("resume", &c->resume, "FILE|auto",
            "Continue from this checkpoint; auto: from --checkpoint if that "
            "file exists. The learning rate and all other settings come from "
            "this command line");
  flags.Add("save_weights", &c->save_weights, "FILE",
            "Write the weights after each epoch and at the end, to "
            "NAME.safetensors or, for torch.load, NAME.pt");
  flags
      .Add("failed_batch", &c->failed_batch, "DIR",
           "Folder for the batch of a step whose loss is not finite")
      .Default("beside --checkpoint");
  flags.Add("repeat_batches", &c->repeat_batches, "N",
            "Repeat the first N batches, from copies on the device, to measure "
            "what a perfect loader would gain; the model is meaningless; 0: "
            "off");
  flags.Renamed("replay_batches", "repeat_batches");

  flags.Group("Device");
  flags
      .Add("device", &c->device, "auto|cpu|cuda",
           "Device to train on; auto: a GPU if there is one")
      .Choice();
  flags.Add("device_prefetch", &c->device_prefetch, "N",
            "Batches kept ready on the device");
  flags.Add("prepare_ahead", &c->prepare_ahead, "",
            "On the CPU, normalise batches on a separate thread; good when "
            "training leaves cores idle");
}

void AddRankFlags(TrainerConfig* c, RankFlags* ranks, program::FlagSet& flags) {
  flags.Group("Several ranks");
  flags.Add(
      "nproc", &ranks->nproc, "N",
      "Number of ranks to start on this machine, and on each of --nnodes; "
      "0: this process is the only rank, or a rank of torchrun's "
      "environment");
  flags.Add(
      "nnodes", &ranks->nnodes, "N",
      "Number of machines of the job; above 1: start this program on each "
      "machine with the same flags except --node_rank");
  flags.Add("node_rank", &ranks->node_rank, "N",
            "Number of this machine among --nnodes, from 0");
  flags.Add("master_addr", &ranks->master_addr, "HOST",
            "Address of the machine with --node_rank=0 for the other machines");
  flags
      .Add("master_port", &ranks->master_port, "PORT",
           "With --master_addr: free port of that machine, to which the ranks "
           "connect")
      .Default(absl::StrCat(kDefaultMasterPort));
  flags
      .Add("stop_grace", &ranks->stop_grace, "TIME",
           "With --nproc: time that ranks have after a signal to write a "
           "checkpoint, before they are killed; 0: killed at once")
      .MayBeZero()
      .Default(absl::FormatDuration(LaunchOptions().grace));
  flags
      .Add("rank_timeout", &c->rank_timeout, "TIME",
           "Max time without an answer of a rank; then the run ends; a "
           "collective call gets at least --data_timeout + 30s")
      .Default("2m");
}

void AddLogFlags(TrainerConfig* c, bool* version, program::FlagSet& flags) {
  flags.Group("Logs");
  flags.Add("log_every", &c->log_every, "N",
            "Steps between lines when output is not a terminal, and between "
            "points in TensorBoard; 0: no lines, and one point an epoch");
  flags.Add("json", &c->json, "FILE",
            "Write a summary of the run to this file, for `millrace doctor`");
  flags.Add("step_losses", &c->step_losses, "FILE",
            "Write the loss of every step to this file, a line \"EPOCH STEP "
            "LOSS\" for each");
  flags.Add("tensorboard", &c->tensorboard, "DIR",
            "Write TensorBoard's event files to this folder: losses, accuracy, "
            "learning rate, and the time of a step by stage");
  flags.Add("profile", &c->profile, "DIR",
            "Write a trace of some steps to this folder, for ui.perfetto.dev "
            "or TensorBoard, and print the operators with the longest time");
  flags
      .Add("profile_steps", &c->profile_steps, "FROM-TO",
           "Steps that --profile records, counted from 1 in this run")
      .Default("5-9");
  flags.Add("audit_dir", &c->audit_dir, "DIR",
            "Record in this folder which samples each rank received: 32 bytes "
            "a step, for `millrace audit --files=DIR`. Use one folder for each "
            "job; restarts with --resume continue in it");
  flags.Add("version", version, "", "Print the release and exit");
}

// Refuses flags of ranks when this process starts no ranks, or only one.
absl::Status CheckRankNeeds(const RankFlags& ranks, bool rank_timeout,
                            bool environment) {
  const std::vector<FlagNeed> needs = {
      {"nnodes", {"nproc"}},      {"node_rank", {"nproc"}},
      {"master_addr", {"nproc"}}, {"master_port", {"nproc"}},
      {"stop_grace", {"nproc"}},  {"master_port", {"master_addr"}}};
  MR_RETURN_IF_ERROR(CheckFlagNeeds(needs, [&](absl::string_view name) {
    if (name == "nproc") return ranks.nproc > 0;
    if (name == "nnodes") return ranks.nnodes != 1;
    if (name == "node_rank") return ranks.node_rank != 0;
    if (name == "master_addr") return !ranks.master_addr.empty();
    if (name == "master_port") return ranks.master_port.has_value();
    return ranks.stop_grace.has_value();
  }));
  // The same command may be one rank of torchrun's today and of four tomorrow.
  if (rank_timeout && !environment &&
      uint64_t{ranks.nproc} * ranks.nnodes <= 1) {
    return Bad(
        "--rank_timeout has no effect with one rank: start several with "
        "--nproc, --nnodes or torchrun, or leave --rank_timeout out");
  }
  return absl::OkStatus();
}

absl::Status CheckRanks(const RankFlags& ranks, const TrainerConfig& config) {
  const bool environment =
      std::getenv("RANK") != nullptr || std::getenv("WORLD_SIZE") != nullptr;
  MR_RETURN_IF_ERROR(
      CheckRankNeeds(ranks, config.rank_timeout.has_value(), environment));
  if (ranks.nproc == 0) return absl::OkStatus();
  if (environment) {
    return Bad(
        "--nproc starts ranks, but RANK or WORLD_SIZE is set already; drop one "
        "of them");
  }
  if (ranks.nnodes < 1) return Bad("--nnodes is 0; give at least 1");
  const uint64_t all = uint64_t{ranks.nproc} * ranks.nnodes;
  if (all > kMaxRanks) {
    return Bad("--nproc=", ranks.nproc, " on --nnodes=", ranks.nnodes,
               " machines are more ranks than any job has");
  }
  if (ranks.node_rank >= ranks.nnodes) {
    return Bad("--node_rank=", ranks.node_rank,
               " is none of --nnodes=", ranks.nnodes,
               " machines, which are counted from 0");
  }
  if (ranks.nnodes > 1 && ranks.master_addr.empty()) {
    return Bad("--nnodes=", ranks.nnodes,
               " needs --master_addr=HOST, the address of the machine with "
               "--node_rank=0");
  }
  const uint32_t port = ranks.master_port.value_or(kDefaultMasterPort);
  if (port < 1 || port > kMaxPort) {
    return Bad("--master_port is ", port, "; give 1 to ", kMaxPort);
  }
  if (config.batch_size % all != 0) {
    return Bad(
        "--batch_size=", config.batch_size,
        " cannot be shared by --nproc=", ranks.nproc, " ranks",
        ranks.nnodes == 1
            ? ""
            : absl::StrCat(" on each of --nnodes=", ranks.nnodes, " machines"),
        "; make it a multiple of ", all);
  }
  return absl::OkStatus();
}

LaunchOptions ToLaunchOptions(const RankFlags& ranks) {
  LaunchOptions options;
  options.ranks = ranks.nproc;
  options.nodes = ranks.nnodes;
  options.node_rank = ranks.node_rank;
  options.master_address = ranks.master_addr;
  options.master_port =
      static_cast<uint16_t>(ranks.master_port.value_or(kDefaultMasterPort));
  options.grace = ranks.stop_grace.value_or(options.grace);
  return options;
}

}  // namespace

absl::StatusOr<TrainFlags> ParseTrainFlags(
    const std::vector<std::string>& arguments, bool launched) {
  TrainFlags result;
  RankFlags ranks;
  program::FlagSet flags(
      {.command = "millrace-train",
       .summary = "Trains a model on batches from Millrace data servers.",
       .examples = {"millrace-train --endpoint=data-1:7001,data-2:7001 "
                    "--dataset=photos \\\n      --model=resnet18 --epochs=10 "
                    "--batch_size=256 --nproc=2"},
       .notes = "SIGTERM or SIGINT ends the run at the next step, with a "
                "checkpoint; a second one ends it at once.\n"
                "Exit codes: 0 trained to the end, 1 an error, 2 a mistake on "
                "the command line or in a file that it names.",
       .last_value_holds = true});
  flags::LoaderFlags loader;
  AddDataFlags(&result.config, loader, flags);
  AddModelFlags(&result.config, flags);
  AddOptimizerFlags(&result.config, flags);
  AddRunFlags(&result.config, flags);
  AddRankFlags(&result.config, &ranks, flags);
  flags.Group("Loading");
  loader.AddPrefetch(flags);
  loader.AddConnection(flags);
  loader.AddVerification(flags);
  loader.AddHedging(flags);
  AddLogFlags(&result.config, &result.version, flags);
  flags.Renamed("helpfull", "help");
  MR_RETURN_IF_ERROR(flags.Parse(arguments));
  if (flags.help_wanted()) result.help = flags.Help();
  if (flags.help_wanted() || result.version) return result;
  if (flags.Given("outputs") && result.config.outputs.empty()) {
    return UsageError(absl::InvalidArgumentError(
        "flag --outputs=: expected names of fields, separated by commas; leave "
        "the flag out for all outputs"));
  }
  result.config.flags = arguments;
  result.config.loader = loader.options;
  MR_RETURN_IF_ERROR(UsageError(loader.Validate()));
  MR_RETURN_IF_ERROR(UsageError(result.config.Validate()));
  if (!launched)
    MR_RETURN_IF_ERROR(UsageError(CheckRanks(ranks, result.config)));
  result.launch = ToLaunchOptions(ranks);
  return result;
}

}  // namespace millrace::trainer
