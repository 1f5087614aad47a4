#include "tests/server/storage/memory/memory_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/error_detail.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

TEST(MemorySourceTest, GivesBackItsSamples) {
  const Samples samples = EveryKindSamples(9);
  const auto source = NewMemorySource(EveryKindDataset(0), samples);
  EXPECT_EQ(source->info().format(), "memory");
  EXPECT_EQ(source->info().samples(), 9);
  EXPECT_EQ(source->info().fingerprint().size(), 32);
  const auto read = ReadAll(*source);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, samples);
}

TEST(MemorySourceTest, AnswersWithTheShardsItWasGiven) {
  DatasetInfo info = ImageDataset(0);
  for (int64_t first : {0, 4, 5}) {
    ShardInfo* shard = info.add_shards();
    shard->set_name("s" + std::to_string(first));
    shard->set_first_sample(first);
  }
  const auto source = NewMemorySource(info, ImageSamples(8));
  auto reader = source->NewReader();
  std::vector<std::pair<int, int64_t>> places;
  for (int64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE((*reader)
                    ->Read(i,
                           [&](const EncodedSample& sample) {
                             places.emplace_back(sample.shard, sample.row);
                             return absl::OkStatus();
                           })
                    .ok());
  }
  EXPECT_THAT(places, ::testing::ElementsAre(std::pair(0, 0), std::pair(0, 1),
                                             std::pair(0, 2), std::pair(0, 3),
                                             std::pair(1, 0), std::pair(2, 0),
                                             std::pair(2, 1), std::pair(2, 2)));
}

TEST(MemorySourceTest, AWrongSampleIsDataLossAndNamesItsPlace) {
  Samples samples = ImageSamples(3);
  samples[2][1] = Scalar<int64_t>(7);
  const auto source = NewMemorySource(ImageDataset(0), samples);
  auto reader = source->NewReader();
  const absl::Status status = (*reader)->Read(2, [](const EncodedSample&) {
    ADD_FAILURE() << "visited";
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(GetErrorDetail(status).shard(), "memory");
  EXPECT_EQ(GetErrorDetail(status).row(), 2);
  EXPECT_EQ(GetErrorDetail(status).sample(), 2);
  EXPECT_EQ(GetErrorDetail(status).stage(), "storage");
}

}  // namespace
}  // namespace millrace::storage
