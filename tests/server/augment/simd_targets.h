// Runs a piece of a test once for every instruction set that the kernels of
// server/augment are compiled for and this CPU has, and for the portable code.
//
//   EXPECT_GE(ForEachSimdTarget([&] { ... }), 2);

#ifndef MILLRACE_TESTS_SERVER_AUGMENT_SIMD_TARGETS_H_
#define MILLRACE_TESTS_SERVER_AUGMENT_SIMD_TARGETS_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "hwy/highway.h"
#include "hwy/targets.h"

namespace millrace::augment {

// How many there were.
template <typename Body>
int ForEachSimdTarget(Body body) {
  int targets = 0;
  // All the bits that the kernels may have been compiled for; those that this
  // CPU lacks are masked by Highway.
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t target :
       {HWY_SCALAR, HWY_EMU128, HWY_SSE4, HWY_AVX2, HWY_AVX3, HWY_NEON}) {
    const bool portable = target == HWY_SCALAR || target == HWY_EMU128;
    if (!portable && (supported & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    {
      SCOPED_TRACE(hwy::TargetName(target));
      body();
    }
    ++targets;
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
    if (testing::Test::HasFatalFailure()) break;
  }
  return targets;
}

}  // namespace millrace::augment

#endif  // MILLRACE_TESTS_SERVER_AUGMENT_SIMD_TARGETS_H_
