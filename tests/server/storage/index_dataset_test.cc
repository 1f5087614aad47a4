#include "server/storage/index_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/usage_error.h"
#include "server/storage/open.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/tar/tar_bytes.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

class IndexDatasetTest : public ::testing::Test {
 protected:
  IndexDatasetTest() {
    options_.cache_dir = folder_ / "cache";
    WriteFile(folder_ / "a.tar", TarMemberBytes("1.jpg", "one") +
                                     TarMemberBytes("1.cls", "4") + TarEnd());
  }
  absl::StatusOr<IndexedDataset> Index(const std::string& uri,
                                       bool headers_only = false) {
    return IndexDataset(
        uri, options_,
        {.threads = 2, .headers_only = headers_only, .progress = {}});
  }
  std::string Refusal(const std::string& uri, bool headers_only = false) {
    const auto indexed = Index(uri, headers_only);
    EXPECT_TRUE(IsUsageError(indexed.status())) << indexed.status();
    return std::string(indexed.status().message());
  }
  TempFolder folder_;
  OpenSourceOptions options_;
};

TEST_F(IndexDatasetTest, TarShardsWithAndWithoutTheirContent) {
  const std::string uri = absl::StrCat("tar:", folder_ / "a.tar");
  const auto headers = Index(uri, /*headers_only=*/true);
  ASSERT_TRUE(headers.ok()) << headers.status();
  EXPECT_TRUE(std::filesystem::exists(headers->file));
  EXPECT_EQ(headers->info.shards(0).content_sum(), "");
  EXPECT_EQ(headers->info.schema().fields(1).num_classes(), 5);
  const auto content = Index(uri);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(content->file, headers->file);
  EXPECT_NE(content->info.fingerprint(), headers->info.fingerprint());
  const auto source = OpenRecordSource(uri, options_);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->info().SerializeAsString(),
            content->info.SerializeAsString());
}

TEST_F(IndexDatasetTest, HeadersOnlyKeepsTheContentHash) {
  const std::string uri = absl::StrCat("tar:", folder_ / "a.tar");
  const auto content = Index(uri);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_FALSE(content->content_kept);
  const auto kept = Index(uri, /*headers_only=*/true);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_TRUE(kept->content_kept);
  EXPECT_EQ(kept->file, content->file);
  EXPECT_EQ(kept->info.SerializeAsString(), content->info.SerializeAsString());
  const auto source = OpenRecordSource(uri, options_);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->info().fingerprint(), content->info.fingerprint());
  // Also when only attributes have changed, as in the server.
  std::filesystem::permissions(folder_ / "a.tar",
                               std::filesystem::perms::owner_read);
  const auto attributes = Index(uri, /*headers_only=*/true);
  ASSERT_TRUE(attributes.ok()) << attributes.status();
  EXPECT_TRUE(attributes->content_kept);
  EXPECT_EQ(attributes->info.fingerprint(), content->info.fingerprint());
  // Not of other bytes.
  std::filesystem::remove(folder_ / "a.tar");
  WriteFile(folder_ / "a.tar", TarMemberBytes("1.jpg", "two") +
                                   TarMemberBytes("1.cls", "4") + TarEnd());
  const auto changed = Index(uri, /*headers_only=*/true);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_FALSE(changed->content_kept);
  EXPECT_EQ(changed->info.shards(0).content_sum(), "");
}

TEST_F(IndexDatasetTest, FormatsWithoutIndexAreRefused) {
  EXPECT_THAT(Refusal("lmdb:/data"), HasSubstr("lmdb: needs no index"));
  EXPECT_THAT(Refusal("imagefolder:/data", true),
              HasSubstr("--headers_only is for records in files"));
  EXPECT_THAT(Refusal("zip:/data"), HasSubstr("unknown storage format 'zip'"));
  EXPECT_THAT(Refusal("/data/a.tar"), HasSubstr("tar:/data/a.tar"));
}

TEST_F(IndexDatasetTest, WithoutACacheFolderThereIsNoIndex) {
  options_.cache_dir = "off";
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Index(absl::StrCat("tar:", folder_ / "a.tar")).status()));
}

}  // namespace
}  // namespace millrace::storage
