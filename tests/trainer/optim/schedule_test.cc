#include "trainer/optim/schedule.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/optim/golden.h"
#include "trainer/optim/batch_groups.h"

namespace millrace::optim {
namespace {

using Kind = Schedule::Kind;

// Four steps an epoch, five epochs.
TEST(Schedule, IsPythons) {
  const testing::Golden golden;
  const std::pair<std::string, Schedule::Options> kCases[] = {
      {"constant_warmup", {.lr = 0.5, .warmup_epochs = 1.5}},
      {"step", {.kind = Kind::kStep, .lr = 0.5, .step_epochs = 2}},
      {"step_warmup",
       {.kind = Kind::kStep,
        .lr = 0.5,
        .step_epochs = 2,
        .step_gamma = 0.3,
        .warmup_epochs = 1}},
      {"cosine", {.kind = Kind::kCosine, .lr = 0.5}},
      {"cosine_warmup",
       {.kind = Kind::kCosine,
        .lr = 0.5,
        .min_lr = 0.02,
        .warmup_epochs = 1.5}},
  };
  for (const auto& [name, options] : kCases) {
    const Schedule schedule(options, 4, 5);
    const std::vector<double>& expected = golden["schedule_" + name];
    ASSERT_EQ(expected.size(), 20u) << name;
    for (uint64_t step = 0; step < 20; ++step) {
      EXPECT_NEAR(schedule.LearningRate(step), expected[step], 1e-12)
          << name << " at " << step;
    }
  }
}

TEST(Schedule, IsExactAtItsCorners) {
  const Schedule constant({.lr = 0.3}, 7, 2);
  EXPECT_EQ(constant.LearningRate(0), 0.3);
  EXPECT_EQ(constant.LearningRate(1000), 0.3);

  const Schedule cosine(
      {.kind = Kind::kCosine, .lr = 0.3, .min_lr = 0.1, .warmup_epochs = 1}, 10,
      3);
  EXPECT_DOUBLE_EQ(cosine.LearningRate(0), 0.03);
  EXPECT_EQ(cosine.LearningRate(9), 0.3) << "the ramp ends at the highest";
  EXPECT_EQ(cosine.LearningRate(10), 0.3);
  EXPECT_DOUBLE_EQ(cosine.LearningRate(20), 0.2) << "half-way";
  EXPECT_DOUBLE_EQ(cosine.LearningRate(30), 0.1);
  EXPECT_DOUBLE_EQ(cosine.LearningRate(99), 0.1) << "stays low";

  const Schedule step({.kind = Kind::kStep,
                       .lr = 1,
                       .min_lr = 0.02,
                       .step_epochs = 2,
                       .step_gamma = 0.1},
                      5, 10);
  EXPECT_EQ(step.LearningRate(9), 1);
  EXPECT_DOUBLE_EQ(step.LearningRate(10), 0.1);
  EXPECT_EQ(step.LearningRate(20), 0.02) << "not below min_lr";

  // The whole run is warm-up.
  const Schedule ramp({.kind = Kind::kCosine, .lr = 1, .warmup_epochs = 2}, 2,
                      2);
  EXPECT_EQ(ramp.LearningRate(0), 0.25);
  EXPECT_EQ(ramp.LearningRate(3), 1);
}

TEST(Schedule, IsFoundByItsName) {
  EXPECT_EQ(ScheduleByName("constant"), Kind::kConstant);
  EXPECT_EQ(ScheduleByName("step"), Kind::kStep);
  EXPECT_EQ(ScheduleByName("cosine"), Kind::kCosine);
  EXPECT_EQ(ScheduleByName("linear"), std::nullopt);
}

TEST(BatchGroups, CutAnEpochIntoGroupsAndARest) {
  const BatchGroups groups(10, 4);
  EXPECT_EQ(groups.per_epoch(), 3u);
  const std::vector<uint64_t> sizes = {4, 4, 4, 4, 4, 4, 4, 4, 2, 2};
  for (uint64_t step = 0; step < 10; ++step) {
    EXPECT_EQ(groups.SizeAt(step), sizes[step]) << step;
    EXPECT_EQ(groups.StartsAt(step), step == 0 || step == 4 || step == 8);
    EXPECT_EQ(groups.EndsAt(step), step == 3 || step == 7 || step == 9);
    EXPECT_EQ(groups.Number(0, step), step / 4);
    EXPECT_EQ(groups.Number(2, step), 6 + step / 4);
  }
}

TEST(BatchGroups, OfOneAreTheBatches) {
  const BatchGroups groups(3, 1);
  EXPECT_EQ(groups.per_epoch(), 3u);
  for (uint64_t step = 0; step < 3; ++step) {
    EXPECT_TRUE(groups.StartsAt(step) && groups.EndsAt(step));
    EXPECT_EQ(groups.SizeAt(step), 1u);
    EXPECT_EQ(groups.Number(5, step), 15 + step);
  }
}

TEST(BatchGroups, LargerThanTheEpochAreTheEpoch) {
  const BatchGroups groups(3, 100);
  EXPECT_EQ(groups.per_epoch(), 1u);
  EXPECT_EQ(groups.SizeAt(1), 3u);
  EXPECT_FALSE(groups.EndsAt(1));
  EXPECT_TRUE(groups.EndsAt(2));
}

}  // namespace
}  // namespace millrace::optim
