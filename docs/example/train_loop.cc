// A training loop of one's own over Millrace's C++ client: opens a pipeline on
// the data servers and takes batches until the epochs are over.
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
  options.batch_size = 64;  // of all ranks together
  options.epochs = 2;
  auto loader = millrace::DataLoader::Open(options);
  if (!loader.ok()) {
    std::cerr << loader.status() << "\n";
    return 1;
  }

  while (true) {
    auto batch = (*loader)->Next();
    if (absl::IsOutOfRange(batch.status())) break;  // all epochs delivered
    if (!batch.ok()) {
      std::cerr << batch.status() << "\n";
      return 1;
    }
    const torch::Tensor& images = batch->tensor("image");  // float32 [64,C,H,W]
    const torch::Tensor& labels = batch->tensor("label");  // int64 [64]
    std::cout << "epoch " << batch->position.epoch << " step "
              << batch->position.step << ": images " << images.sizes()
              << ", mean " << images.mean().item<float>() << ", first label "
              << labels[0].item<int64_t>() << "\n";
    // Here: forward, backward, optimiser step.
  }
  return 0;
}
