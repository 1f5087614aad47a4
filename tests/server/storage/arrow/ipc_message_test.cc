#include "server/storage/arrow/ipc_message.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/server/storage/arrow/ipc_testing.h"

namespace millrace::storage {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The header of message number `number` of a stream.
std::string HeaderOf(const std::string& stream, int number) {
  size_t at = 0;
  while (true) {
    uint32_t length = 0;
    std::memcpy(&length, stream.data() + at + 4, sizeof(length));
    const std::string header = stream.substr(at + 8, length);
    if (number-- == 0) return header;
    at += 8 + length + IpcMessage::Parse(Bytes(header))->body_bytes;
  }
}

class IpcMessageTest : public ::testing::Test {
 protected:
  static std::string Stream(arrow::Compression::type codec) {
    return IpcBytes({{"n", Json(arrow::int64(), "[1, null, 3]")},
                     {"t", Json(arrow::utf8(), R"(["a", "bc", ""])")}},
                    {.stream = true, .codec = codec, .batch_rows = 2});
  }
};

TEST_F(IpcMessageTest, SchemaAndRecordBatches) {
  const std::string stream = Stream(arrow::Compression::UNCOMPRESSED);
  const std::string schema = HeaderOf(stream, 0);
  EXPECT_EQ(IpcMessage::Parse(Bytes(schema))->kind, IpcMessage::kSchema);
  const std::string header = HeaderOf(stream, 1);
  const auto batch = IpcMessage::Parse(Bytes(header));
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->kind, IpcMessage::kRecordBatch);
  EXPECT_EQ(batch->version, 4);
  EXPECT_EQ(batch->rows, 2);
  EXPECT_EQ(batch->codec, IpcMessage::Codec::kNone);
  EXPECT_EQ(batch->NodeAt(0)->length, 2);
  EXPECT_EQ(batch->NodeAt(0)->nulls, 1);
  EXPECT_EQ(batch->NodeAt(1)->nulls, 0);
  EXPECT_FALSE(batch->NodeAt(2).has_value());
  EXPECT_GE(batch->BufferAt(1)->bytes, 16);
  EXPECT_EQ(batch->BufferAt(3)->bytes, 12);  // offsets
  EXPECT_EQ(batch->BufferAt(4)->bytes, 3);
  EXPECT_FALSE(batch->BufferAt(5).has_value());
}

TEST_F(IpcMessageTest, Codecs) {
  EXPECT_EQ(IpcMessage::Parse(
                Bytes(HeaderOf(Stream(arrow::Compression::LZ4_FRAME), 1)))
                ->codec,
            IpcMessage::Codec::kLz4);
  EXPECT_EQ(
      IpcMessage::Parse(Bytes(HeaderOf(Stream(arrow::Compression::ZSTD), 1)))
          ->codec,
      IpcMessage::Codec::kZstd);
}

// Buffers outside of the body, and negative numbers, are absent.
TEST_F(IpcMessageTest, ImpossibleNumbersAreAbsent) {
  const std::string good =
      HeaderOf(Stream(arrow::Compression::UNCOMPRESSED), 1);
  int absent = 0;
  for (size_t i = 0; i + 8 <= good.size(); i += 8) {
    std::string bad = good;
    for (size_t k = 0; k < 8; ++k) bad[i + k] = '\xFF';
    const auto batch = IpcMessage::Parse(Bytes(bad));
    if (!batch.has_value()) {
      ++absent;
      continue;
    }
    for (uint64_t k = 0; k < batch->buffers && k < 100; ++k) {
      const auto buffer = batch->BufferAt(k);
      absent += !buffer.has_value();
      if (buffer.has_value()) {
        EXPECT_LE(buffer->begin + buffer->bytes, batch->body_bytes);
      }
    }
    for (uint64_t k = 0; k < batch->nodes && k < 100; ++k) {
      absent += !batch->NodeAt(k).has_value();
    }
  }
  EXPECT_GT(absent, 5);
}

TEST_F(IpcMessageTest, CutHeadersAreAbsentOrShorter) {
  const std::string good =
      HeaderOf(Stream(arrow::Compression::UNCOMPRESSED), 1);
  for (size_t size = 0; size < good.size(); ++size) {
    const std::string cut = good.substr(0, size);
    const auto batch = IpcMessage::Parse(Bytes(cut));
    if (!batch.has_value()) continue;
    EXPECT_LE(batch->nodes * 16 + batch->buffers * 16, size);
  }
}

}  // namespace
}  // namespace millrace::storage
