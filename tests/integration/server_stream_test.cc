// A real server and a client that is nothing but generated protobuf code: the
// batches of an epoch over the real pipeline, what happens at SIGTERM, and
// what a slow client costs in memory.

#include <signal.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/batch_view.h"
#include "tests/testing/digits.h"
#include "tests/testing/process_memory.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/sanitizer.h"
#include "tests/testing/service.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using testing::ReceivedBatch;
using testing::RpcClient;

constexpr int64_t kSamples = 1000;

class ServerStreamTest : public testing::ServiceTest {
 protected:
  void StartServer(std::vector<std::string> flags = {},
                   const std::string& dataset = Digits(kSamples)) {
    flags.push_back(dataset);
    server_ = Serve(flags);
    client_ = std::make_unique<RpcClient>(server_->address());
  }

  std::unique_ptr<testing::ServerProcess> server_;
  std::unique_ptr<RpcClient> client_;
};

TEST_F(ServerStreamTest, AnEpochHasEverySampleOnceAndItsOwnPixels) {
  StartServer();
  const auto plan = client_->Open(DigitsSpec(100), 2);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->steps_per_epoch(), 10);
  std::vector<int> seen(kSamples, 0);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    GetBatchesRequest request = RpcClient::Request(*plan, 0, 10);
    request.set_rank(rank);
    request.set_world_size(2);
    std::vector<ReceivedBatch> batches;
    const absl::Status status = client_->GetBatches(request, &batches);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(batches.size(), 10);
    for (const ReceivedBatch& batch : batches) {
      const auto* bytes =
          reinterpret_cast<const uint8_t*>(batch.payload.data());
      const absl::Span<const uint8_t> payload(bytes, batch.payload.size());
      const absl::Status valid = wire::ValidateBatchHeader(
          batch.header, {.tensors = &plan->tensors(),
                         .epoch = 0,
                         .step = batch.header.step(),
                         .rank = rank,
                         .world_size = 2,
                         .max_payload_bytes = plan->max_payload_bytes(),
                         .max_rows = 50});
      ASSERT_TRUE(valid.ok()) << valid;
      ASSERT_TRUE(wire::ValidatePayload(batch.header, payload).ok());
      const TensorHeader* index = nullptr;
      const TensorHeader* image = nullptr;
      const TensorHeader* label = nullptr;
      for (const TensorHeader& tensor : batch.header.tensors()) {
        if (tensor.name() == "sample_index") index = &tensor;
        if (tensor.name() == "image") image = &tensor;
        if (tensor.name() == "label") label = &tensor;
      }
      ASSERT_TRUE(index != nullptr && image != nullptr && label != nullptr);
      for (uint64_t row = 0; row < batch.header.rows(); ++row) {
        int64_t sample = 0;
        int16_t digit = 0;  // of ten classes
        std::memcpy(&sample, bytes + index->offset() + row * 8, 8);
        std::memcpy(&digit, bytes + label->offset() + row * 2, 2);
        ASSERT_GE(sample, 0);
        ASSERT_LT(sample, kSamples);
        ++seen[sample];
        EXPECT_EQ(digit, testing::DigitLabel(sample));
        for (int64_t i = 0; i < 28 * 28; ++i) {
          ASSERT_EQ(bytes[image->offset() + row * 28 * 28 + i],
                    testing::DigitPixel(sample, i));
        }
      }
    }
  }
  EXPECT_EQ(seen, std::vector<int>(kSamples, 1));
}

