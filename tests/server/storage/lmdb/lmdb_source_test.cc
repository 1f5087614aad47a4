// What is special to LMDB: foreign environments, damage inside the file, files
// that change while they are open.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/error_detail.h"
#include "server/storage/lmdb/metadata_record.h"
#include "server/storage/open.h"
#include "server/storage/shard_set.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

// Runs `body` in a write transaction of the environment in `path`.
void Modify(const std::string& path,
            const std::function<void(MDB_txn*, MDB_dbi)>& body) {
  MDB_env* env;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_set_mapsize(env, 64 << 20), 0);
  ASSERT_EQ(mdb_env_open(env, path.c_str(), MDB_NOSUBDIR | MDB_NOLOCK, 0644),
            0);
  MDB_txn* txn;
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  MDB_dbi dbi;
  ASSERT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
  body(txn, dbi);
  ASSERT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
}

void Put(MDB_txn* txn, MDB_dbi dbi, std::string key, std::string value) {
  MDB_val k{.mv_size = key.size(), .mv_data = key.data()};
  MDB_val v{.mv_size = value.size(), .mv_data = value.data()};
  ASSERT_EQ(mdb_put(txn, dbi, &k, &v, 0), 0);
}

std::string RowKey(uint64_t row) { return Scalar(__builtin_bswap64(row)); }

class LmdbSourceTest : public ::testing::Test {
 protected:
  std::string Uri() const { return absl::StrCat("lmdb:", folder_ / "d"); }
  void PackImages(int64_t n) {
    ASSERT_TRUE(Pack(Uri(), ImageDataset(n), ImageSamples(n)).ok());
  }
  absl::Status ReadOne(int64_t index) {
    const auto source = OpenRecordSource(Uri(), {});
    if (!source.ok()) return source.status();
    const auto reader = (*source)->NewReader();
    return (*reader)->Read(
        index, [](const EncodedSample&) { return absl::OkStatus(); });
  }
  TempFolder folder_;
};

// Of an interrupted packing: it has rows, and nothing says what they are.
TEST_F(LmdbSourceTest, RowsWithoutMetadataAreRefused) {
  Modify(folder_ / "d",
         [](MDB_txn* txn, MDB_dbi dbi) { Put(txn, dbi, RowKey(0), "value"); });
  const auto source = OpenRecordSource(Uri(), {});
  EXPECT_TRUE(absl::IsDataLoss(source.status())) << source.status();
  EXPECT_THAT(std::string(source.status().message()),
              HasSubstr("without Millrace's metadata"));
}

TEST_F(LmdbSourceTest, AnEmptyEnvironmentIsRefused) {
  Modify(folder_ / "d", [](MDB_txn*, MDB_dbi) {});
  EXPECT_TRUE(absl::IsDataLoss(OpenRecordSource(Uri(), {}).status()));
}

TEST_F(LmdbSourceTest, AFileWithoutItsMetadataIsRefused) {
  PackImages(20);
  Modify(folder_ / "d", [](MDB_txn* txn, MDB_dbi dbi) {
    MDB_val key{.mv_size = kMetadataKey.size(),
                .mv_data = const_cast<char*>(kMetadataKey.data())};
    ASSERT_EQ(mdb_del(txn, dbi, &key, nullptr), 0);
  });
  EXPECT_TRUE(absl::IsDataLoss(OpenRecordSource(Uri(), {}).status()));
}

TEST_F(LmdbSourceTest, ALostRowIsSeenAtOpen) {
  PackImages(20);
  Modify(folder_ / "d", [](MDB_txn* txn, MDB_dbi dbi) {
    std::string key = RowKey(7);
    MDB_val k{.mv_size = key.size(), .mv_data = key.data()};
    ASSERT_EQ(mdb_del(txn, dbi, &k, nullptr), 0);
  });
  const auto source = OpenRecordSource(Uri(), {});
  EXPECT_TRUE(absl::IsDataLoss(source.status()));
  EXPECT_THAT(std::string(source.status().message()),
              HasSubstr("19 samples instead of 20"));
}

TEST_F(LmdbSourceTest, ADamagedRowNamesItsPlaceAndLeavesTheOthers) {
  PackImages(20);
  Modify(folder_ / "d", [](MDB_txn* txn, MDB_dbi dbi) {
    Put(txn, dbi, RowKey(7), "short");
    Put(txn, dbi, RowKey(8),
        absl::StrCat(Scalar<int64_t>(99), Scalar<uint32_t>(0)));
  });
  for (int64_t row : {7, 8}) {
    const absl::Status status = ReadOne(row);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(GetErrorDetail(status).shard(), "d");
    EXPECT_EQ(GetErrorDetail(status).row(), row);
  }
  EXPECT_THAT(std::string(ReadOne(8).message()), HasSubstr("class 99"));
  EXPECT_TRUE(ReadOne(6).ok());
  EXPECT_TRUE(ReadOne(9).ok());
}

TEST_F(LmdbSourceTest, ANewerVersionIsUnimplemented) {
  PackImages(5);
  ShardMetadata metadata;
  metadata.set_format_version(kStorageFormatVersion + 1);
  Modify(folder_ / "d", [&](MDB_txn* txn, MDB_dbi dbi) {
    Put(txn, dbi, std::string(kMetadataKey), EncodeMetadataRecord(metadata));
  });
  const auto source = OpenRecordSource(Uri(), {});
  EXPECT_TRUE(absl::IsUnimplemented(source.status())) << source.status();
}

