// Every rule of an optimiser step against Python's torch: the numbers are those
// of tests/testdata/trainer/optim.txt.

#include "trainer/optim/updater.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/optim/golden.h"
#include "trainer/class_loss.h"
#include "trainer/optim/averaged_weights.h"
#include "trainer/optim/grad_scaler.h"
#include "trainer/optim/gradients.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/precision.h"

namespace millrace::optim {
namespace {

using ::testing::HasSubstr;
using Kind = Optimizer::Kind;

constexpr int kSteps = 6;
const float kInfinity = std::numeric_limits<float>::infinity();

const testing::Golden& Numbers() {
  static const testing::Golden golden;
  return golden;
}

torch::Tensor Tensor(const std::string& key, at::IntArrayRef shape) {
  return torch::tensor(Numbers()[key]).to(torch::kFloat).reshape(shape);
}

// The weights of the golden file, in either layout.
struct Weights {
  explicit Weights(bool channels_last = false)
      : w(Tensor("w", {2, 3, 2, 1})), b(Tensor("b", {3})) {
    if (channels_last) w = w.contiguous(at::MemoryFormat::ChannelsLast);
    w.requires_grad_();
    b.requires_grad_();
  }
  std::vector<torch::Tensor> all() const { return {w, b}; }
  void SetGradients(int step) {
    // The layout that the file has, whatever the weight's is.
    w.mutable_grad() = Tensor("grad_w_" + std::to_string(step), {2, 3, 2, 1});
    b.mutable_grad() = Tensor("grad_b_" + std::to_string(step), {3});
  }
  torch::Tensor w, b;
};

void ExpectNear(const torch::Tensor& tensor,
                const std::vector<double>& expected, const std::string& what,
                double tolerance = 2e-6) {
  const torch::Tensor values =
      tensor.detach().contiguous().to(torch::kDouble).reshape({-1});
  ASSERT_EQ(values.numel(), static_cast<int64_t>(expected.size())) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(values.data_ptr<double>()[i], expected[i], tolerance)
        << what << "[" << i << "]";
  }
}

TEST(Optimizer, TakesPythonsSteps) {
  const std::pair<std::string, std::pair<double, Optimizer::Options>> kCases[] =
      {
          {"sgd", {0.1, {.kind = Kind::kSgd}}},
          {"sgd_plain",
           {0.1,
            {.kind = Kind::kSgd,
             .momentum = 0,
             .weight_decay = 0.01,
             .decay_all = true}}},
          {"nesterov",
           {0.1, {.kind = Kind::kSgd, .nesterov = true, .weight_decay = 0.01}}},
          {"adam",
           {0.01,
            {.kind = Kind::kAdam, .weight_decay = 0.1, .decay_all = true}}},
          {"adamw",
           {0.01,
            {.kind = Kind::kAdamW,
             .beta1 = 0.8,
             .beta2 = 0.99,
             .eps = 1e-6,
             .weight_decay = 0.1}}},
      };
  for (const auto& [name, rate_and_options] : kCases) {
    for (const bool channels_last : {false, true}) {
      Weights weights(channels_last);
      Optimizer optimizer(rate_and_options.second, weights.all());
      for (int step = 0; step < kSteps; ++step) {
        weights.SetGradients(step);
        optimizer.Step(rate_and_options.first);
        const std::string number = std::to_string(step);
        ExpectNear(weights.w, Numbers()[name + "_w_" + number], name);
        ExpectNear(weights.b, Numbers()[name + "_b_" + number], name);
      }
      EXPECT_EQ(weights.w.is_contiguous(at::MemoryFormat::ChannelsLast),
                channels_last);
    }
  }
}

TEST(Optimizer, LeavesEverythingWhenTheStepIsNotToBeTaken) {
  for (const Kind kind : {Kind::kSgd, Kind::kAdam, Kind::kAdamW}) {
    Weights weights;
    Optimizer optimizer({.kind = kind, .weight_decay = 0.1}, weights.all());
    weights.SetGradients(0);
    optimizer.Step(0.1);
    std::vector<torch::Tensor> before = {weights.w.clone(), weights.b.clone()};
    for (const auto& [name, tensor] : optimizer.State()) {
      before.push_back(tensor.clone());
    }
    weights.SetGradients(1);
    optimizer.Step(0.1, at::ones({}, torch::kFloat));
    std::vector<torch::Tensor> after = weights.all();
    for (const auto& [name, tensor] : optimizer.State()) {
      after.push_back(tensor);
    }
    ASSERT_EQ(before.size(), after.size());
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(torch::equal(before[i], after[i])) << i;
    }
    optimizer.Step(0.1, at::zeros({}, torch::kFloat));
    EXPECT_FALSE(torch::equal(before[0], weights.w));
  }
}

TEST(Optimizer, LeavesWeightsWithoutAGradientAlone) {
  Weights weights;
  torch::Tensor frozen = at::ones({2, 2});
  Optimizer optimizer({.weight_decay = 0.1, .decay_all = true},
                      {frozen, weights.w, weights.b});
  weights.SetGradients(0);
  weights.b.mutable_grad().reset();
  optimizer.Step(0.1);
  EXPECT_TRUE(torch::equal(frozen, at::ones({2, 2})));
  EXPECT_TRUE(torch::equal(weights.b, Tensor("b", {3})));
  EXPECT_FALSE(torch::equal(weights.w, Tensor("w", {2, 3, 2, 1})));
}

