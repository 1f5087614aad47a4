#include "server/augment/beta_distribution.h"

#include <algorithm>
#include <cmath>

#include "server/augment/portable_math.h"

namespace millrace::augment {
namespace {

// Uniform on (0, 1], because 0 has no logarithm.
double UniformAboveZero(CounterRandom& random) {
  return 1.0 - random.Uniform();
}

double Normal(CounterRandom& random) {
  while (true) {
    const double x = random.Uniform(-1.0, 1.0);
    const double y = random.Uniform(-1.0, 1.0);
    const double s = x * x + y * y;
    // The lower bound keeps the quotient finite. It refuses one draw in 10^16.
    if (s < 1.0 && s > 1e-16) return x * std::sqrt(-2.0 * PortableLog(s) / s);
  }
}

// ln of a gamma variable of this shape and scale 1.
double LogGammaVariable(double shape, CounterRandom& random) {
  double log_boost = 0;
  double a = shape;
  if (shape < 1) {
    log_boost = PortableLog(UniformAboveZero(random)) / shape;
    a = shape + 1;
  }
  const double d = a - 1.0 / 3;
  const double c = 1.0 / std::sqrt(9 * d);
  while (true) {
    const double x = Normal(random);
    const double root = 1.0 + c * x;
    if (root <= 1e-6) continue;  // v must be positive; 1e-18 is normal
    const double v = root * root * root;
    const double u = UniformAboveZero(random);
    const double log_v = PortableLog(v);
    if (PortableLog(u) < 0.5 * x * x + d * (1.0 - v + log_v)) {
      return PortableLog(d) + log_v + log_boost;
    }
  }
}

}  // namespace

double SampleSymmetricBeta(double alpha, CounterRandom& random) {
  alpha = std::max(alpha, 1e-100);
  const double first = LogGammaVariable(alpha, random);
  const double second = LogGammaVariable(alpha, random);
  const double ratio = second - first;  // ln (G2 / G1)
  if (ratio > 700) return 0;
  if (ratio < -700) return 1;
  return 1.0 / (1.0 + PortableExp(ratio));
}

}  // namespace millrace::augment
