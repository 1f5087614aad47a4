// DataLoader::Options::repeat_batches: what is repeated, and where it is said
// to be.

#include "client/repeat_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/data_loader_impl.h"
#include "tests/client/torch/fake_host_loader.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<DataLoader>> Open(
    device::FakeHostLoader::Options host, DataLoader::Options options) {
  options.epochs = host.epochs;
  return internal::NewDataLoader(
      std::make_unique<device::FakeHostLoader>(std::move(host)),
      device::NewHostDevice(), options);
}

int64_t FirstSample(const Batch& batch) {
  return batch.tensor("sample_index")[0].item<int64_t>();
}

TEST(RepeatLoader, RepeatsTheFirstBatchesToTheEndOfAllEpochs) {
  auto in_use = std::make_shared<std::atomic<int>>(0);
  // A third batch from the host loader would never come.
  auto loader =
      Open({.rows = 4,
            .steps = 5,
            .epochs = 2,
            .stalled = [](Position p) { return p.step > 2 || p.epoch > 0; },
            .slots_in_use = in_use},
           {.repeat_batches = 2});
  ASSERT_TRUE(loader.ok()) << loader.status();
  std::vector<torch::Tensor> images;
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ((*loader)->position(), (Position{i / 5, i % 5}));
    auto batch = (*loader)->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->position, (Position{i / 5, i % 5}));
    EXPECT_EQ(FirstSample(*batch), static_cast<int64_t>(i % 2 * 4));
    EXPECT_EQ(batch->rows, 4u);
    images.push_back(batch->tensor("image"));
    EXPECT_TRUE(torch::equal(images[i], images[i % 2]));
    EXPECT_EQ(images[i].strides(), images[0].strides());  // channels-last
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(absl::IsOutOfRange((*loader)->Next().status()));
  }
  EXPECT_EQ((*loader)->stats().repeated_batches, 8u);
  // Copies: nothing of the loader behind is held by a repeated batch.
  images.erase(images.begin(), images.begin() + 2);
  EXPECT_EQ(*in_use, 0);
  (*loader)->Close();
  EXPECT_TRUE(absl::IsCancelled((*loader)->Next().status()));
  EXPECT_TRUE(torch::equal(images[0], images[2])) << "held ones stay valid";
}

TEST(RepeatLoader, GoesWhereItIsSent) {
  auto loader =
      Open({.rows = 4, .steps = 5, .epochs = 3}, {.repeat_batches = 2});
  ASSERT_TRUE(loader.ok()) << loader.status();
  DataLoader& l = **loader;
  ASSERT_TRUE(l.Next().ok());
  ASSERT_TRUE(l.Seek({1, 3}).ok());  // still real ones
  auto batch = l.Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(FirstSample(*batch), 12);
  EXPECT_EQ(l.position(), (Position{1, 4}));
  ASSERT_TRUE(l.Seek({0, 5}).ok());
  EXPECT_EQ(l.position(), (Position{1, 0}));
  batch = l.Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->position, (Position{1, 0}));
  EXPECT_EQ(batch->generation, 2u);
  EXPECT_EQ(FirstSample(*batch), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(l.Seek({0, 6})));
  EXPECT_TRUE(absl::IsInvalidArgument(l.Seek({3, 1})));
  EXPECT_EQ(l.position(), (Position{1, 1}));
  ASSERT_TRUE(l.Seek({3, 0}).ok());
  EXPECT_TRUE(absl::IsOutOfRange(l.Next().status()));
  ASSERT_TRUE(l.Seek({2, 4}).ok());
  EXPECT_TRUE(l.Next().ok());
  EXPECT_TRUE(absl::IsOutOfRange(l.Next().status()));
  l.Close();
  EXPECT_TRUE(absl::IsCancelled(l.Seek({0, 0})));
}

TEST(RepeatLoader, RefusesWhatWouldBeTakenForReal) {
  const absl::Status too_many =
      Open({.steps = 4, .epochs = 2}, {.repeat_batches = 8}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(too_many));
  EXPECT_THAT(std::string(too_many.message()), HasSubstr("8 batches in all"));
}

TEST(RepeatLoader, AnErrorBeforeThereAreCopiesIsTheLoaders) {
  auto loader = Open({.rows = 4,
                      .steps = 5,
                      .before_next =
                          [](Position p) {
                            return p.step == 1
                                       ? absl::DataLossError("row 17 is bad")
                                       : absl::OkStatus();
                          }},
                     {.repeat_batches = 3});
  ASSERT_TRUE(loader.ok()) << loader.status();
  ASSERT_TRUE((*loader)->Next().ok());
  EXPECT_TRUE(absl::IsDataLoss((*loader)->Next().status()));
}

}  // namespace
}  // namespace millrace
