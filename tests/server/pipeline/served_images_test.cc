// The memory of a real server over large images, as the kernel counts it: one
// image took 256 MiB beside any budget, and malloc kept what was freed.

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
#include "common/malloc_tuning.h"
#include "proto/spec_text.h"
#include "server/pipeline/stage/image_stage.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"
#include "tests/testing/images/webp_writer.h"
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
constexpr int kThreads = 2;

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
    Add(png, "png", count);
  }

  void Add(const std::vector<uint8_t>& image, const std::string& suffix,
           int count) {
    std::filesystem::create_directories(folder_ + "/grey");
    for (int i = 0; i < count; ++i) {
      std::ofstream(absl::StrCat(folder_, "/grey/", images_++, ".", suffix),
                    std::ios::binary)
          .write(reinterpret_cast<const char*>(image.data()),
                 static_cast<std::streamsize>(image.size()));
    }
  }

  void Start(uint64_t budget_mib) {
    auto server = ServerProcess::Start(
        {absl::StrCat("--dataset=d=imagefolder:", folder_),
         absl::StrCat("--threads=", kThreads),
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

  uint64_t Now() const { return AnonymousBytes(server_->process().pid()); }

  const std::string folder_ = NewTempDir() + "/images";
  int images_ = 0;
  std::unique_ptr<ServerProcess> server_;
  uint64_t peak_ = 0;
  std::vector<ReceivedBatch> batches_;
};

// The budget in MiB that an error names; 0: it names none.
int Advised(const absl::Status& refused) {
  constexpr char kAdvice[] = "raise --memory_budget to ";
  const size_t at = refused.message().find(kAdvice);
  if (at == std::string::npos) return 0;
  return std::atoi(
      std::string(refused.message().substr(at + sizeof(kAdvice) - 1)).c_str());
}

// Images of smooth shades whose formats need much memory beside the pixels of a
// region.
std::vector<uint8_t> Progressive(int width, int height) {
  JpegKind kind;
  kind.width = width;
  kind.height = height;
  kind.progressive = true;
  return WriteJpeg(kind, 1);
}

std::vector<uint8_t> Lossless(int width, int height) {
  std::vector<uint8_t> pixels(static_cast<size_t>(width) * height * 3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      pixels[(static_cast<size_t>(y) * width + x) * 3] =
          static_cast<uint8_t>(x / 16 + y / 16);
    }
  }
  WebpKind kind;
  kind.width = width;
  kind.height = height;
  kind.lossless = true;
  return WriteWebp(kind, pixels);
}

std::vector<uint8_t> Interlaced(int width, int height) {
  PngKind kind;
  kind.width = width;
  kind.height = height;
  kind.color_type = 0;
  kind.interlaced = true;
  return WritePng(
      kind, std::vector<uint8_t>(static_cast<size_t>(width) * height, 77));
}

constexpr char kSmall[] =
    "sources { dataset: 'd' } batch_size: 2 bad_samples { action: ZERO } "
    "transforms { decode_image {} } "
    "transforms { resize { height: 64 width: 64 } }";

// Upper bound of the server's memory between two images: beside what no budget
// counts, each thread keeps its scratch and the end of its arena, which malloc
// trims at twice kLargeBlockBytes. 53 MiB were seen; with malloc's own
// thresholds, more than the whole budget.
uint64_t MaxLeft() {
  const auto spec = ParseSpecText(kSmall, "test");
  EXPECT_TRUE(spec.ok()) << spec.status();
  std::vector<pipeline::PlacedTransform> placed;
  for (const Transform& transform : spec->transforms()) {
    placed.push_back({&transform, static_cast<uint32_t>(placed.size())});
  }
  Field field;
  field.set_name("image");
  field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  const auto stage = pipeline::ImageStage::Create(field, placed);
  EXPECT_TRUE(stage.ok()) << stage.status();
  return kBesideBudget + kThreads * ((*stage)->max_scratch_bytes() +
                                     2 * uint64_t{kLargeBlockBytes});
}

// Few pixels of an image.
constexpr char kPart[] =
    "sources { dataset: 'd' } batch_size: 2 bad_samples { action: ZERO } "
    "transforms { decode_image {} } "
    "transforms { center_crop { height: 64 width: 64 } }";

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

  const int advised = Advised(refused);
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
  ASSERT_NO_FATAL_FAILURE(Start(144));
  const absl::Status received = Receive(
      "sources { dataset: 'd' } batch_size: 8 "
      "transforms { decode_image {} } "
      "transforms { resize { height: 1000 width: 1000 } }");
  EXPECT_TRUE(received.ok()) << received;
  EXPECT_EQ(batches_.size(), 8u);
  EXPECT_LE(peak_, 144 * kMiB + kBesideBudget);
  EXPECT_EQ(server_->Stop(), 0);
}

