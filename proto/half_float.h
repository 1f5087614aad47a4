// float16 and bfloat16 as bits: conversions from and to float32, rounded to
// nearest, ties to even, as IEEE 754 and libtorch have them. Integer
// arithmetic: the same bits on every CPU.
//
// Pure functions.
//
//   const uint16_t half = FloatToHalf(0.1f);

#ifndef MILLRACE_PROTO_HALF_FLOAT_H_
#define MILLRACE_PROTO_HALF_FLOAT_H_

#include <bit>
#include <cstdint>

namespace millrace {

// Too large becomes infinity, NaN 0x7e00 with its sign.
inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  // 65520 is half way between the largest half and the next power of two.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude >= 0x38800000) {  // 2^-14: normal
    const uint32_t rebased = magnitude - (uint32_t{112} << 23);
    return sign |
           static_cast<uint16_t>((rebased + 0xfff + (rebased >> 13 & 1)) >> 13);
  }
  if (magnitude < 0x33000000) return sign;  // below 2^-25: nearer to 0
  // A multiple of 2^-24: shift the mantissa with its leading one.
  const uint32_t shift = 126 - (magnitude >> 23);  // 14 .. 24
  const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
  const uint32_t quotient = mantissa >> shift;
  const uint32_t rest = mantissa & ((uint32_t{1} << shift) - 1);
  const uint32_t half = uint32_t{1} << (shift - 1);
  const bool up = rest > half || (rest == half && (quotient & 1) != 0);
  return sign | static_cast<uint16_t>(quotient + (up ? 1 : 0));
}

inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = half >> 10 & 31;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 31) {
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

// NaN becomes 0x7fc0.
inline uint16_t FloatToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float Bfloat16ToFloat(uint16_t value) {
  return std::bit_cast<float>(uint32_t{value} << 16);
}

}  // namespace millrace

#endif  // MILLRACE_PROTO_HALF_FLOAT_H_
