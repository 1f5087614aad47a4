#include "server/augment/mix_pixels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "hwy/targets.h"
#include "server/augment/random.h"

namespace millrace::augment {
namespace {

void OnEveryTarget(const std::function<void()>& body) {
  int targets = 0;
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t target :
       {HWY_SCALAR, HWY_EMU128, HWY_SSE4, HWY_AVX2, HWY_AVX3, HWY_NEON}) {
    const bool portable = target == HWY_SCALAR || target == HWY_EMU128;
    if (!portable && (supported & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(hwy::TargetName(target));
    ++targets;
    body();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
  EXPECT_GE(targets, 2);
}

uint8_t ByDefinition(uint8_t x, uint8_t partner, uint32_t share) {
  return static_cast<uint8_t>(
      (uint64_t{share} * x + uint64_t{65536 - share} * partner + 32768) >> 16);
}

// Every pair of bytes.
constexpr int64_t kPairs = 65536;

TEST(MixRows, IsTheFormulaForEveryPairOfBytes) {
  OnEveryTarget([] {
    for (uint32_t share :
         {0u, 1u, 255u, 256u, 257u, 16384u, 21845u, 32767u, 32768u, 32769u,
          40000u, 65279u, 65280u, 65535u, 65536u}) {
      std::vector<uint8_t> a(kPairs), b(kPairs);
      for (int64_t i = 0; i < kPairs; ++i) {
        a[i] = static_cast<uint8_t>(i);
        b[i] = static_cast<uint8_t>(i >> 8);
      }
      const std::vector<uint8_t> a0 = a, b0 = b;
      std::vector<uint8_t> alone = a;
      MixRows(a.data(), b.data(), kPairs, share);
      MixRow(alone.data(), b0.data(), kPairs, share);
      EXPECT_EQ(alone, a) << share;
      for (int64_t i = 0; i < kPairs; ++i) {
        ASSERT_EQ(a[i], ByDefinition(a0[i], b0[i], share)) << share;
        ASSERT_EQ(b[i], ByDefinition(b0[i], a0[i], share)) << share;
        // And that is the rounded real number.
        const double x =
            (share * double{1.0 * a0[i]} + (65536.0 - share) * b0[i]) / 65536;
        ASSERT_EQ(a[i], std::floor(x + 0.5)) << share;
      }
    }
  });
}

TEST(MixRows, StaysInsideItsBytesAtEveryLength) {
  OnEveryTarget([] {
    for (int64_t n = 0; n < 150; ++n) {
      for (int64_t offset : {0, 1, 3}) {
        std::vector<uint8_t> a(n + 8, 200), b(n + 8, 100);
        MixRows(a.data() + offset, b.data() + offset, n, 16384);
        for (int64_t i = 0; i < n + 8; ++i) {
          const bool inside = i >= offset && i < offset + n;
          ASSERT_EQ(a[i], inside ? 125 : 200);
          ASSERT_EQ(b[i], inside ? 175 : 100);
        }
      }
    }
  });
}

TEST(Boxes, AreExchangedOrCopied) {
  constexpr int64_t kHeight = 5, kWidth = 7, kChannels = 3;
  constexpr int64_t kBytes = kHeight * kWidth * kChannels;
  for (auto [left, top, right, bottom] :
       std::vector<std::array<int64_t, 4>>{{0, 0, 7, 5},
                                           {2, 1, 4, 4},
                                           {6, 4, 7, 5},
                                           {3, 0, 3, 5},
                                           {1, 2, 5, 2}}) {
    BatchMix mix;
    mix.kind = BatchMix::CUT_MIX;
    mix.left = left;
    mix.top = top;
    mix.right = right;
    mix.bottom = bottom;
    std::vector<uint8_t> a(kBytes), b(kBytes);
    CounterRandom random(1, 1);
    for (int64_t i = 0; i < kBytes; ++i) {
      a[i] = static_cast<uint8_t>(random.Next64());
      b[i] = static_cast<uint8_t>(random.Next64());
    }
    const std::vector<uint8_t> a0 = a, b0 = b;
    std::vector<uint8_t> alone = a;
    SwapBoxes(a.data(), b.data(), kWidth * kChannels, kChannels, mix);
    CopyBox(alone.data(), b0.data(), kWidth * kChannels, kChannels, mix);
    EXPECT_EQ(alone, a);
    for (int64_t i = 0; i < kBytes; ++i) {
      const int64_t x = i / kChannels % kWidth;
      const int64_t y = i / kChannels / kWidth;
      const bool in = x >= left && x < right && y >= top && y < bottom;
      ASSERT_EQ(a[i], in ? b0[i] : a0[i]);
      ASSERT_EQ(b[i], in ? a0[i] : b0[i]);
    }
  }
}

}  // namespace
}  // namespace millrace::augment
