// `millrace-data index` of Arrow files: the fingerprint of the packed dataset.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/storage/content_record.h"
#include "server/storage/index_dataset.h"
#include "server/storage/open.h"
#include "tests/server/storage/arrow/ipc_testing.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class ArrowIndexTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSamples = 700;

  ArrowIndexTest() {
    std::filesystem::create_directory(folder_ / "d");
    Write(/*changed=*/-1);
  }

  // The samples of ImageDataset() in two files.
  void Write(int64_t changed) {
    const Samples samples = ImageSamples(kSamples);
    std::vector<Photograph> photographs[2];
    for (int64_t i = 0; i < kSamples; ++i) {
      int64_t label = 0;
      memcpy(&label, samples[i][1].data(), sizeof(label));
      photographs[i * 2 / kSamples].push_back(
          {.bytes = samples[i][0],
           .label = i == changed ? (label + 1) % 3 : label});
    }
    for (int f = 0; f < 2; ++f) {
      WritePhotographs(folder_ / absl::StrCat("d/", f, ".arrow"),
                       photographs[f], {"cat", "dog", R"(eel \"x\")"},
                       {.stream = f == 1, .batch_rows = 50});
    }
  }
  DatasetInfo Info() {
    const auto source = OpenRecordSource(uri_, {.cache_dir = folder_ / "c"});
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? (*source)->info() : DatasetInfo();
  }
  absl::StatusOr<IndexedDataset> Index(
      const IndexDatasetOptions& options = {}) {
    return IndexDataset(uri_, {.cache_dir = folder_ / "c"}, options);
  }

  TempFolder folder_;
  const std::string uri_ = absl::StrCat("arrow:", folder_ / "d");
};

TEST_F(ArrowIndexTest, GivesTheFingerprintOfThePackedDataset) {
  const auto packed = Pack(absl::StrCat("lmdb:", folder_ / "p.lmdb"),
                           ImageDataset(kSamples), ImageSamples(kSamples));
  ASSERT_TRUE(packed.ok()) << packed.status();
  const std::string before = Info().fingerprint();
  EXPECT_NE(before, packed->fingerprint());
  for (const uint32_t threads : {1, 4}) {
    const auto indexed = Index({.threads = threads});
    ASSERT_TRUE(indexed.ok()) << indexed.status();
    EXPECT_EQ(indexed->info.fingerprint(), packed->fingerprint());
    EXPECT_THAT(indexed->file, HasSubstr(".mrcontent"));
  }
  const DatasetInfo info = Info();
  EXPECT_EQ(info.fingerprint(), packed->fingerprint());
  EXPECT_THAT(info.shards(1).content_sum(), SizeIs(32));
  // Another file: the record is of no use any more.
  Write(/*changed=*/600);
  EXPECT_NE(Info().fingerprint(), packed->fingerprint());
  EXPECT_EQ(Info().shards(1).content_sum(), "");
}

TEST_F(ArrowIndexTest, ADamagedRecordIsIgnored) {
  const std::string before = Info().fingerprint();
  const auto indexed = Index();
  ASSERT_TRUE(indexed.ok()) << indexed.status();
  const std::string good = ReadFile(indexed->file);
  for (size_t at = 0; at < good.size(); at += 13) {
    std::string bad = good;
    bad[at] = bad[at] == '0' ? '1' : '0';
    WriteFile(indexed->file, bad);
    EXPECT_EQ(Info().fingerprint(), before) << at;
    WriteFile(indexed->file, good.substr(0, at));
    EXPECT_EQ(Info().fingerprint(), before) << at;
  }
  WriteFile(indexed->file, good);
  EXPECT_EQ(Info().fingerprint(), indexed->info.fingerprint());
}

TEST_F(ArrowIndexTest, StopsAndRefuses) {
  int64_t calls = 0;
  const auto stopped = Index({.progress = [&](int64_t, int64_t all, int64_t) {
    EXPECT_EQ(all, kSamples);
    return ++calls < 2;
  }});
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  const auto headers = Index({.headers_only = true});
  EXPECT_TRUE(absl::IsInvalidArgument(headers.status())) << headers.status();
  EXPECT_THAT(std::string(headers.status().message()),
              testing::HasSubstr("not for arrow: files"));
  const auto off = IndexDataset(uri_, {.cache_dir = "off"}, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(off.status())) << off.status();
}

}  // namespace
}  // namespace millrace::storage
