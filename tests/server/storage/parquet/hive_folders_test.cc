// Datasets of several Parquet files: hive folders, lists in braces, and folders
// of files with any name. The hive folder of tests/testdata/arrow is DuckDB's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/storage/dataset_files.h"
#include "server/storage/open.h"
#include "server/storage/parquet/parquet_paths.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kHive[] = "tests/testdata/arrow/hive";
// n = 0, 2 in year=2020/part=a b; 1 in 2021/a b; 4, 6 in 2020/c; 3, 5 in
// 2021/c.
constexpr int64_t kNumbers[] = {0, 2, 4, 6, 1, 3, 5};

TEST(HiveFoldersTest, FoldersOfDuckDbBecomeFields) {
  for (const std::string& path :
       {std::string(kHive), absl::StrCat(kHive, "/*/*/*.parquet"),
        absl::StrCat(kHive, "/year={2020..2021}/*/*")}) {
    const auto source = OpenRecordSource("parquet:" + path, {});
    ASSERT_TRUE(source.ok()) << source.status();
    const Schema& schema = (*source)->info().schema();
    ASSERT_EQ(schema.fields_size(), 4) << path;
    EXPECT_EQ(schema.fields(2).name(), "year");
    EXPECT_EQ(schema.fields(2).num_classes(), 0);
    EXPECT_EQ(schema.fields(3).name(), "part");
    EXPECT_THAT(schema.fields(3).class_names(), ElementsAre("a b", "c"));
    const auto samples = ReadAll(**source);
    ASSERT_TRUE(samples.ok()) << samples.status();
    ASSERT_THAT(*samples, SizeIs(7));
    for (size_t i = 0; i < 7; ++i) {
      const int64_t n = kNumbers[i];
      EXPECT_EQ((*samples)[i][0], Scalar(n)) << path;
      EXPECT_EQ((*samples)[i][2], Scalar<int64_t>(2020 + n % 2));
      EXPECT_EQ((*samples)[i][3], Scalar<int64_t>(n < 3 ? 0 : 1));
    }
    // Files of different folders have one name.
    for (const auto& shard : (*source)->info().shards()) {
      EXPECT_THAT(shard.name(), HasSubstr("year=202")) << path;
    }
    const auto files = FindDatasetFiles("parquet:" + path);
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_THAT(files->Warnings(), IsEmpty());
  }
}

TEST(HiveFoldersTest, FieldsOfFoldersCanBeReadAlone) {
  const auto source = OpenRecordSource(absl::StrCat("parquet:", kHive), {});
  ASSERT_TRUE(source.ok()) << source.status();
  const auto reader = *(*source)->NewReader();
  for (const bool column : {false, true}) {
    const std::vector<bool> used = {column, false, true, false};
    EXPECT_TRUE((*source)->CheckFields(used).ok());
    ASSERT_TRUE(reader->UseFields(used).ok());
    EXPECT_TRUE(reader
                    ->Read(5,
                           [&](const EncodedSample& sample) {
                             EXPECT_EQ(sample.fields[0].size(), column ? 8 : 0);
                             int64_t year = 0;
                             memcpy(&year, sample.fields[2].data(), 8);
                             EXPECT_EQ(year, 2021);
                             return absl::OkStatus();
                           })
                    .ok());
  }
}

TEST(HiveFoldersTest, TheFixedPartOfThePathGivesNoField) {
  const std::string path = absl::StrCat("parquet:", kHive, "/year=2020");
  const auto source = OpenRecordSource(path, {});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->info().schema().fields_size(), 3);
  // It is no secret, though.
  EXPECT_THAT(FindDatasetFiles(path)->Warnings(),
              ElementsAre(HasSubstr("year=2020")));
}

class HivePathsTest : public ::testing::Test {
 protected:
  void Make(const std::string& path, const std::string& bytes = "PAR1") {
    std::filesystem::create_directories(
        std::filesystem::path(folder_ / path).parent_path());
    WriteFile(folder_ / path, bytes);
  }
  absl::StatusOr<Partitions> Read(const std::set<std::string>& columns = {}) {
    const auto found = FindParquetFiles(folder_.path());
    if (!found.ok()) return found.status();
    return ReadPartitions(*found, columns);
  }
  std::string Error() {
    const auto read = Read();
    EXPECT_FALSE(read.ok());
    return std::string(read.status().message());
  }
  std::vector<std::string> Names() {
    const auto found = FindParquetFiles(folder_.path());
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> names;
    if (!found.ok()) return names;
    for (const std::string& file : found->files) {
      names.push_back(file.substr(folder_.path().size() + 1));
    }
    return names;
  }
  TempFolder folder_;
};

TEST_F(HivePathsTest, ValuesAreEscapedAndNumbersOrClasses) {
  Make("a=1/b=x%2Fy/p.parquet");
  Make("a=-7/b=%/p.parquet");
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_THAT(read->fields, SizeIs(2));
  EXPECT_THAT(read->fields[1].class_names(), ElementsAre("%", "x/y"));
  EXPECT_THAT(read->values, ElementsAre(ElementsAre(-7, 0), ElementsAre(1, 1)));
}

TEST_F(HivePathsTest, AColumnOfTheFilesIsNoFieldOfFolders) {
  Make("a=1/b=2/p.parquet");
  const auto read = Read({"a"});
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_THAT(read->fields, SizeIs(1));
  EXPECT_EQ(read->fields[0].name(), "b");
}

TEST_F(HivePathsTest, OtherKeysAndMissingValuesAreRefused) {
  Make("a=1/p.parquet");
  Make("b=1/p.parquet");
  EXPECT_THAT(Error(), HasSubstr("is in folders with the keys b"));
  std::filesystem::remove_all(folder_ / "b=1");
  Make("p.parquet");
  EXPECT_THAT(Error(), HasSubstr("the keys none"));
  std::filesystem::remove(folder_ / "p.parquet");
  Make("a=__HIVE_DEFAULT_PARTITION__/p.parquet");
  EXPECT_THAT(Error(), HasSubstr("is missing"));
  std::filesystem::remove_all(folder_ / "a=__HIVE_DEFAULT_PARTITION__");
  Make("a=\xFF/p.parquet");
  EXPECT_THAT(Error(), HasSubstr("is not UTF-8"));
}

TEST_F(HivePathsTest, OtherFoldersWithShardsAreRefused) {
  Make("a=1/p.parquet");
  Make("more/p.parquet");
  EXPECT_THAT(Error(), HasSubstr("is in a folder below"));
}

TEST_F(HivePathsTest, ALoopOfLinksEnds) {
  Make("a=1/p.parquet");
  std::filesystem::create_directory_symlink(folder_.path(),
                                            folder_ / "a=1/b=2");
  EXPECT_THAT(Error(), HasSubstr("loop of links"));
}

TEST_F(HivePathsTest, FilesOfAnyNameWhereNoneHasTheSuffix) {
  Make("part-0", "PAR1 and so on");
  Make("part-1", "PAR1 and so on");
  Make("_SUCCESS", "");
  Make("_metadata", "PAR1 and so on");
  Make(".part-1.crc", "PAR1");
  Make("README", "text");
  EXPECT_THAT(Names(), ElementsAre("part-0", "part-1"));
  Make("b.pq", "x");
  EXPECT_THAT(Names(), ElementsAre("b.pq"));
  Make("a.parquet", "x");
  EXPECT_THAT(Names(), ElementsAre("a.parquet", "b.pq"));
}

}  // namespace
}  // namespace millrace::storage
