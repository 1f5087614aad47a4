// What a perfect loader would give: trains the mlp of millrace-train, as
// `--model=mlp --optimizer=adam --lr=0.001` does, on pictures that lie in
// memory as normalised float32 tensors on the device. Each step picks its
// rows, in a new random order every epoch; nothing else than the training is
// done. tools/articles holds the trainer's epochs against it.
//
//   memory_train FOLDER EPOCHS BATCH_SIZE SEED MEAN STDDEV
//
// FOLDER holds MNIST's four IDX files, not packed. Prints one JSON object:
// epoch_seconds and loss (mean over the samples) of each epoch, accuracy on the
// test pictures after it, which does not count for the time. The layers are
// those of trainer/models/mlp.h, so that a seed gives the same first weights,
// and the optimiser is the trainer's own.

#include <ATen/Functions.h>
#include <torch/cuda.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/torch/cuda_runtime.h"
#include "common/status_macros.h"
#include "trainer/optim/optimizer.h"

namespace millrace {
namespace {

constexpr double kLearningRate = 1e-3;

struct Options {
  std::string folder;
  int64_t epochs = 0;
  int64_t batch_size = 0;
  uint64_t seed = 0;
  double mean = 0;
  double stddev = 0;
};

struct Pictures {
  torch::Tensor images;  // float32 [n, 1, 28, 28]
  torch::Tensor labels;  // int64 [n]
};

absl::StatusOr<Options> ParseOptions(int argc, char** argv) {
  Options options;
  if (argc != 7 || !absl::SimpleAtoi(argv[2], &options.epochs) ||
      !absl::SimpleAtoi(argv[3], &options.batch_size) ||
      !absl::SimpleAtoi(argv[4], &options.seed) ||
      !absl::SimpleAtod(argv[5], &options.mean) ||
      !absl::SimpleAtod(argv[6], &options.stddev) || options.epochs < 1 ||
      options.batch_size < 1 || !(options.stddev > 0)) {
    return absl::InvalidArgumentError(
        "usage: memory_train FOLDER EPOCHS BATCH_SIZE SEED MEAN STDDEV");
  }
  options.folder = argv[1];
  return options;
}

// The values of an IDX file of bytes, [sizes...].
absl::StatusOr<torch::Tensor> ReadIdx(const std::string& path, int dims) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)),
                                std::istreambuf_iterator<char>());
  const auto at = [&bytes](size_t i) {
    return static_cast<int64_t>(static_cast<unsigned char>(bytes[i]));
  };
  const size_t begin = 4 + 4 * static_cast<size_t>(dims);
  if (bytes.size() < begin || at(2) != 8 || at(3) != dims) {
    return absl::NotFoundError(
        absl::StrCat(path, " is no IDX file of bytes with ", dims,
                     " dimensions; unpack MNIST's files there"));
  }
  std::vector<int64_t> sizes;
  int64_t values = 1;
  for (size_t i = 4; i < begin; i += 4) {
    sizes.push_back((at(i) << 24) | (at(i + 1) << 16) | (at(i + 2) << 8) |
                    at(i + 3));
    // Past the file's size nothing fits any more: no overflow.
    values = values > static_cast<int64_t>(bytes.size())
                 ? values
                 : values * sizes.back();
  }
  if (static_cast<int64_t>(bytes.size() - begin) != values) {
    return absl::DataLossError(
        absl::StrCat(path, " does not have the size that its header says"));
  }
  return torch::from_blob(const_cast<char*>(bytes.data()) + begin, sizes,
                          torch::kByte)
      .clone();
}

absl::StatusOr<Pictures> ReadPictures(const Options& options,
                                      const std::string& part,
                                      torch::Device device) {
  MR_ASSIGN_OR_RETURN(
      torch::Tensor images,
      ReadIdx(absl::StrCat(options.folder, "/", part, "-images-idx3-ubyte"),
              3));
  MR_ASSIGN_OR_RETURN(
      torch::Tensor labels,
      ReadIdx(absl::StrCat(options.folder, "/", part, "-labels-idx1-ubyte"),
              1));
  if (images.size(1) != 28 || images.size(2) != 28 ||
      images.size(0) != labels.size(0) || labels.size(0) == 0) {
    return absl::DataLossError(absl::StrCat(
        options.folder, " does not hold as many labels as 28x28 pictures"));
  }
  images = images.unsqueeze(1)
               .to(torch::kFloat)
               .div_(255)
               .sub_(options.mean)
               .div_(options.stddev);
  return Pictures{images.to(device), labels.to(torch::kLong).to(device)};
}

