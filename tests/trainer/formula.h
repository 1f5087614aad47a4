// Weights and images that follow from a formula of name and index, and the
// numbers that Python's torch computed from the same ones: see
// tests/testdata/trainer/models/make_golden.py.

#ifndef MILLRACE_TESTS_TRAINER_FORMULA_H_
#define MILLRACE_TESTS_TRAINER_FORMULA_H_

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace millrace::testing {

// In [0, 1).
inline double Uniform(const std::string& name, uint32_t index) {
  uint32_t state = 2166136261;
  for (const char c : name) {
    state = (state ^ static_cast<unsigned char>(c)) * 16777619;
  }
  uint32_t h = index * 2654435761u + state;
  h ^= h >> 16;
  h *= 0x85EBCA6B;
  h ^= h >> 13;
  h *= 0xC2B2AE35;
  h ^= h >> 16;
  return (h >> 8) / 16777216.0;
}

// Gives every parameter and buffer its values.
inline void Fill(const torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  const auto fill = [](const std::string& name, torch::Tensor tensor) {
    if (!tensor.is_floating_point()) return;
    const bool weight =
        name.size() >= 6 && name.compare(name.size() - 6, 6, "weight") == 0;
    const bool variance = name.find("running_var") != std::string::npos;
    double fan_in = 1;
    for (int64_t i = 1; i < tensor.dim(); ++i) {
      fan_in *= static_cast<double>(tensor.size(i));
    }
    torch::Tensor values = at::empty(tensor.sizes());
    for (int64_t i = 0; i < values.numel(); ++i) {
      const double u = Uniform(name, static_cast<uint32_t>(i));
      values.data_ptr<float>()[i] = static_cast<float>(
          variance || (tensor.dim() == 1 && weight) ? 0.5 + u
          : tensor.dim() == 1                       ? 0.2 * (u - 0.5)
                              : (u - 0.5) * std::sqrt(24.0 / fan_in));
    }
    tensor.copy_(values);
  };
  for (const auto& named : module.named_parameters()) {
    fill(named.key(), named.value());
  }
  for (const auto& named : module.named_buffers()) {
    fill(named.key(), named.value());
  }
}

inline torch::Tensor Images(std::vector<int64_t> shape) {
  torch::Tensor images = at::empty(shape);
  for (int64_t i = 0; i < images.numel(); ++i) {
    images.data_ptr<float>()[i] =
        static_cast<float>(Uniform("images", static_cast<uint32_t>(i)) * 2 - 1);
  }
  return images;
}

inline std::string ModelFile(const std::string& name) {
  return "tests/testdata/trainer/models/" + name;
}

// The lines of a file: "resnet18 eval" -> the numbers.
inline std::map<std::string, std::vector<double>> Golden(
    const std::string& file) {
  std::map<std::string, std::vector<double>> golden;
  std::ifstream in(ModelFile(file));
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string model, what;
    words >> model >> what;
    std::vector<double>& values = golden[model + " " + what];
    for (double value; words >> value;) values.push_back(value);
  }
  EXPECT_FALSE(golden.empty()) << file;
  return golden;
}

inline void ExpectClose(const torch::Tensor& tensor,
                        const std::vector<double>& expected, double relative,
                        const std::string& what) {
  const torch::Tensor flat = tensor.detach().to(torch::kDouble).flatten();
  ASSERT_EQ(flat.numel(), static_cast<int64_t>(expected.size())) << what;
  double scale = 0;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (int64_t i = 0; i < flat.numel(); ++i) {
    EXPECT_NEAR(flat[i].item<double>(), expected[static_cast<size_t>(i)],
                relative * scale)
        << what << " " << i;
  }
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TRAINER_FORMULA_H_
