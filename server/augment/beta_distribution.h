// Draws from Beta(alpha, alpha), the distribution of the shares of MixUp and
// CutMix.
//
// Two gamma variables G1, G2 with the shape alpha give G1 / (G1 + G2). Gamma
// variables: G. Marsaglia and W. W. Tsang, "A Simple Method for Generating
// Gamma Variables", ACM TOMS 26(3), 2000. For alpha < 1, their step
// gamma(alpha) = gamma(alpha + 1) * U^(1 / alpha) is computed in logarithms, so
// that a tiny alpha does not end in 0 / 0. Normal variables: Marsaglia's polar
// method. Portable arithmetic only: the same bits on every CPU.
//
// Pure function; one thread for each generator. The number of draws varies.
//
//   CounterRandom random(batch_key, place);
//   const double lambda = SampleSymmetricBeta(0.2, random);  // [0, 1]

#ifndef MILLRACE_SERVER_AUGMENT_BETA_DISTRIBUTION_H_
#define MILLRACE_SERVER_AUGMENT_BETA_DISTRIBUTION_H_

#include "server/augment/random.h"

namespace millrace::augment {

// `alpha` is in (0, 1000]. A value below 1e-100 counts as 1e-100, where every
// draw is 0 or 1.
double SampleSymmetricBeta(double alpha, CounterRandom& random);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_BETA_DISTRIBUTION_H_
