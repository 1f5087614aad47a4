#include "server/augment/portable_math.h"

#include <bit>
#include <cmath>

namespace millrace::augment {
namespace {

// ln 2 in two parts. The high part has 32 trailing zero bits, so its product
// with an exponent is exact.
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;

}  // namespace

double PortableExp(double x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2, e^x = 2^n e^r.
  const double n = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  // Taylor series: r^14 / 14! is below 2^-57.
  double sum = 1.0;
  for (int k = 14; k >= 1; --k) sum = 1.0 + sum * (r / k);
  // Applying the half power twice keeps the factor normal at both ends of the
  // range.
  const int64_t exponent = static_cast<int64_t>(n);
  const int64_t half = exponent / 2;
  const double low = std::bit_cast<double>((half + 1023) << 52);
  const double high = std::bit_cast<double>((exponent - half + 1023) << 52);
  return sum * low * high;
}

double PortableLog(double x) {
  // x = 2^n m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m-1)/(m+1)).
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t n = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFull) |
                                   0x3FF0000000000000ull);
  if (m > 1.4142135623730951) {
    m = m / 2;
    ++n;
  }
  const double f = m - 1.0;
  const double s = f / (m + 1.0);
  const double z = s * s;  // <= 0.0295
  // Tail of the series, 2/3 z + 2/5 z^2 + ...: z^12 is below 2^-60.
  double tail = 0.0;
  for (int k = 25; k >= 3; k -= 2) tail = z * (2.0 / k + tail);
  // 2s = f - f^2/2 + s f^2/2 exactly; adding f last keeps its bits.
  const double half_square = 0.5 * f * f;
  const double low = s * (half_square + tail);
  return n * kLn2High + (f - (half_square - (low + n * kLn2Low)));
}

SinCos PortableSinCosDegrees(double degrees) {
  constexpr double kRadians = 1.7453292519943295e-02;  // of a degree
  // degrees = 90 n + r with |r| <= 45, exactly.
  const double n = std::floor(degrees / 90.0 + 0.5);
  const double r = (degrees - n * 90.0) * kRadians;
  const double z = r * r;  // <= 0.617
  // Taylor series: r^19 / 19! is below 2^-63.
  double sin_tail = 1.0;
  for (int k = 17; k >= 3; k -= 2) {
    sin_tail = 1.0 - sin_tail * (z / (k * (k - 1)));
  }
  double cos_tail = 1.0;
  for (int k = 18; k >= 2; k -= 2) {
    cos_tail = 1.0 - cos_tail * (z / (k * (k - 1)));
  }
  const double sin = r * sin_tail;
  const double cos = cos_tail;
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

int64_t RoundHalfEven(double x) {
  const double below = std::floor(x);
  const double rest = x - below;
  const int64_t n = static_cast<int64_t>(below);
  if (rest > 0.5) return n + 1;
  if (rest < 0.5) return n;
  return n + (n & 1);
}

}  // namespace millrace::augment
