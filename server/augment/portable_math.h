// exp, log, sine and cosine from only + - * /. The functions of the C library
// differ in the last bits between CPUs with and without fused multiply-add, but
// the parameters of augmentations must have the same bits everywhere. (sqrt,
// floor and the four operations are exact in IEEE 754; the build forbids
// contraction.)
//
// Pure functions. Relative error below 4e-16, about 2 units in the last place.

#ifndef MILLRACE_SERVER_AUGMENT_PORTABLE_MATH_H_
#define MILLRACE_SERVER_AUGMENT_PORTABLE_MATH_H_

#include <cstdint>

namespace millrace::augment {

// e^x for |x| <= 700.
double PortableExp(double x);

// Natural logarithm of a positive, finite, normal x.
double PortableLog(double x);

struct SinCos {
  double sin = 0;
  double cos = 1;
};

// Sine and cosine of an angle in degrees, |degrees| <= 2^30. Exact at multiples
// of 90; the error is below 3e-16 elsewhere.
SinCos PortableSinCosDegrees(double degrees);

// The nearest integer, ties to even (as Python's round). |x| < 2^52.
int64_t RoundHalfEven(double x);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_PORTABLE_MATH_H_
