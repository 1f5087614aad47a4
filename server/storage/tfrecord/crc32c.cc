#include "server/storage/tfrecord/crc32c.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace millrace::storage {
namespace {

// The polynomial without its highest term, lowest bit first.
constexpr uint32_t kPolynomial = 0x82F63B78;
constexpr uint32_t kMask = 0xA282EAD8;

// Remainders of all bytes.
constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    }
    table[byte] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

#if defined(__x86_64__)
// One chain of instructions with a latency of 3 cycles for 8 bytes: hashing the
// fields and decoding take far longer, so there are no parallel chains.
__attribute__((target("sse4.2"))) uint32_t Crc32cByCpu(
    absl::Span<const uint8_t> bytes) {
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  uint64_t value = 0xFFFFFFFF;
  for (; left >= sizeof(uint64_t); left -= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    value = _mm_crc32_u64(value, word);
    at += sizeof(word);
  }
  auto rest = static_cast<uint32_t>(value);
  for (; left > 0; --left) rest = _mm_crc32_u8(rest, *at++);
  return ~rest;
}
#endif

}  // namespace

uint32_t Crc32cByTable(absl::Span<const uint8_t> bytes) {
  uint32_t value = 0xFFFFFFFF;
  for (const uint8_t byte : bytes) {
    value = (value >> 8) ^ kTable[(value ^ byte) & 0xFF];
  }
  return ~value;
}

uint32_t Crc32c(absl::Span<const uint8_t> bytes) {
#if defined(__x86_64__)
  static const bool by_cpu = __builtin_cpu_supports("sse4.2") != 0;
  if (by_cpu) return Crc32cByCpu(bytes);
#endif
  return Crc32cByTable(bytes);
}

uint32_t MaskedCrc32c(absl::Span<const uint8_t> bytes) {
  return std::rotr(Crc32c(bytes), 15) + kMask;
}

}  // namespace millrace::storage
