#include "common/bulk_copy.h"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace millrace {

#ifdef __SSE2__

void BulkCopy(void* to, const void* from, size_t bytes) {
  constexpr size_t kLine = 64;
  auto* out = static_cast<uint8_t*>(to);
  const auto* in = static_cast<const uint8_t*>(from);
  // Whole cache lines only: the CPU would read the rest of a partial line.
  size_t head = -reinterpret_cast<uintptr_t>(out) % kLine;
  if (bytes < head + kLine) head = bytes;
  std::memcpy(out, in, head);
  out += head;
  in += head;
  bytes -= head;
  for (; bytes >= kLine; bytes -= kLine, out += kLine, in += kLine) {
    const auto* from16 = reinterpret_cast<const __m128i*>(in);
    auto* to16 = reinterpret_cast<__m128i*>(out);
    const __m128i a = _mm_loadu_si128(from16);
    const __m128i b = _mm_loadu_si128(from16 + 1);
    const __m128i c = _mm_loadu_si128(from16 + 2);
    const __m128i d = _mm_loadu_si128(from16 + 3);
    _mm_stream_si128(to16, a);
    _mm_stream_si128(to16 + 1, b);
    _mm_stream_si128(to16 + 2, c);
    _mm_stream_si128(to16 + 3, d);
  }
  std::memcpy(out, in, bytes);
  // Without the fence, these stores are not ordered before later ones.
  _mm_sfence();
}

#else

void BulkCopy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

#endif

}  // namespace millrace
