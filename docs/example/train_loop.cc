// A training loop with Millrace's C++ client: trains a linear classifier of
// 28 x 28 images on the batches of the data servers.
//
//   train_loop HOST:PORT[,HOST:PORT...] DATASET PRESET

#include <torch/torch.h>

#include <iostream>

#include "client/loader.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: train_loop HOST:PORT DATASET PRESET\n";
    return 2;
  }
  millrace::DataLoader::Options options;
  options.endpoint = argv[1];
  options.dataset = argv[2];
  options.preset = argv[3];
  options.batch_size = 64;  // the global batch, for all ranks together
  options.epochs = 2;
  auto loader = millrace::DataLoader::Open(options);
  absl::Status status = loader.status();

  torch::nn::Linear model(28 * 28, 10);
  torch::optim::Adam optimizer(model->parameters());
  while (status.ok()) {
    auto batch = (*loader)->Next();
    status = batch.status();
    if (!status.ok()) break;
    const torch::Tensor& images = batch->tensor("image");  // [64, 1, 28, 28]
    const torch::Tensor& labels = batch->tensor("label");  // int64 [64]
    optimizer.zero_grad();
    const torch::Tensor loss =
        torch::cross_entropy_loss(model->forward(images.flatten(1)), labels);
    loss.backward();
    optimizer.step();
    std::cout << "epoch " << batch->position.epoch << " step "
              << batch->position.step << ": loss " << loss.item<float>()
              << "\n";
  }
  if (absl::IsOutOfRange(status)) return 0;  // all epochs delivered
  std::cerr << status << "\n";
  return 1;
}
