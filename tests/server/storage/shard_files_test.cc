#include "server/storage/shard_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/dataset.pb.h"
#include "proto/error_detail.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;

DatasetInfo Shards(const std::vector<int64_t>& samples) {
  DatasetInfo info;
  for (const int64_t count : samples) {
    ShardInfo* shard = info.add_shards();
    shard->set_name(absl::StrCat("shard ", info.shards_size() - 1));
    shard->set_first_sample(info.samples());
    shard->set_samples(count);
    info.set_samples(info.samples() + count);
  }
  return info;
}

TEST(ShardFiles, FindsTheShardOfASample) {
  const ShardFiles shards(Shards({3, 0, 2, 1}),
                          [](int) { return absl::OkStatus(); });
  std::vector<int> found;
  for (int64_t i = 0; i < 6; ++i) found.push_back(shards.ShardOf(i));
  EXPECT_THAT(found, ElementsAre(0, 0, 0, 2, 2, 3));
  EXPECT_EQ(shards.first_sample(3), 5);
}

TEST(ShardFiles, ChecksEachFileOfTheSamplesOnce) {
  std::vector<int> checked;
  const ShardFiles shards(Shards({2, 2, 2, 2, 2}), [&](int shard) {
    checked.push_back(shard);
    return absl::OkStatus();
  });
  EXPECT_TRUE(shards.CheckThoseOf({9, -1, 2, 3, 8, 10}).ok());
  EXPECT_THAT(checked, ElementsAre(4, 1));
  checked.clear();
  EXPECT_TRUE(shards.CheckAll().ok());
  EXPECT_THAT(checked, ElementsAre(0, 1, 2, 3, 4));
}

TEST(ShardFiles, NamesTheShardThatHasChanged) {
  const ShardFiles shards(Shards({2, 2}), [](int shard) {
    return shard == 1 ? absl::UnavailableError("changed") : absl::OkStatus();
  });
  EXPECT_TRUE(shards.Check(0).ok());
  for (const absl::Status& status :
       {shards.Check(1), shards.CheckAll(), shards.CheckThoseOf({0})}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(GetErrorDetail(status).stage(), "storage");
    EXPECT_EQ(GetErrorDetail(status).shard(), "shard 1");
  }
}

}  // namespace
}  // namespace millrace::storage
