#include "server/storage/tfrecord/crc32c.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace millrace::storage {
namespace {

std::vector<uint8_t> Sequence(int first, int step) {
  std::vector<uint8_t> bytes(32);
  for (int i = 0; i < 32; ++i) {
    bytes[i] = static_cast<uint8_t>(first + step * i);
  }
  return bytes;
}

// RFC 3720, section B.4.
TEST(Crc32c, GivesTheChecksumsOfTheStandard) {
  const struct {
    std::vector<uint8_t> bytes;
    uint32_t sum;
  } cases[] = {
      {Sequence(0, 0), 0x8A9136AA},
      {Sequence(0xFF, 0), 0x62A8AB43},
      {Sequence(0, 1), 0x46DD794E},
      {Sequence(31, -1), 0x113FDB5C},
      {{'1', '2', '3', '4', '5', '6', '7', '8', '9'}, 0xE3069283},
      {{}, 0},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(Crc32c(each.bytes), each.sum);
    EXPECT_EQ(Crc32cByTable(each.bytes), each.sum);
  }
}

TEST(Crc32c, AgreesWithTheTableForEveryLengthAndAlignment) {
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(600);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  const auto all = absl::MakeConstSpan(bytes);
  for (size_t from = 0; from < 9; ++from) {
    for (size_t length = 0; length + from <= bytes.size(); length += 1) {
      ASSERT_EQ(Crc32c(all.subspan(from, length)),
                Crc32cByTable(all.subspan(from, length)))
          << from << " " << length;
    }
  }
}

// The header of a record of 24 bytes that TensorFlow wrote.
TEST(Crc32c, MasksAsTensorFlowDoes) {
  const std::vector<uint8_t> length = {24, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(MaskedCrc32c(length), 0x224B7FA3u);
}

}  // namespace
}  // namespace millrace::storage