// A process may have read a file before another one takes its name.
TEST_F(LmdbSourceTest, AFileThatWasReplacedIsOpenedAnew) {
  PackImages(5);
  const auto first = OpenRecordSource(Uri(), {});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(
      Pack(Uri(), ImageDataset(9), ImageSamples(9), {.overwrite = true}).ok());
  const auto second = OpenRecordSource(Uri(), {});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*ReadAll(**first), ImageSamples(5));
  EXPECT_EQ(*ReadAll(**second), ImageSamples(9));
  EXPECT_TRUE((*first)->CheckFiles().ok());
}

// LMDB answered with MDB_MAP_RESIZED, for ever, in a process that had the file
// open.
TEST_F(LmdbSourceTest, AFileThatAnotherWriterGrewIsOpenedAnew) {
  PackImages(20);
  const auto before = OpenRecordSource(Uri(), {});
  ASSERT_TRUE(before.ok()) << before.status();
  Modify(folder_ / "d", [](MDB_txn* txn, MDB_dbi dbi) {
    Put(txn, dbi, RowKey(7), std::string(2 << 20, 'x'));
  });
  const absl::Status changed = (*before)->CheckFiles();
  EXPECT_TRUE(absl::IsUnavailable(changed)) << changed;
  EXPECT_THAT(std::string(changed.message()), HasSubstr("grew from"));
  EXPECT_EQ(GetErrorDetail(changed).shard(), "d");
  const auto after = OpenRecordSource(Uri(), {});
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE((*after)->CheckFiles().ok());
  EXPECT_TRUE(ReadOne(6).ok());
  EXPECT_TRUE(absl::IsDataLoss(ReadOne(7)));
}

// Not as a damaged sample, which a policy may replace.
TEST_F(LmdbSourceTest, ReadingAFileThatHasChangedSaysSo) {
  PackImages(300);
  const auto source = OpenRecordSource(Uri(), {});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(truncate((folder_ / "d").c_str(), 2 * 4096), 0);
  const absl::Status status = ReadAll(**source).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr((folder_ / "d") + " was truncated from "));
}

// Of a set of many files those are asked that samples were read of.
TEST_F(LmdbSourceTest, OnlyTheFilesOfTheSamplesMatter) {
  ASSERT_TRUE(
      Pack(Uri(), ImageDataset(60), ImageSamples(60), {.shards = 6}).ok());
  const auto source = OpenRecordSource(Uri(), {});
  ASSERT_TRUE(source.ok()) << source.status();
  const std::string shard = (*source)->info().shards(3).name();
  ASSERT_EQ(truncate((folder_ / ("d/" + shard)).c_str(), 4096), 0);
  EXPECT_TRUE((*source)->CheckFilesOf({-1, 0, 5, 29, 40, 59}).ok());
  const absl::Status status = (*source)->CheckFilesOf({0, 30});
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(GetErrorDetail(status).shard(), shard);
  EXPECT_TRUE(absl::IsUnavailable((*source)->CheckFiles()));
}

// 3 of 60 such files ended the process.
TEST_F(LmdbSourceTest, DamageAtRestIsAnErrorOrAnotherValue) {
  PackImages(400);
  const std::string whole = ReadFile(folder_ / "d");
  int refused = 0, damaged = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    std::string bytes = whole;
    // Some pages, wholly or a few bytes of each.
    for (int i = 0; i < 8; ++i) {
      const size_t page = random() % (bytes.size() / 4096) * 4096;
      const size_t count = seed % 2 == 0 ? 4096 : 40;
      for (size_t at = 0; at < count; ++at) {
        bytes[page + at] = static_cast<char>(random());
      }
    }
    WriteFile(folder_ / "damaged", bytes);
    const auto source =
        OpenRecordSource(absl::StrCat("lmdb:", folder_ / "damaged"), {});
    if (!source.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(source.status())) << source.status();
      EXPECT_THAT(std::string(source.status().message()),
                  HasSubstr(folder_ / "damaged"));
      ++refused;
      continue;
    }
    const auto reader = (*source)->NewReader();
    for (int64_t index = 0; index < 400; ++index) {
      uint64_t sum = 0;
      const absl::Status status =
          (*reader)->Read(index, [&sum](const EncodedSample& sample) {
            for (const auto& field : sample.fields) {
              for (const uint8_t byte : field) sum += byte;
            }
            return absl::OkStatus();
          });
      if (status.ok()) continue;
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_EQ(GetErrorDetail(status).shard(), "damaged");
      ++damaged;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(damaged, 0);
}

TEST_F(LmdbSourceTest, ReadersOnManyThreadsSeeTheSame) {
  PackImages(300);
  const auto source = OpenRecordSource(Uri(), {});
  ASSERT_TRUE(source.ok());
  const Samples expected = ImageSamples(300);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto reader = (*source)->NewReader();
      for (int64_t i = 0; i < 600; ++i) {
        const int64_t index = (i * 37 + t * 11) % 300;
        const absl::Status status =
            (*reader)->Read(index, [&](const EncodedSample& sample) {
              EXPECT_EQ(
                  std::string(sample.fields[0].begin(), sample.fields[0].end()),
                  expected[index][0]);
              return absl::OkStatus();
            });
        EXPECT_TRUE(status.ok()) << status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace millrace::storage
