// Trains a linear classifier of 28 x 28 images on the batches of Millrace's
// data servers, with the package for C and C++ and a libtorch of the program's
// own.
//
//   train_linear HOST:PORT[,HOST:PORT...] DATASET PRESET

#include <torch/types.h>
#include <torch/utils.h>

#include <iostream>
#include <millrace_torch.hpp>
#include <optional>

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: train_linear HOST:PORT DATASET PRESET\n";
    return 2;
  }
  millrace::BatchLoaderOptions options;
  options.Set("endpoint", argv[1]).Set("dataset", argv[2]);
  options.Set("preset", argv[3]).Set("batch_size", 64).Set("epochs", 2);
  millrace::BatchLoader loader(options);

  torch::Tensor weight = torch::zeros({28 * 28, 10}, torch::requires_grad());
  while (const std::optional<millrace::LoadedBatch> batch = loader.Next()) {
    // float32 [64, 1, 28, 28], int64 [64]
    const torch::Tensor images = millrace::ToTorch(batch->tensor("image"));
    const torch::Tensor labels = millrace::ToTorch(batch->tensor("label"));
    const torch::Tensor loss =
        torch::cross_entropy_loss(images.flatten(1).matmul(weight), labels);
    loss.backward();
    const torch::NoGradGuard no_grad;
    weight -= 0.01 * weight.grad();
    weight.mutable_grad().reset();
    std::cout << "epoch " << batch->position().epoch << " step "
              << batch->position().step << ": loss " << loss.item<float>()
              << "\n";
  }
  return 0;  // all epochs delivered
} catch (const millrace::LoadError& error) {
  std::cerr << error.status_name() << ": " << error.what() << "\n";
  return 1;
}
