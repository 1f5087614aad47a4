// libtorch, taken from its wheel, compiles, links and computes.

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace millrace::device {
namespace {

TEST(Libtorch, DifferentiatesOnTheCpu) {
  torch::Tensor x = torch::arange(6, torch::kFloat32).reshape({2, 3});
  x.requires_grad_(true);
  (x * x).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), 2 * x.detach()));
}

}  // namespace
}  // namespace millrace::device
