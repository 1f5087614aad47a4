#include "server/augment/batch_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace millrace::augment {
namespace {

using ::testing::HasSubstr;

TEST(DrawBatchMix, GivesLabelsExactlyTheQuantisedShare) {
  const std::vector<BatchMixer> mixers = {{.place = 2, .alpha = 0.4}};
  for (uint64_t key = 0; key < 500; ++key) {
    const BatchMix mix = DrawBatchMix(mixers, key);
    ASSERT_EQ(mix.kind, BatchMix::MIX_UP);
    ASSERT_LE(mix.share, BatchMix::kOne);
    EXPECT_EQ(static_cast<double>(mix.own_weight), mix.share / 65536.0);
    EXPECT_EQ(mix.own_weight + mix.partner_weight, 1.0f);
  }
}

TEST(DrawBatchMix, CutsBoxesAsTorchvisionDoes) {
  const std::vector<BatchMixer> mixers = {
      {.cut = true, .place = 0, .alpha = 1, .height = 20, .width = 30}};
  double area = 0;
  int at_left = 0;
  int at_right = 0;
  int empty = 0;
  constexpr int kBatches = 20000;
  for (uint64_t key = 0; key < kBatches; ++key) {
    const BatchMix mix = DrawBatchMix(mixers, key);
    ASSERT_EQ(mix.kind, BatchMix::CUT_MIX);
    ASSERT_LE(0, mix.left);
    ASSERT_LE(mix.left, mix.right);
    ASSERT_LE(mix.right, 30);
    ASSERT_LE(0, mix.top);
    ASSERT_LE(mix.top, mix.bottom);
    ASSERT_LE(mix.bottom, 20);
    const double pixels =
        static_cast<double>((mix.right - mix.left) * (mix.bottom - mix.top));
    EXPECT_EQ(mix.partner_weight, static_cast<float>(pixels / 600));
    EXPECT_EQ(mix.own_weight, static_cast<float>((600 - pixels) / 600));
    area += pixels / 600;
    at_left += mix.left == 0;
    at_right += mix.right == 30;
    empty += pixels == 0;
  }
  // From 200,000 calls of torchvision 0.26's CutMix(alpha=1).make_params on
  // images of 20 x 30: these shares.
  EXPECT_NEAR(area / kBatches, 0.2905, 0.01);
  EXPECT_NEAR(at_left / double{kBatches}, 0.349, 0.015);
  EXPECT_NEAR(at_right / double{kBatches}, 0.317, 0.015);
  EXPECT_NEAR(empty / double{kBatches}, 0.0101, 0.003);
}

TEST(DrawBatchMix, AppliesTheFirstThatHitsAndNoOther) {
  const std::vector<BatchMixer> mixers = {
      {.place = 4, .p = 0.5},
      {.cut = true, .place = 5, .p = 0.5, .height = 8, .width = 8}};
  constexpr int kBatches = 20000;
  int counts[3] = {};
  for (uint64_t key = 0; key < kBatches; ++key) {
    const BatchMix mix = DrawBatchMix(mixers, key);
    ++counts[mix.kind];
    EXPECT_EQ(mix.mixer, mix.kind - 1);
  }
  // 4 standard deviations are 0.015.
  EXPECT_NEAR(counts[BatchMix::MIX_UP] / double{kBatches}, 0.5, 0.015);
  EXPECT_NEAR(counts[BatchMix::CUT_MIX] / double{kBatches}, 0.25, 0.015);
  EXPECT_NEAR(counts[BatchMix::NONE] / double{kBatches}, 0.25, 0.015);
}

TEST(DrawBatchMix, FollowsFromKeyAndPlaceAlone) {
  const BatchMixer one = {.place = 1, .alpha = 0.3};
  const BatchMixer two = {.place = 2, .alpha = 0.3};
  const BatchMix a = DrawBatchMix({one}, 9);
  EXPECT_EQ(a.share, DrawBatchMix({one, two}, 9).share);
  EXPECT_NE(a.share, DrawBatchMix({two}, 9).share);
  EXPECT_NE(a.share, DrawBatchMix({one}, 10).share);
}

TEST(DrawBatchMix, NeverAndAlwaysAreExact) {
  for (uint64_t key = 0; key < 2000; ++key) {
    EXPECT_EQ(DrawBatchMix({{.p = 0}}, key).kind, BatchMix::NONE);
    EXPECT_EQ(DrawBatchMix({{.p = 1}}, key).kind, BatchMix::MIX_UP);
  }
  const BatchMix none = DrawBatchMix({}, 1);
  EXPECT_EQ(none.own_weight, 1);
  EXPECT_EQ(none.partner_weight, 0);
}

TEST(DrawBatchMix, SaysWhatItDrew) {
  EXPECT_THAT(Describe(DrawBatchMix({{.place = 1}}, 1)),
              HasSubstr("mix_up lambda 0."));
  EXPECT_THAT(Describe(DrawBatchMix(
                  {{.cut = true, .place = 1, .height = 9, .width = 9}}, 1)),
              HasSubstr("cut_mix box left "));
  EXPECT_EQ(Describe({}), "not mixed");
}

}  // namespace
}  // namespace millrace::augment