TEST_F(ServerStreamTest, RefusesWithASentenceAndGoesOn) {
  StartServer();
  PipelineSpec spec = DigitsSpec(100);
  spec.mutable_sources(0)->set_dataset("letters");
  EXPECT_EQ(client_->Open(spec, 1).status().code(),
            absl::StatusCode::kNotFound);
  spec = DigitsSpec(100);
  spec.set_preset("mnits");
  EXPECT_THAT(std::string(client_->Open(spec, 1).status().message()),
              HasSubstr("mnits"));
  const auto world = client_->Open(DigitsSpec(100), 3).status();
  EXPECT_EQ(world.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->Open(DigitsSpec(0), 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto plan = client_->Open(DigitsSpec(100), 1);
  ASSERT_TRUE(plan.ok());
  std::vector<ReceivedBatch> batches;
  EXPECT_EQ(
      client_->GetBatches(RpcClient::Request(*plan, 5, 6), &batches).code(),
      absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(
      client_->GetBatches(RpcClient::Request(*plan, 5, 5), &batches).ok());
  EXPECT_EQ(batches.size(), 5);
}

TEST_F(ServerStreamTest, AServerThatNeverSawOpenAnswersTheSame) {
  StartServer();
  const auto plan = client_->Open(DigitsSpec(100), 1);
  ASSERT_TRUE(plan.ok());
  std::vector<ReceivedBatch> first;
  ASSERT_TRUE(
      client_->GetBatches(RpcClient::Request(*plan, 0, 10), &first).ok());
  // Another one, over a copy of the data.
  const std::string copy = "lmdb:" + Path("digits.lmdb");
  ASSERT_TRUE(testing::WriteDigits(copy, kSamples).ok());
  StartServer({"--threads=3"}, "--dataset=digits=" + copy);
  std::vector<ReceivedBatch> second;
  ASSERT_TRUE(
      client_->GetBatches(RpcClient::Request(*plan, 0, 10), &second).ok());
  ASSERT_EQ(second.size(), 10);
  const auto by_step = [](const ReceivedBatch& a, const ReceivedBatch& b) {
    return a.header.step() < b.header.step();
  };
  std::sort(first.begin(), first.end(), by_step);
  std::sort(second.begin(), second.end(), by_step);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(first[i].payload, second[i].payload);
  }
}

TEST_F(ServerStreamTest, SigtermWithAStreamUnderWayEndsItAsUnavailable) {
  StartServer({"--shutdown_grace=200ms"});
  const auto plan = client_->Open(DigitsSpec(1), 1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // A call that cannot end by itself: its reader does not read.
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<Frame>>> readers;
  for (int i = 0; i < 8; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(client_->stub().GetBatches(
        contexts.back().get(), RpcClient::Request(*plan, 0, kSamples)));
    Frame frame;
    ASSERT_TRUE(readers.back()->Read(&frame));
  }
  EXPECT_EQ(server_->Stop(), 0) << server_->process().Stderr();
  for (auto& reader : readers) {
    Frame frame;
    while (reader->Read(&frame)) {
    }
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok() ||
                status.error_code() == grpc::StatusCode::UNAVAILABLE)
        << status.error_code() << ": " << status.error_message();
  }
}

// Clients that read slowly, for MILLRACE_SLOW_READER_SECONDS (5 by default; 60
// in a long run): the server's memory stays under its budget and 200 MiB. The
// streams together are far larger than that.
TEST_F(ServerStreamTest, SlowReadersCostNoMoreThanTheBudget) {
  constexpr uint64_t kBudget = 24 << 20;
  constexpr int kStreams = 8;
  StartServer({"--memory_budget=24MiB"}, Digits(100'000));
  const char* seconds = std::getenv("MILLRACE_SLOW_READER_SECONDS");
  const absl::Time end =
      absl::Now() + absl::Seconds(seconds == nullptr ? 5 : std::atoi(seconds));
  const auto plan = client_->Open(DigitsSpec(1000), 1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  uint64_t peak = 0;
  uint64_t epoch = 0;
  uint64_t frames = 0;
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<Frame>> reader;
  };
  std::vector<std::unique_ptr<Call>> calls(kStreams);
  while (absl::Now() < end) {
    for (auto& call : calls) {
      if (call == nullptr) {
        GetBatchesRequest request =
            RpcClient::Request(*plan, 0, plan->steps_per_epoch());
        request.set_epoch(epoch++);
        call = std::make_unique<Call>();
        call->reader = client_->stub().GetBatches(&call->context, request);
      }
      Frame frame;
      if (call->reader->Read(&frame)) {
        ++frames;
        continue;
      }
      const grpc::Status status = call->reader->Finish();
      EXPECT_TRUE(status.ok() ||
                  status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED)
          << status.error_message();
      call = nullptr;
    }
    peak = std::max(peak, testing::AnonymousBytes(server_->process().pid()));
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_GT(frames, kStreams);
  EXPECT_GT(peak, 0);
#if !MR_WITH_SANITIZER  // which keeps 256 MB of freed memory back
  EXPECT_LT(peak, kBudget + (200 << 20));
#endif
  const auto status = client_->GetStatus();
  ASSERT_TRUE(status.ok());
  EXPECT_LE(status->memory_peak_bytes(), kBudget);
  RecordProperty("peak_mib", static_cast<int>(peak >> 20));
  for (auto& call : calls) {
    if (call != nullptr) call->context.TryCancel();
  }
}

}  // namespace
}  // namespace millrace