class Mlp final : public torch::nn::Module {
 public:
  Mlp()
      : fc1_(register_module("fc1", torch::nn::Linear(784, 128))),
        fc2_(register_module("fc2", torch::nn::Linear(128, 64))),
        fc3_(register_module("fc3", torch::nn::Linear(64, 10))) {}

  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = torch::relu(fc1_(images.flatten(1)));
    x = torch::relu(fc2_(x));
    return fc3_(x);
  }

 private:
  torch::nn::Linear fc1_, fc2_, fc3_;
};

// Mean loss over the samples of an epoch.
double TrainEpoch(Mlp& model, optim::Optimizer& optimizer,
                  const Pictures& pictures, int64_t batch_size) {
  const int64_t samples = pictures.labels.size(0);
  torch::Tensor total = torch::zeros(
      {},
      torch::TensorOptions(torch::kDouble).device(pictures.labels.device()));
  const torch::Tensor order =
      torch::randperm(samples, torch::kLong).to(pictures.labels.device());
  for (const torch::Tensor& rows : order.split(batch_size)) {
    model.zero_grad();
    const torch::Tensor loss = at::cross_entropy_loss(
        model.forward(pictures.images.index_select(0, rows)),
        pictures.labels.index_select(0, rows));
    loss.backward();
    optimizer.Step(kLearningRate);
    total.add_(loss.detach(), static_cast<double>(rows.size(0)));
  }
  return total.item<double>() / static_cast<double>(samples);
}

double Accuracy(Mlp& model, const Pictures& pictures) {
  torch::NoGradGuard no_grad;
  const torch::Tensor right =
      model.forward(pictures.images).argmax(1).eq(pictures.labels).sum();
  return static_cast<double>(right.item<int64_t>()) /
         static_cast<double>(pictures.labels.size(0));
}

absl::Status Run(const Options& options) {
  const absl::Status cuda = device::LoadCudaRuntime();
  const torch::Device device = cuda.ok() && torch::cuda::is_available()
                                   ? torch::Device(torch::kCUDA)
                                   : torch::Device(torch::kCPU);
  MR_ASSIGN_OR_RETURN(const Pictures train,
                      ReadPictures(options, "train", device));
  MR_ASSIGN_OR_RETURN(const Pictures test,
                      ReadPictures(options, "t10k", device));
  torch::manual_seed(options.seed);
  Mlp model;
  model.to(device);
  optim::Optimizer optimizer({.kind = optim::Optimizer::Kind::kAdam},
                             model.parameters());
  std::vector<std::string> seconds, losses, accuracies;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const auto begun = std::chrono::steady_clock::now();
    const double loss = TrainEpoch(model, optimizer, train, options.batch_size);
    seconds.push_back(absl::StrFormat(
        "%.6f",
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun)
            .count()));
    losses.push_back(absl::StrFormat("%.9g", loss));
    accuracies.push_back(absl::StrFormat("%.9g", Accuracy(model, test)));
  }
  absl::PrintF(
      "{\"epoch_seconds\": [%s], \"loss\": [%s], \"accuracy\": [%s], "
      "\"samples\": %d, \"device\": \"%s\"}\n",
      absl::StrJoin(seconds, ", "), absl::StrJoin(losses, ", "),
      absl::StrJoin(accuracies, ", "), train.labels.size(0), device.str());
  return absl::OkStatus();
}

absl::Status Main(int argc, char** argv) {
  MR_ASSIGN_OR_RETURN(const Options options, ParseOptions(argc, argv));
  try {
    return Run(options);
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const absl::Status status = millrace::Main(argc, argv);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "memory_train: %s\n", status.message());
  return 1;
}
