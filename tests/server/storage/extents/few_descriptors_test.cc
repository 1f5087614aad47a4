// Many datasets of many shards in a process that may open few files: all are
// served. A few datasets took all descriptors, and the next one was refused.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/storage/open.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/tar/tar_bytes.h"

namespace millrace::storage {
namespace {

constexpr int kDatasets = 60;
constexpr int kShards = 20;

TEST(FewDescriptorsTest, ManyDatasetsOfManyShardsAreServed) {
  const struct rlimit few = {.rlim_cur = 100, .rlim_max = 100};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const TempFolder folder;
  const auto content = [](int dataset, int shard) {
    return absl::StrCat("sample of shard ", shard, " of ", dataset);
  };
  std::vector<std::string> uris;
  for (int d = 0; d < kDatasets; ++d) {
    const std::string data = folder / absl::StrCat(d);
    std::filesystem::create_directory(data);
    for (int s = 0; s < kShards; ++s) {
      WriteFile(absl::StrCat(data, "/", 10 + s, ".tar"),
                TarMemberBytes("a.txt", content(d, s)) + TarEnd());
    }
    uris.push_back("tar:" + data);
  }
  // The second time by the indexes of the first one.
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<RecordSource>> sources;
    for (const std::string& uri : uris) {
      auto source = OpenRecordSource(uri, {.cache_dir = folder / "cache"});
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_NE((*source)->index_file(), "") << uri;
      sources.push_back(*std::move(source));
    }
    for (int d = 0; d < kDatasets; ++d) {
      const auto samples = ReadAll(*sources[d]);
      ASSERT_TRUE(samples.ok()) << samples.status();
      ASSERT_EQ(samples->size(), kShards);
      for (int s = 0; s < kShards; ++s) {
        EXPECT_EQ((*samples)[s][0], content(d, s));
      }
    }
  }
}

}  // namespace
}  // namespace millrace::storage