TEST(Optimizer, IsFoundByItsName) {
  EXPECT_EQ(OptimizerByName("sgd"), Kind::kSgd);
  EXPECT_EQ(OptimizerByName("adam"), Kind::kAdam);
  EXPECT_EQ(OptimizerByName("adamw"), Kind::kAdamW);
  EXPECT_EQ(OptimizerByName("lamb"), std::nullopt);
}

TEST(AveragedWeights, ArePythons) {
  Weights weights;
  Optimizer optimizer({.kind = Kind::kSgd}, weights.all());
  AveragedWeights average(0.9, weights.all());
  for (int step = 0; step < kSteps; ++step) {
    weights.SetGradients(step);
    optimizer.Step(0.1);
    // What only the device knows makes no difference.
    if (step % 2 == 0) {
      average.Update();
    } else {
      average.Update(at::zeros({}, torch::kFloat));
      average.Update(at::ones({}, torch::kFloat));  // a step that was skipped
    }
  }
  const torch::Tensor own = weights.w.detach().clone();
  average.Swap();
  ExpectNear(weights.w, Numbers()["ema_w"], "ema_w");
  ExpectNear(weights.b, Numbers()["ema_b"], "ema_b");
  average.Swap();
  EXPECT_TRUE(torch::equal(weights.w, own)) << "bit for bit";
}

TEST(ClipGradientNorm, IsPythons) {
  for (const char* limit : {"0.5", "100"}) {
    Weights weights;
    weights.SetGradients(0);
    const torch::Tensor norm =
        ClipGradientNorm(GradientsOf(weights.all()), std::stod(limit));
    const std::string key = std::string("clip_") + limit;
    EXPECT_NEAR(norm.item<double>(), Numbers()[key][0], 1e-6);
    ExpectNear(weights.w.grad(), Numbers()[key + "_w"], key);
    ExpectNear(weights.b.grad(), Numbers()[key + "_b"], key);
  }
  EXPECT_FALSE(ClipGradientNorm({}, 1).defined());
}

TEST(Gradients, AreClearedToNone) {
  Weights weights;
  weights.SetGradients(0);
  MultiplyGradients(GradientsOf(weights.all()), 2);
  EXPECT_TRUE(torch::equal(weights.b.grad(), Tensor("grad_b_0", {3}) * 2));
  ClearGradients(weights.all());
  EXPECT_FALSE(weights.w.grad().defined());
  EXPECT_TRUE(GradientsOf(weights.all()).empty());
}

// Gradients that are no numbers at steps 0 and 5, then a long good time.
TEST(GradScaler, SkipsAndScalesAsPythons) {
  torch::Tensor weight = at::ones({2}).requires_grad_();
  Optimizer optimizer({.kind = Kind::kSgd, .momentum = 0}, {weight});
  GradScaler scaler(1024, torch::kCPU);
  std::vector<double> scales;
  for (int step = 0; step < 2010; ++step) {
    const bool bad = step == 0 || step == 5;
    weight.mutable_grad() =
        torch::tensor({0.5f, bad ? kInfinity : 0.0f}) * scaler.scale();
    if (step == 7) {
      ExpectNear(weight, Numbers()["scaler_weight"], "weight", 0);
    }
    optimizer.Step(0.25, scaler.Unscale({weight.grad()}));
    scaler.Update();
    scales.push_back(scaler.scale());
  }
  const std::vector<double>& expected = Numbers()["scaler"];
  const int kAt[] = {0, 1, 5, 6, 2004, 2005, 2006};
  ASSERT_EQ(expected.size(), std::size(kAt));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(scales[kAt[i]], expected[i]) << "after step " << kAt[i];
  }
  EXPECT_EQ(scaler.skipped(), 2u);
  EXPECT_EQ(scaler.Scale(at::ones({})).item<double>(), scaler.scale());
}

TEST(Updater, UnscalesBeforeItClips) {
  const auto after_one_step = [](double scale) {
    Weights weights;
    trainer::TrainerConfig config;
    config.optimizer = "sgd";
    config.lr = 0.5;
    config.clip_grad_norm = 0.5;
    if (scale > 0) {
      config.precision = "float16";
      config.loss_scale = scale;
    }
    Updater updater(UpdaterOptions(config, BatchGroups(1, 1)), weights.all(),
                    torch::kCPU);
    weights.SetGradients(0);
    if (scale > 0) MultiplyGradients(GradientsOf(weights.all()), scale);
    updater.Step(0, 1);
    return weights.w.detach();
  };
  EXPECT_TRUE(torch::equal(after_one_step(0), after_one_step(1024)));
}

