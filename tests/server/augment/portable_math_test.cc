#include "server/augment/portable_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace millrace::augment {
namespace {

int64_t UnitsApart(double a, double b) {
  return std::llabs(std::bit_cast<int64_t>(a) - std::bit_cast<int64_t>(b));
}

TEST(PortableExp, IsWithinTwoUnitsOfTheCLibrary) {
  int64_t worst = 0;
  for (double x = -700; x <= 700; x += 0.0173) {
    worst = std::max(worst, UnitsApart(PortableExp(x), std::exp(x)));
  }
  for (double x = -0.5; x <= 0.5; x += 1e-5) {
    worst = std::max(worst, UnitsApart(PortableExp(x), std::exp(x)));
  }
  EXPECT_LE(worst, 2);
  EXPECT_EQ(PortableExp(0), 1.0);
}

TEST(PortableLog, IsWithinTwoUnitsOfTheCLibrary) {
  int64_t worst = 0;
  for (double x = 1e-300; x < 1e300; x *= 1.0371) {
    worst = std::max(worst, UnitsApart(PortableLog(x), std::log(x)));
  }
  for (double x = 0.5; x <= 2.0; x += 1.3e-5) {
    worst = std::max(worst, UnitsApart(PortableLog(x), std::log(x)));
  }
  EXPECT_LE(worst, 2);
  EXPECT_EQ(PortableLog(1), 0.0);
}

// The bits themselves: these must never change on any machine.
TEST(PortableMath, KeepsItsBits) {
  EXPECT_EQ(std::bit_cast<uint64_t>(PortableExp(0.28768207245178092)),
            std::bit_cast<uint64_t>(1.3333333333333333));
  uint64_t mix = 0;
  for (double x = -1; x <= 1; x += 0.001) {
    mix = mix * 31 + std::bit_cast<uint64_t>(PortableExp(x));
    mix = mix * 31 + std::bit_cast<uint64_t>(PortableLog(2 + x));
  }
  EXPECT_EQ(mix, 15285980359518674793u);
}

TEST(PortableSinCosDegrees, IsNearTheCLibrary) {
  double worst = 0;
  for (double degrees = -800; degrees <= 800; degrees += 0.0371) {
    const SinCos got = PortableSinCosDegrees(degrees);
    const long double angle =
        static_cast<long double>(degrees) * 3.14159265358979323846L / 180;
    worst = std::max<double>(worst, std::fabs(got.sin - std::sin(angle)));
    worst = std::max<double>(worst, std::fabs(got.cos - std::cos(angle)));
  }
  EXPECT_LT(worst, 3e-16);
}

TEST(PortableSinCosDegrees, IsExactAtQuarterTurns) {
  for (int quarter = -9; quarter <= 9; ++quarter) {
    const SinCos got = PortableSinCosDegrees(90.0 * quarter);
    const int sines[] = {0, 1, 0, -1};
    EXPECT_EQ(got.sin, sines[quarter & 3]) << quarter;
    EXPECT_EQ(got.cos, sines[(quarter + 1) & 3]) << quarter;
  }
}

TEST(PortableSinCosDegrees, KeepsItsBits) {
  uint64_t mix = 0;
  for (double degrees = -360; degrees <= 360; degrees += 0.73) {
    const SinCos got = PortableSinCosDegrees(degrees);
    mix = mix * 31 + std::bit_cast<uint64_t>(got.sin);
    mix = mix * 31 + std::bit_cast<uint64_t>(got.cos);
  }
  EXPECT_EQ(mix, 15079907028969477711u);
}

TEST(RoundHalfEven, TiesGoToTheEvenSide) {
  EXPECT_EQ(RoundHalfEven(0.5), 0);
  EXPECT_EQ(RoundHalfEven(1.5), 2);
  EXPECT_EQ(RoundHalfEven(2.5), 2);
  EXPECT_EQ(RoundHalfEven(2.4999), 2);
  EXPECT_EQ(RoundHalfEven(2.5001), 3);
  EXPECT_EQ(RoundHalfEven(-0.5), 0);
  EXPECT_EQ(RoundHalfEven(-1.5), -2);
}

}  // namespace
}  // namespace millrace::augment
