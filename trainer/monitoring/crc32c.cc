#include "trainer/monitoring/crc32c.h"

#include <array>

namespace millrace::monitoring {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      // 0x82f63b78 is the polynomial with its bits reversed.
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
    }
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc = kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  }
  return ~crc;
}

uint32_t MaskCrc32c(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

}  // namespace millrace::monitoring
