// What is special to LMDB: foreign environments, damage inside the file, the
// sharing of environments.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/error_detail.h"
#include "server/storage/lmdb/lmdb_file.h"
#include "server/storage/lmdb/metadata_record.h"
#include "server/storage/open.h"
#include "server/storage/packed_set.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace {
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

TEST_F(LmdbSourceTest, AnotherProgramsFileIsRefused) {
  Modify(folder_ / "d",
         [](MDB_txn* txn, MDB_dbi dbi) { Put(txn, dbi, "key", "value"); });
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

TEST_F(LmdbSourceTest, OneEnvironmentAFileInAProcess) {
  PackImages(5);
  const auto first = LmdbFile::Open(folder_ / "d");
  const auto second = LmdbFile::Open(
      folder_.path() + "/../" +
      folder_.path().substr(folder_.path().rfind('/') + 1) + "/d");
  ASSERT_TRUE(first.ok() && second.ok()) << second.status();
  EXPECT_EQ(first->get(), second->get());
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
}  // namespace millrace
