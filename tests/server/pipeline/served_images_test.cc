// The memory of a real server over large images, as the kernel counts it: one
// image took 256 MiB beside any budget.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/spec_text.h"
#include "tests/testing/images/png_writer.h"
#include "tests/testing/process_memory.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;
// As in served_memory_test.cc.
constexpr uint64_t kBesideBudget = 24 * kMiB;

class ServedImagesTest : public ::testing::Test {
 protected:
  // Adds `count` grey images that are decoded to RGB.
  void Write(int width, int height, int count) {
    PngKind kind;
    kind.width = width;
    kind.height = height;
    kind.color_type = 0;
    const std::vector<uint8_t> png = WritePng(
        kind, std::vector<uint8_t>(static_cast<size_t>(width) * height, 77));
    std::filesystem::create_directories(folder_ + "/grey");
    for (int i = 0; i < count; ++i) {
      std::ofstream(absl::StrCat(folder_, "/grey/", images_++, ".png"),
                    std::ios::binary)
          .write(reinterpret_cast<const char*>(png.data()),
                 static_cast<std::streamsize>(png.size()));
    }
  }

  void Start(uint64_t budget_mib) {
    auto server = ServerProcess::Start(
        {absl::StrCat("--dataset=d=imagefolder:", folder_), "--threads=2",
         absl::StrCat("--memory_budget=", budget_mib, "MiB")});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // Receives an epoch. The largest part of the server's memory meanwhile is in
  // peak_.
  absl::Status Receive(const std::string& pipeline) {
    std::atomic<bool> done{false};
    absl::Status status;
    const pid_t pid = server_->process().pid();
    std::thread client([&] {
      status = ReceiveEpoch(pipeline);
      done = true;
    });
    while (!done) {
      peak_ = std::max(peak_, AnonymousBytes(pid));
      absl::SleepFor(absl::Milliseconds(1));
    }
    client.join();
    std::printf("at most %d MiB; %s\n", static_cast<int>(peak_ / kMiB),
                status.ToString().c_str());
    return status;
  }

  absl::Status ReceiveEpoch(const std::string& pipeline) {
    RpcClient client(server_->address());
    auto spec = ParseSpecText(pipeline, "test");
    if (!spec.ok()) return spec.status();
    const auto plan = client.Open(*spec, 1);
    if (!plan.ok()) return plan.status();
    batches_.clear();
    return client.GetBatches(
        RpcClient::Request(*plan, 0, plan->steps_per_epoch()), &batches_);
  }

  const std::string folder_ = NewTempDir() + "/images";
  int images_ = 0;
  std::unique_ptr<ServerProcess> server_;
  uint64_t peak_ = 0;
  std::vector<ReceivedBatch> batches_;
};

constexpr char kSmall[] =
    "sources { dataset: 'd' } batch_size: 2 bad_samples { action: ZERO } "
    "transforms { decode_image {} } "
    "transforms { resize { height: 64 width: 64 } }";

// It needs 100 MiB. An error of the server and not of the sample: a server with
// more memory makes the batch, and no batch depends on the server.
TEST_F(ServedImagesTest, AnImageThatNeverFitsIsRefusedWithABudgetThatWorks) {
  Write(7000, 5000, 2);
  ASSERT_NO_FATAL_FAILURE(Start(64));
  const absl::Status refused = Receive(kSmall);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the image of 7000 x 5000 pixels needs up to 10"));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the memory budget of 64 MiB has 0 B for large images "
                        "beside the scratch of a thread"));
  EXPECT_LE(peak_, 64 * kMiB + kBesideBudget);
  EXPECT_EQ(server_->Stop(), 0);

  constexpr char kAdvice[] = "raise --memory_budget to ";
  const size_t at = refused.message().find(kAdvice);
  ASSERT_NE(at, std::string::npos) << refused;
  const int advised = std::atoi(
      std::string(refused.message().substr(at + sizeof(kAdvice) - 1)).c_str());
  ASSERT_GT(advised, 64);
  ASSERT_NO_FATAL_FAILURE(Start(advised - 1));
  EXPECT_EQ(Receive(kSmall).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(server_->Stop(), 0);
  ASSERT_NO_FATAL_FAILURE(Start(advised));
  const absl::Status received = Receive(kSmall);
  EXPECT_TRUE(received.ok()) << received;
  ASSERT_EQ(batches_.size(), 1u);
  EXPECT_EQ(batches_[0].header.local_valid(), 2u);
  EXPECT_LE(peak_, advised * kMiB + kBesideBudget);
  EXPECT_EQ(server_->Stop(), 0);
}

// Each needs 30 MiB, and the batches take what the budget has for them.
TEST_F(ServedImagesTest, ImagesThatFitAreDecodedBesideFullBatches) {
  Write(3400, 3000, 64);
  // malloc keeps freed memory of up to 32 MiB a piece (common/malloc_tuning.h):
  // without this, what it keeps is measured instead of what is in use.
  setenv("MALLOC_MMAP_THRESHOLD_", "1048576", 1);
  ASSERT_NO_FATAL_FAILURE(Start(144));
  const absl::Status received = Receive(
      "sources { dataset: 'd' } batch_size: 8 "
      "transforms { decode_image {} } "
      "transforms { resize { height: 1000 width: 1000 } }");
  EXPECT_TRUE(received.ok()) << received;
  EXPECT_EQ(batches_.size(), 8u);
  EXPECT_LE(peak_, 144 * kMiB + kBesideBudget);
  unsetenv("MALLOC_MMAP_THRESHOLD_");
  EXPECT_EQ(server_->Stop(), 0);
}

// Claims that no server decodes are bad samples of any server: they end no job
// that leaves bad samples out.
TEST_F(ServedImagesTest, AnImageThatEveryServerRefusesIsABadSample) {
  Write(300, 200, 1);
  Write(12000, 8400, 1);  // 289 MiB as RGB, and the maximum is 256 MiB
  ASSERT_NO_FATAL_FAILURE(Start(64));
  const absl::Status received = Receive(kSmall);
  EXPECT_TRUE(received.ok()) << received;
  ASSERT_EQ(batches_.size(), 1u);
  EXPECT_EQ(batches_[0].header.local_valid(), 1u);
  EXPECT_LE(peak_, 64 * kMiB + kBesideBudget);
  EXPECT_EQ(server_->Stop(), 0);
}

}  // namespace
}  // namespace millrace::testing
