#include "trainer/checkpoint.h"

#include <ATen/Functions.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>

#include <exception>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "trainer/files.h"
#include "trainer/torch_error.h"

namespace millrace {
namespace {

constexpr int64_t kFormat = 1;

absl::Status Damaged(const std::string& path, const std::exception& error) {
  return absl::DataLossError(absl::StrCat(
      path,
      " is not a whole checkpoint of this trainer: ", TorchMessage(error)));
}

std::string ReadString(torch::serialize::InputArchive& archive,
                       const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toStringRef();
}

int64_t ReadInt(torch::serialize::InputArchive& archive,
                const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toInt();
}

bool IsFinite(const torch::Tensor& tensor) {
  return !tensor.defined() || at::isfinite(tensor).all().item<bool>();
}

// All that a step can spoil.
bool IsFinite(const torch::nn::Module& model,
              const torch::optim::Optimizer& optimizer) {
  for (const torch::Tensor& tensor : model.parameters()) {
    if (!IsFinite(tensor)) return false;
  }
  for (const torch::Tensor& tensor : model.buffers()) {
    if (!IsFinite(tensor)) return false;
  }
  for (const auto& [parameter, state] : optimizer.state()) {
    if (const auto* adam =
            dynamic_cast<const torch::optim::AdamParamState*>(state.get())) {
      if (!IsFinite(adam->exp_avg()) || !IsFinite(adam->exp_avg_sq())) {
        return false;
      }
    } else if (const auto* sgd =
                   dynamic_cast<const torch::optim::SGDParamState*>(
                       state.get())) {
      if (!IsFinite(sgd->momentum_buffer())) return false;
    }
  }
  return true;
}

}  // namespace

absl::Status WriteCheckpoint(const std::string& path,
                             const CheckpointInfo& info,
                             const torch::nn::Module& model,
                             const torch::optim::Optimizer& optimizer) {
  std::ostringstream bytes;
  try {
    if (!IsFinite(model, optimizer)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the weights or the optimiser's state hold values that are no finite "
          "numbers, so they are not written; an older checkpoint at ",
          path, " is kept"));
    }
    torch::serialize::OutputArchive archive;
    archive.write("format", c10::IValue(kFormat));
    archive.write("model_name", c10::IValue(info.model));
    archive.write("optimizer_name", c10::IValue(info.optimizer));
    archive.write("classes", c10::IValue(info.classes));
    archive.write("epoch",
                  c10::IValue(static_cast<int64_t>(info.position.epoch)));
    archive.write("step",
                  c10::IValue(static_cast<int64_t>(info.position.step)));
    archive.write("steps", c10::IValue(static_cast<int64_t>(info.steps)));
    archive.write("plan_hash",
                  c10::IValue(absl::BytesToHexString(info.plan_hash)));
    archive.write("fingerprint", c10::IValue(info.fingerprint));
    torch::serialize::OutputArchive weights(archive.compilation_unit());
    model.save(weights);
    archive.write("model", weights);
    torch::serialize::OutputArchive state(archive.compilation_unit());
    optimizer.save(state);
    archive.write("optimizer", state);
    archive.save_to(bytes);
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("cannot make the checkpoint ", path, ": ", error.what()));
  }
  return WriteFileAtomically(path, bytes.str());
}

absl::StatusOr<CheckpointInfo> ReadCheckpointInfo(const std::string& path) {
  // A missing file is told apart from a damaged one.
  MR_RETURN_IF_ERROR(CheckReadable(path));
  try {
    torch::serialize::InputArchive archive;
    // Whatever device it was written on need not be here.
    archive.load_from(path, torch::kCPU);
    if (const int64_t format = ReadInt(archive, "format"); format != kFormat) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " has checkpoint format ", format,
                       "; this version reads ", kFormat));
    }
    CheckpointInfo info;
    info.model = ReadString(archive, "model_name");
    info.optimizer = ReadString(archive, "optimizer_name");
    info.classes = ReadInt(archive, "classes");
    info.position.epoch = static_cast<uint64_t>(ReadInt(archive, "epoch"));
    info.position.step = static_cast<uint64_t>(ReadInt(archive, "step"));
    info.steps = static_cast<uint64_t>(ReadInt(archive, "steps"));
    info.plan_hash = absl::HexStringToBytes(ReadString(archive, "plan_hash"));
    info.fingerprint = ReadString(archive, "fingerprint");
    return info;
  } catch (const std::exception& error) {
    return Damaged(path, error);
  }
}

absl::Status RestoreCheckpoint(const std::string& path,
                               torch::nn::Module& model,
                               torch::optim::Optimizer& optimizer) {
  try {
    torch::serialize::InputArchive archive;
    // Loading gives a parameter the device of the file's tensor.
    const std::vector<torch::Tensor> parameters = model.parameters();
    archive.load_from(path, parameters.empty() ? torch::Device(torch::kCPU)
                                               : parameters[0].device());
    torch::serialize::InputArchive weights;
    archive.read("model", weights);
    model.load(weights);
    torch::serialize::InputArchive state;
    archive.read("optimizer", state);
    // Loading also replaces the options.
    std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
    for (const auto& group : optimizer.param_groups()) {
      options.push_back(group.options().clone());
    }
    optimizer.load(state);
    for (size_t i = 0; i < options.size(); ++i) {
      optimizer.param_groups()[i].set_options(std::move(options[i]));
    }
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return Damaged(path, error);
  }
}

}  // namespace millrace