// Each image fits the memory that the budget has for it. malloc kept the freed
// buffers for each thread: 334 MiB of a server with 157.
TEST_F(ServedImagesTest, FreedImagesLeaveTheProcess) {
  constexpr int kBudget = 157;
  const struct {
    const char* suffix;
    std::vector<uint8_t> image;
  } kinds[] = {{"jpg", Progressive(3900, 2900)},
               {"webp", Lossless(2000, 1400)},
               {"png", Interlaced(2400, 2400)}};
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind.suffix);
    std::filesystem::remove_all(folder_);
    Add(kind.image, kind.suffix, 16);
    ASSERT_NO_FATAL_FAILURE(Start(kBudget));
    peak_ = 0;
    const absl::Status received = Receive(kSmall);
    EXPECT_TRUE(received.ok()) << received;
    EXPECT_EQ(batches_.size(), 8u);
    EXPECT_LE(peak_, kBudget * kMiB + kBesideBudget);
    std::printf("%s: %d MiB are left\n", kind.suffix,
                static_cast<int>(Now() / kMiB));
    EXPECT_LE(Now(), MaxLeft());
    EXPECT_EQ(server_->Stop(), 0);
  }
}

// The region that the pipeline reads would fit at any of these budgets; what
// the format needs for the whole image does not.
TEST_F(ServedImagesTest, TheBudgetThatIsNamedHasRoomForWhatTheFormatNeeds) {
  const struct {
    const char* suffix;
    std::vector<uint8_t> image;
  } kinds[] = {{"jpg", Progressive(5000, 4000)},
               {"webp", Lossless(3000, 3000)},
               {"png", Interlaced(6000, 5000)}};
  for (const auto& kind : kinds) {
    std::filesystem::remove_all(folder_);
    Add(kind.image, kind.suffix, 2);
    int advised = 0;
    for (const int budget : {64, 100, 144}) {
      SCOPED_TRACE(absl::StrCat(kind.suffix, ", ", budget, " MiB"));
      ASSERT_NO_FATAL_FAILURE(Start(budget));
      const absl::Status refused = Receive(kPart);
      EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition)
          << refused;
      EXPECT_EQ(server_->Stop(), 0);
      if (advised != 0) {
        EXPECT_EQ(Advised(refused), advised) << refused;
      }
      advised = Advised(refused);
      ASSERT_GT(advised, budget) << refused;
    }
    SCOPED_TRACE(absl::StrCat(kind.suffix, ", as advised ", advised));
    ASSERT_NO_FATAL_FAILURE(Start(advised - 1));
    EXPECT_EQ(Receive(kPart).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(server_->Stop(), 0);
    ASSERT_NO_FATAL_FAILURE(Start(advised));
    peak_ = 0;
    const absl::Status received = Receive(kPart);
    EXPECT_TRUE(received.ok()) << received;
    EXPECT_LE(peak_, advised * kMiB + kBesideBudget);
    EXPECT_EQ(server_->Stop(), 0);
  }
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
