// Batches cut into messages that refer to their payload.

#include "server/rpc/batch_frames.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/byte_budget.h"
#include "gtest/gtest.h"
#include "proto/wire/frame_view.h"
#include "proto/wire/version.h"
#include "server/rpc/compress_batch.h"

namespace millrace::rpc {
namespace {

class BatchFramesTest : public ::testing::Test {
 protected:
  batch::FilledBatch Batch(uint64_t bytes) {
    ByteBudget::Reservation reservation;
    EXPECT_TRUE(budget_.TryReserve(bytes, &reservation));
    batch::FilledBatch batch;
    batch.header.set_step(5);
    batch.header.set_payload_bytes(bytes);
    batch.payload =
        std::make_shared<batch::BatchPayload>(bytes, std::move(reservation));
    for (uint64_t i = 0; i < bytes; ++i) batch.payload->data()[i] = i * 13;
    return batch;
  }

  ByteBudget budget_{10 << 20};
  std::shared_ptr<LivePayloads> live_ = std::make_shared<LivePayloads>();
};

TEST_F(BatchFramesTest, CutsEverySizeWithoutCopying) {
  for (uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, wire::kFrameDataBytes - 1,
        wire::kFrameDataBytes, wire::kFrameDataBytes + 1,
        wire::kFrameDataBytes + wire::kFrameDataBytes / 4,
        wire::kFrameDataBytes + wire::kFrameDataBytes / 4 + 1,
        2 * wire::kFrameDataBytes, 5 * wire::kFrameDataBytes + 77}) {
    batch::FilledBatch batch = Batch(bytes);
    const uint8_t* const data = batch.payload->data();
    BatchFrames frames(std::move(batch), live_);
    uint64_t offset = 0;
    uint64_t count = 0;
    while (!frames.done()) {
      grpc::ByteBuffer message = frames.Next();
      std::vector<grpc::Slice> slices;
      ASSERT_TRUE(message.Dump(&slices).ok());
      std::vector<absl::string_view> views;
      for (const grpc::Slice& slice : slices) {
        views.emplace_back(reinterpret_cast<const char*>(slice.begin()),
                           slice.size());
      }
      wire::FrameView frame;
      ASSERT_TRUE(wire::ParseFrame(views, &frame).ok());
      EXPECT_EQ(frame.has_header, count == 0);
      if (count == 0) {
        EXPECT_EQ(frame.header.payload_bytes(), bytes);
      }
      EXPECT_EQ(frame.step, 5);
      EXPECT_EQ(frame.offset, offset);
      for (absl::string_view piece : frame.data) {
        // The very memory of the payload, except for a few bytes that gRPC
        // rather keeps inside the slice.
        if (piece.size() > 64) {
          EXPECT_EQ(reinterpret_cast<const uint8_t*>(piece.data()),
                    data + offset);
        }
        offset += piece.size();
      }
      EXPECT_LE(frame.data_bytes,
                wire::kFrameDataBytes + wire::kFrameDataBytes / 4);
      ++count;
    }
    EXPECT_EQ(offset, bytes);
    // No frame is a tiny rest.
    EXPECT_LE(count, 1 + bytes / wire::kFrameDataBytes);
  }
  EXPECT_EQ(budget_.used(), 0);
}

TEST_F(BatchFramesTest, LastMessageKeepsThePayload) {
  auto frames =
      std::make_unique<BatchFrames>(Batch(3 * wire::kFrameDataBytes), live_);
  std::vector<grpc::ByteBuffer> messages;
  while (!frames->done()) messages.push_back(frames->Next());
  frames.reset();
  while (!messages.empty()) {
    EXPECT_EQ(budget_.used(), 3 * wire::kFrameDataBytes);
    EXPECT_FALSE(live_->AwaitNone(absl::ZeroDuration()));
    messages.pop_back();
  }
  EXPECT_EQ(budget_.used(), 0);
  EXPECT_TRUE(live_->AwaitNone(absl::ZeroDuration()));
}

TEST_F(BatchFramesTest, FramesThatAreNotWantedGiveMemoryBack) {
  {
    BatchFrames frames(Batch(3 * wire::kFrameDataBytes), live_);
    frames.Next();
  }
  EXPECT_EQ(budget_.used(), 0);
}

// Reads a whole batch from its messages.
std::vector<uint8_t> Received(BatchFrames& frames, uint64_t bytes,
                              uint64_t* wire_bytes) {
  std::vector<uint8_t> payload(bytes);
  uint64_t received = 0;
  while (!frames.done()) {
    const grpc::ByteBuffer message = frames.Next();
    *wire_bytes += message.Length();
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(message.Dump(&slices).ok());
    std::vector<absl::string_view> views;
    for (const grpc::Slice& slice : slices) {
      views.emplace_back(reinterpret_cast<const char*>(slice.begin()),
                         slice.size());
    }
    wire::FrameView frame;
    EXPECT_TRUE(wire::ParseFrame(views, &frame).ok());
    EXPECT_EQ(frame.offset, received);
    EXPECT_TRUE(wire::CopyFrameData(frame, absl::MakeSpan(payload)).ok());
    received += frame.payload_bytes();
  }
  EXPECT_EQ(received, bytes);
  return payload;
}

// The first half is easily compressed, the second one not at all.
batch::FilledBatch HalfNoise(batch::FilledBatch batch) {
  uint64_t state = 1;
  for (uint64_t i = batch.payload->bytes() / 2; i < batch.payload->bytes();
       ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    batch.payload->data()[i] = state >> 56;
  }
  return batch;
}

TEST_F(BatchFramesTest, CompressedBatchesComeOutAsTheyWere) {
  for (uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{1000}, wire::kFrameDataBytes,
        4 * wire::kFrameDataBytes + 77}) {
    batch::FilledBatch batch = HalfNoise(Batch(bytes));
    const std::vector<uint8_t> expected(batch.payload->data(),
                                        batch.payload->data() + bytes);
    BatchCompression compression = CompressBatch(batch);
    BatchFrames frames(std::move(batch), live_, std::move(compression));
    uint64_t wire_bytes = 0;
    EXPECT_EQ(Received(frames, bytes, &wire_bytes), expected) << bytes;
    if (bytes > wire::kFrameDataBytes) {
      EXPECT_LT(wire_bytes, bytes * 6 / 10);
      EXPECT_GT(wire_bytes, bytes * 4 / 10);
    }
  }
  EXPECT_EQ(budget_.used(), 0);
}

TEST_F(BatchFramesTest, ImagesAreCompressedAsDifferencesOfTheirChannels) {
  batch::FilledBatch batch = Batch(64 * 64 * 3 + 64);
  TensorHeader* image = batch.header.add_tensors();
  image->set_dtype(DTYPE_UINT8);
  for (int n : {64, 64, 3}) image->add_sample_shape(n);
  image->set_bytes(64 * 64 * 3);
  const BatchCompression compression = CompressBatch(batch);
  ASSERT_EQ(compression.size(), 1);
  EXPECT_TRUE(compression[0].compressed);
  EXPECT_EQ(compression[0].delta_stride, 3);
}

TEST_F(BatchFramesTest, APayloadThatOthersReadIsNotCompressed) {
  batch::FilledBatch batch = Batch(1000);
  const std::shared_ptr<batch::BatchPayload> other = batch.payload;
  EXPECT_TRUE(CompressBatch(batch).empty());
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(other->data()[i], static_cast<uint8_t>(i * 13));
  }
}

}  // namespace
}  // namespace millrace::rpc
