// Draws from Beta(alpha, alpha), the shares of MixUp and CutMix.
//
// Two gamma variables G1, G2 with the shape alpha give G1 / (G1 + G2). Gamma:
// G. Marsaglia and W. W. Tsang, "A Simple Method for Generating Gamma
// Variables", ACM TOMS 26(3), 2000; for alpha < 1 with their step
// gamma(alpha) = gamma(alpha + 1) * U^(1 / alpha), here in logarithms, so that
// a tiny alpha does not end in 0 / 0. Normal variables by Marsaglia's polar
// method. Portable arithmetic only: the same bits on every CPU.
//
// Pure function; one thread a generator. The number of draws varies.
//
//   CounterRandom random(batch_key, place);
//   const double lambda = SampleSymmetricBeta(0.2, random);  // [0, 1]

#ifndef MILLRACE_SERVER_AUGMENT_BETA_DISTRIBUTION_H_
#define MILLRACE_SERVER_AUGMENT_BETA_DISTRIBUTION_H_

#include "server/augment/random.h"

namespace millrace {

// `alpha` in (0, 1000]; what is below 1e-100 counts as that, where every draw
// is 0 or 1.
double SampleSymmetricBeta(double alpha, CounterRandom& random);

}  // namespace millrace

#endif  // MILLRACE_SERVER_AUGMENT_BETA_DISTRIBUTION_H_
