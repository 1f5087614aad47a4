#include "trainer/checkpoint.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <limits>
#include <memory>
#include <string>

#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

const double kNan = std::numeric_limits<double>::quiet_NaN();

class Checkpoint : public ::testing::Test {
 protected:
  void Step(torch::optim::Optimizer& optimizer) {
    optimizer.zero_grad();
    model_->forward(torch::ones({1, 3})).sum().backward();
    optimizer.step();
  }

  torch::nn::Linear model_{3, 2};
  torch::optim::Adam adam_{model_->parameters(),
                           torch::optim::AdamOptions(0.1)};
  torch::optim::SGD sgd_{model_->parameters(),
                         torch::optim::SGDOptions(0.1).momentum(0.9)};
  const CheckpointInfo info_ = {.model = "linear",
                                .optimizer = "adam",
                                .classes = 2,
                                .position = {.epoch = 3, .step = 4},
                                .steps = 5,
                                .plan_hash = "hash",
                                .fingerprint = "print"};
  const std::string path_ = testing::NewTempDir() + "/checkpoint";
};

TEST_F(Checkpoint, GivesBackWhatWasWritten) {
  Step(adam_);
  ASSERT_TRUE(WriteCheckpoint(path_, info_, *model_, adam_).ok());
  const auto info = ReadCheckpointInfo(path_);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->model, "linear");
  EXPECT_EQ(info->position, (Position{3, 4}));
  EXPECT_EQ(info->steps, 5u);
  EXPECT_EQ(info->plan_hash, "hash");

  torch::nn::Linear other(3, 2);
  torch::optim::Adam optimizer(other->parameters(),
                               torch::optim::AdamOptions(0.1));
  ASSERT_TRUE(RestoreCheckpoint(path_, *other, optimizer).ok());
  EXPECT_TRUE(torch::equal(other->weight, model_->weight));
  // The same step from the same state.
  Step(adam_);
  optimizer.zero_grad();
  other->forward(torch::ones({1, 3})).sum().backward();
  optimizer.step();
  EXPECT_TRUE(torch::equal(other->weight, model_->weight));
}

TEST_F(Checkpoint, LeavesTheOptionsOfTheOptimiserAlone) {
  Step(sgd_);
  ASSERT_TRUE(WriteCheckpoint(path_, info_, *model_, sgd_).ok());
  torch::optim::SGD optimizer(
      model_->parameters(),
      torch::optim::SGDOptions(0.5).momentum(0.25).weight_decay(0.125));
  ASSERT_TRUE(RestoreCheckpoint(path_, *model_, optimizer).ok());
  const auto& options = static_cast<const torch::optim::SGDOptions&>(
      optimizer.param_groups()[0].options());
  EXPECT_EQ(options.lr(), 0.5);
  EXPECT_EQ(options.momentum(), 0.25);
  EXPECT_EQ(options.weight_decay(), 0.125);
  EXPECT_FALSE(optimizer.state().empty());
}

TEST_F(Checkpoint, KeepsTheOldFileWhenAWeightIsNoNumber) {
  ASSERT_TRUE(WriteCheckpoint(path_, info_, *model_, adam_).ok());
  const std::string good = testing::ReadFile(path_);
  ASSERT_FALSE(good.empty());
  {
    torch::NoGradGuard no_grad;
    model_->weight[1][2].fill_(kNan);
  }
  const absl::Status status = WriteCheckpoint(path_, info_, *model_, adam_);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_EQ(testing::ReadFile(path_), good);
}

TEST_F(Checkpoint, KeepsTheOldFileWhenTheOptimiserIsSpoilt) {
  Step(adam_);
  Step(sgd_);
  ASSERT_TRUE(WriteCheckpoint(path_, info_, *model_, adam_).ok());
  const std::string good = testing::ReadFile(path_);
  for (auto& [parameter, state] : adam_.state()) {
    static_cast<torch::optim::AdamParamState&>(*state).exp_avg_sq().fill_(
        std::numeric_limits<double>::infinity());
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(
      WriteCheckpoint(path_, info_, *model_, adam_)));
  for (auto& [parameter, state] : sgd_.state()) {
    static_cast<torch::optim::SGDParamState&>(*state).momentum_buffer().fill_(
        kNan);
  }
  EXPECT_TRUE(
      absl::IsFailedPrecondition(WriteCheckpoint(path_, info_, *model_, sgd_)));
  EXPECT_EQ(testing::ReadFile(path_), good);
}

}  // namespace
}  // namespace millrace