TEST(Updater, SaysWhenNothingIsLeftOfTheLossScale) {
  Weights weights;
  trainer::TrainerConfig config;
  config.precision = "float16";
  config.ema = 0.9;
  Updater updater(UpdaterOptions(config, BatchGroups(1, 1)), weights.all(),
                  torch::kCPU);
  ASSERT_EQ(updater.State().size(), 3u);
  EXPECT_EQ(updater.State()[1].first, "scaler");
  EXPECT_EQ(updater.State()[2].first, "average");
  int skipped = 0;
  while (updater.CheckScale().ok() && skipped < 100) {
    weights.SetGradients(0);
    weights.b.mutable_grad().fill_(std::nan(""));
    updater.Step(skipped++, 1);
  }
  EXPECT_EQ(skipped, 41);
  EXPECT_EQ(updater.scaler()->skipped(), 41u);
  EXPECT_THAT(std::string(updater.CheckScale().message()),
              HasSubstr("--precision=bfloat16"));
  EXPECT_TRUE(torch::equal(weights.b, Tensor("b", {3})));
}

// Whoever writes a checkpoint has to know.
TEST(Updater, SaysThatAStepFailedAfterItHadChangedWeights) {
  Weights weights;
  trainer::TrainerConfig config;
  config.ema = 0.9;
  Updater updater(UpdaterOptions(config, BatchGroups(1, 1)), weights.all(),
                  torch::kCPU);
  weights.SetGradients(0);
  updater.Step(0, 1);
  EXPECT_FALSE(updater.interrupted());
  // The average of a weight of another shape.
  for (const auto& [part, tensors] : updater.State()) {
    if (part == "average") {
      torch::Tensor average = tensors.back().second;
      average.set_data(at::zeros({7}));
    }
  }
  const torch::Tensor before = weights.w.detach().clone();
  weights.SetGradients(1);
  EXPECT_ANY_THROW(updater.Step(1, 1));
  EXPECT_FALSE(torch::equal(weights.w, before));
  EXPECT_TRUE(updater.interrupted());
}

TEST(Updater, IsNotInterruptedByWhatFailsBeforeTheWeightsChange) {
  Weights weights;
  trainer::TrainerConfig config;
  config.precision = "float16";
  Updater updater(UpdaterOptions(config, BatchGroups(1, 1)), weights.all(),
                  torch::kCPU);
  weights.SetGradients(0);
  // The scaler takes none that are sparse.
  weights.w.mutable_grad() = weights.w.grad().to_sparse();
  weights.b.mutable_grad() = weights.b.grad().to_sparse();
  EXPECT_ANY_THROW(updater.Step(0, 1));
  EXPECT_TRUE(torch::equal(weights.b, Tensor("b", {3})));
  EXPECT_FALSE(updater.interrupted());
}

TEST(LabelSmoothing, IsPythons) {
  const torch::Tensor logits = Tensor("logits", {4, 5});
  const torch::Tensor target = torch::tensor({1, -100, 4, 0}, torch::kLong);
  EXPECT_NEAR(trainer::SumOfLosses(logits, target, 0.1).item<double>(),
              Numbers()["smooth_hard"][0], 1e-5);
  // A row that does not count adds nothing.
  torch::Tensor shares = Tensor("shares", {4, 5});
  shares[3].zero_();
  EXPECT_NEAR(trainer::SumOfLosses(logits, shares, 0.1).item<double>(),
              Numbers()["smooth_soft_first_three"][0], 1e-5);
}

TEST(Precision, LowersProductsAndNothingElse) {
  const torch::Tensor x = Tensor("logits", {4, 5});
  const torch::Tensor w = Tensor("shares", {4, 5}).requires_grad_();
  const torch::Tensor exact = at::linear(x, w);
  for (const char* name : {"bfloat16", "float16"}) {
    const auto precision = PrecisionByName(name, torch::kCPU);
    ASSERT_TRUE(precision.has_value());
    const auto lower =
        std::string(name) == "bfloat16" ? torch::kBFloat16 : torch::kHalf;
    const torch::Tensor y = precision->Run([&] {
      const torch::Tensor product = at::linear(x, w);
      EXPECT_EQ(product.scalar_type(), lower);
      return product;
    });
    EXPECT_EQ(y.scalar_type(), torch::kFloat);
    EXPECT_FALSE(torch::equal(y, exact));
    EXPECT_TRUE(at::allclose(y, exact, /*rtol=*/0.02, /*atol=*/0.02));
    w.mutable_grad().reset();
    y.sum().backward();
    EXPECT_EQ(w.grad().scalar_type(), torch::kFloat);
    EXPECT_EQ(at::linear(x, w).scalar_type(), torch::kFloat) << "it ended";
    EXPECT_THROW(precision->Run([]() -> torch::Tensor {
      throw std::runtime_error("a mistake");
    }),
                 std::runtime_error);
    EXPECT_EQ(at::linear(x, w).scalar_type(), torch::kFloat) << "it ended";
  }
  const auto float32 = PrecisionByName("float32", torch::kCPU);
  EXPECT_TRUE(
      torch::equal(float32->Run([&] { return at::linear(x, w); }), exact));
  EXPECT_FALSE(PrecisionByName("int8", torch::kCPU).has_value());
}

}  // namespace
}  // namespace millrace::optim
