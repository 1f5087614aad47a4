#include "server/storage/synthetic/synthetic_values.h"

#include <bit>
#include <cstring>

#include "common/logging.h"
#include "proto/dtype.h"
#include "proto/half_float.h"

namespace millrace::storage {
namespace {

// The wire format is little-endian, and this code writes it directly.
static_assert(std::endian::native == std::endian::little);

void FillBits(uint64_t key, absl::Span<uint8_t> out) {
  const size_t words = out.size() / 8;
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = SyntheticWord(key, i);
    std::memcpy(out.data() + 8 * i, &word, 8);
  }
  if (const size_t rest = out.size() % 8; rest != 0) {
    const uint64_t word = SyntheticWord(key, words);
    std::memcpy(out.data() + 8 * words, &word, rest);
  }
}

template <typename T, typename Make>
void FillEach(uint64_t key, absl::Span<uint8_t> out, Make make) {
  MR_CHECK(out.size() % sizeof(T) == 0);
  for (size_t i = 0; i < out.size() / sizeof(T); ++i) {
    const T value = make(SyntheticWord(key, i));
    std::memcpy(out.data() + sizeof(T) * i, &value, sizeof(T));
  }
}

// The result is exact in every floating-point type.
float Share(uint64_t word) {
  return static_cast<float>(word >> 56) * (1.0f / 256);
}

template <typename T>
void FillClasses(uint64_t key, int64_t num_classes, absl::Span<uint8_t> out) {
  FillEach<T>(key, out, [num_classes](uint64_t word) {
    return static_cast<T>((word >> 32) * static_cast<uint64_t>(num_classes) >>
                          32);
  });
}

}  // namespace

void FillSynthetic(DType dtype, int64_t num_classes, uint64_t key,
                   absl::Span<uint8_t> out) {
  switch (dtype) {
    case DTYPE_BOOL:
      return FillEach<uint8_t>(
          key, out, [](uint64_t word) { return uint8_t(word >> 63); });
    case DTYPE_FLOAT16:
      return FillEach<uint16_t>(
          key, out, [](uint64_t word) { return FloatToHalf(Share(word)); });
    case DTYPE_BFLOAT16:
      return FillEach<uint16_t>(
          key, out, [](uint64_t word) { return FloatToBfloat16(Share(word)); });
    case DTYPE_FLOAT32:
      return FillEach<float>(key, out, Share);
    case DTYPE_FLOAT64:
      return FillEach<double>(key, out, Share);
    case DTYPE_INT16:
      if (num_classes > 0) return FillClasses<int16_t>(key, num_classes, out);
      return FillBits(key, out);
    case DTYPE_INT32:
      if (num_classes > 0) return FillClasses<int32_t>(key, num_classes, out);
      return FillBits(key, out);
    case DTYPE_INT64:
      if (num_classes > 0) return FillClasses<int64_t>(key, num_classes, out);
      return FillBits(key, out);
    default:
      return FillBits(key, out);
  }
}

}  // namespace millrace::storage
