// Shards that are read as they are, in a server with leases: a program that
// comes after a change of their attributes gets a source that can be read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "server/lease/leased_datasets.h"
#include "server/storage/index_dataset.h"
#include "tests/server/lease/served_files.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/tar/tar_bytes.h"

namespace millrace::lease {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LeasedShardsTest : public ::testing::Test {
 protected:
  LeasedShardsTest() {
    storage::WriteFile(shard_, storage::TarMemberBytes("a.txt", "first") +
                                   storage::TarMemberBytes("b.txt", "second") +
                                   storage::TarEnd());
  }
  std::string uri() const { return "tar:" + shard_; }

  LeasedDataset Acquire(const std::string& uri, const std::string& name = "") {
    const auto held = datasets_.Acquire({uri, name});
    EXPECT_TRUE(held.ok()) << held.status();
    return held.ok() ? *held : LeasedDataset();
  }

  storage::TempFolder folder_;
  const std::string shard_ = folder_ / "0.tar";
  ServedFiles served_{folder_ / "cache"};
  LeasedDatasets datasets_{served_.options()};
};

// The second program got the source of the first one: each read failed because
// the shard was "changed", until the first program ended.
TEST_F(LeasedShardsTest, AShardWithNewPermissionsIsOpenedAgain) {
  const LeasedDataset old = Acquire(uri());
  EXPECT_TRUE(served_.Read(old.name, 0).ok());
  ASSERT_EQ(chmod(shard_.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsDataLoss(served_.Read(old.name, 0)));
  const LeasedDataset fresh = Acquire(uri());
  EXPECT_EQ(fresh.fingerprint, old.fingerprint);
  EXPECT_TRUE(served_.Read(fresh.name, 0).ok());
  EXPECT_EQ(Acquire(uri()).name, fresh.name);  // shared from now on
}

// With the fingerprint of the content, too.
TEST_F(LeasedShardsTest, AnIndexedShardWithANewLinkIsOpenedAgain) {
  ASSERT_TRUE(storage::IndexDataset(uri(), {.cache_dir = folder_ / "cache"},
                                    {.threads = 1})
                  .ok());
  const LeasedDataset old = Acquire(uri());
  std::filesystem::create_hard_link(shard_, folder_ / "link.tar");
  const LeasedDataset fresh = Acquire(uri());
  EXPECT_EQ(fresh.fingerprint, old.fingerprint);
  EXPECT_TRUE(served_.Read(fresh.name, 1).ok());
}

// The copies were one dataset, and the error of one that of both.
TEST_F(LeasedShardsTest, CopiesAreDatasetsOfTheirOwn) {
  const std::string copy = folder_ / "copy" + "/0.tar";
  std::filesystem::create_directory(folder_ / "copy");
  std::filesystem::copy_file(shard_, copy);
  for (const std::string& each : {uri(), "tar:" + copy}) {
    ASSERT_TRUE(storage::IndexDataset(each, {.cache_dir = folder_ / "cache"},
                                      {.threads = 1})
                    .ok());
  }
  const LeasedDataset a = Acquire(uri());
  const LeasedDataset b = Acquire("tar:" + copy);
  EXPECT_EQ(a.fingerprint, b.fingerprint);
  storage::WriteFile(shard_, "another file");
  EXPECT_TRUE(absl::IsDataLoss(served_.Read(a.name, 0)));
  EXPECT_TRUE(served_.Read(b.name, 0).ok());
}

TEST_F(LeasedShardsTest, AChosenNameIsFreeAgainWithItsLastHolder) {
  Acquire(uri(), "mine");
  ASSERT_EQ(chmod(shard_.c_str(), 0600), 0);
  const absl::Status held = datasets_.Acquire({uri(), "mine"}).status();
  EXPECT_EQ(held.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(held.message()),
              AllOf(HasSubstr("`mine`"), HasSubstr(uri()),
                    HasSubstr("were replaced, or had their permissions"),
                    HasSubstr("close the loaders")));
  datasets_.Release("mine");
  Acquire(uri(), "mine");
  EXPECT_TRUE(served_.Read("mine", 0).ok());
}

}  // namespace
}  // namespace millrace::lease
