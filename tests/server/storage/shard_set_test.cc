#include "server/storage/shard_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "server/storage/content_hash.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

constexpr char kId[] = "0123456789abcdef0123456789abcdef";

// Ten samples in three shards: 3, 3, 4.
std::vector<PackedShard> Shards() {
  std::vector<PackedShard> shards;
  for (int i = 0; i < 3; ++i) {
    PackedShard shard;
    shard.path = "/d/" + std::to_string(i);
    shard.bytes = 100 + i;
    ShardMetadata& metadata = shard.metadata;
    metadata.set_format_version(kStorageFormatVersion);
    metadata.set_set_id(kId);
    metadata.set_shard_index(i);
    metadata.set_shard_count(3);
    metadata.set_first_sample(3 * i);
    metadata.set_shard_samples(i == 2 ? 4 : 3);
    metadata.set_total_samples(10);
    *metadata.mutable_schema() = ImageDataset(10).schema();
    metadata.set_content_sum(HashToHex({.low = uint64_t(i + 1)}));
    shards.push_back(shard);
  }
  return shards;
}

absl::StatusOr<DatasetInfo> Join(std::vector<PackedShard> shards) {
  return JoinShards("lmdb", ".lmdb", shards);
}

TEST(ShardSetTest, AWholeSetIsADatasetInAnyOrder) {
  std::vector<PackedShard> shards = Shards();
  do {
    const auto info = Join(shards);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->samples(), 10);
    EXPECT_EQ(info->shards(2).name(), "2");
    EXPECT_EQ(info->shards(2).bytes(), 102);
    EXPECT_EQ(info->fingerprint(),
              DatasetFingerprint(10, ImageDataset(10).schema(), {.low = 6}));
  } while (std::next_permutation(
      shards.begin(), shards.end(),
      [](const auto& a, const auto& b) { return a.path < b.path; }));
}

TEST(ShardSetTest, EachWayNotToFitIsDataLoss) {
  const auto joined_with = [](auto change) {
    std::vector<PackedShard> shards = Shards();
    change(shards);
    return Join(shards).status();
  };
  const std::vector<absl::Status> refused = {
      joined_with([](auto& s) { s.erase(s.begin()); }),
      joined_with([](auto& s) { s.pop_back(); }),
      joined_with([](auto& s) { s.push_back(s[0]); }),
      joined_with([](auto& s) { s[1] = s[0]; }),
      joined_with(
          [](auto& s) { s[1].metadata.set_set_id(std::string(32, 'f')); }),
      joined_with([](auto& s) { s[1].metadata.set_shard_count(4); }),
      joined_with([](auto& s) { s[1].metadata.set_total_samples(11); }),
      joined_with([](auto& s) { s[1].metadata.set_first_sample(4); }),
      joined_with([](auto& s) { s[2].metadata.set_shard_samples(3); }),
      joined_with([](auto& s) {
        s[1].metadata.mutable_schema()->mutable_fields(0)->set_name("x");
      }),
  };
  for (const absl::Status& status : refused) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/d"));
  }
}

TEST(ShardSetTest, DamagedMetadataIsDataLoss) {
  const auto checked_with = [](auto change) {
    ShardMetadata metadata = Shards()[1].metadata;
    change(metadata);
    return CheckShardMetadata("/d/1", metadata);
  };
  EXPECT_TRUE(checked_with([](auto&) {}).ok());
  const std::vector<absl::Status> refused = {
      checked_with([](auto& m) { m.clear_format_version(); }),
      checked_with([](auto& m) { m.set_set_id("x"); }),
      checked_with([](auto& m) { m.set_content_sum("x"); }),
      checked_with([](auto& m) { m.set_shard_index(-1); }),
      checked_with([](auto& m) { m.set_shard_index(3); }),
      checked_with([](auto& m) { m.set_shard_count(0); }),
      checked_with([](auto& m) { m.set_shard_samples(0); }),
      checked_with([](auto& m) { m.set_shard_samples(INT64_MAX); }),
      checked_with([](auto& m) { m.set_first_sample(-1); }),
      checked_with([](auto& m) { m.set_first_sample(INT64_MAX); }),
      checked_with([](auto& m) { m.set_total_samples(2); }),
      checked_with([](auto& m) { m.clear_schema(); }),
  };
  for (const absl::Status& status : refused) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/d/1"));
  }
  EXPECT_TRUE(absl::IsUnimplemented(
      checked_with([](auto& m) { m.set_format_version(2); })));
}

}  // namespace
}  // namespace millrace::storage
