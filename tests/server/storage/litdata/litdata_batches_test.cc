// LitData chunks with samples that are compressed one by one or in batches,
// made by hand: whole, damaged and cut off.

#include "server/storage/litdata/litdata_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/server/storage/chunks/chunk_testing.h"
#include "tests/server/storage/unpack/unpack_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

uint32_t U32(size_t number) { return static_cast<uint32_t>(number); }

const std::vector<std::string>& Records() {
  static const std::vector<std::string> records = {
      "first", "", std::string(1000, 'x'), LongText(300), "last"};
  return records;
}

// Two samples in each batch.
std::string Batches(const std::vector<std::string>& records) {
  std::string offsets = RawBytes(uint32_t{0});
  size_t end = 0;
  for (const std::string& record : records) {
    offsets += RawBytes(U32(end += record.size()));
  }
  const size_t batches = (records.size() + 1) / 2;
  std::string table;
  std::string frames;
  const size_t begin = 24 + offsets.size() + 24 * batches;
  for (size_t i = 0; i < records.size(); i += 2) {
    std::string raw = records[i];
    const bool two = i + 1 < records.size();
    if (two) raw += records[i + 1];
    const std::string frame = Compress(Codec::kZstd, raw);
    table += RawBytes(U32(i)) + RawBytes(U32(two ? 2 : 1)) +
             RawBytes(uint64_t{begin + frames.size()}) +
             RawBytes(U32(frame.size())) + RawBytes(U32(raw.size()));
    frames += frame;
  }
  return std::string("LDFZ01\0\0", 8) + RawBytes(uint16_t{1}) +
         RawBytes(uint16_t{0}) + RawBytes(U32(records.size())) +
         RawBytes(uint32_t{2}) + RawBytes(U32(batches)) + offsets + table +
         frames;
}

std::string OneByOne(const std::vector<std::string>& records) {
  std::vector<std::string> frames;
  for (const std::string& record : records) {
    frames.push_back(Compress(Codec::kZstd, record));
  }
  return ChunkOf(frames);
}

TEST(LitdataBatchesTest, GivesTheChunkWithoutCompression) {
  for (const bool batches : {true, false}) {
    const Unpacker& unpacker = batches ? LitdataBatches() : LitdataSamples();
    const std::string packed =
        batches ? Batches(Records()) : OneByOne(Records());
    const auto raw = UnpackText(unpacker, packed);
    ASSERT_TRUE(raw.ok()) << raw.status();
    EXPECT_TRUE(*raw == ChunkOf(Records()));
    if (!batches) continue;
    TextFile file(packed);
    EXPECT_EQ(*unpacker.ClaimedBytes(file), raw->size());
  }
}

TEST(LitdataBatchesTest, AChunkThatWasCutOffIsRefusedAtEachPlace) {
  for (const bool batches : {true, false}) {
    const std::string packed =
        batches ? Batches(Records()) : OneByOne(Records());
    for (size_t bytes = 0; bytes < packed.size(); ++bytes) {
      const auto raw = UnpackText(batches ? LitdataBatches() : LitdataSamples(),
                                  packed.substr(0, bytes));
      ASSERT_TRUE(absl::IsDataLoss(raw.status())) << bytes << raw.status();
      ASSERT_TRUE(absl::StartsWith(raw.status().message(), "byte "))
          << raw.status();
    }
  }
}

TEST(LitdataBatchesTest, DamageIsNoticedOrGivesOtherBytes) {
  for (const bool batches : {true, false}) {
    const std::string packed =
        batches ? Batches(Records()) : OneByOne(Records());
    for (size_t i = 0; i < packed.size(); ++i) {
      std::string damaged = packed;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
      const auto raw =
          UnpackText(batches ? LitdataBatches() : LitdataSamples(), damaged);
      if (raw.ok()) continue;
      ASSERT_TRUE(absl::StartsWith(raw.status().message(), "byte "))
          << i << raw.status();
    }
  }
  std::string other = Batches(Records());
  other[8] = 2;
  EXPECT_THAT(
      std::string(UnpackText(LitdataBatches(), other).status().message()),
      HasSubstr("byte 8: the batches have version 2"));
  EXPECT_THAT(
      std::string(
          UnpackText(LitdataBatches(), OneByOne(Records())).status().message()),
      HasSubstr("byte 0: the chunk does not begin with LDFZ01"));
  // A count without its bytes allocates nothing.
  EXPECT_THAT(
      std::string(
          UnpackText(LitdataSamples(), "\xFF\xFF\xFF\xFF").status().message()),
      HasSubstr("byte 4: a table of 17179869184 bytes does not fit"));
}

}  // namespace
}  // namespace millrace::storage
