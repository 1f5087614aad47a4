// What the names of a dataset's files say of it.

#include "server/storage/dataset_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DatasetFilesTest, SaysHowManyFilesAndWhichFolders) {
  EXPECT_EQ(DescribeFiles({"/d/a.parquet"}).Sentence(), "1 file in /d");
  const DatasetFiles files =
      DescribeFiles({"/d/b/1.parquet", "/d/a/1.parquet", "/d/a/2.parquet"});
  EXPECT_EQ(files.Sentence(), "3 files in 2 folders: /d/a, /d/b");
  EXPECT_THAT(files.Warnings(), IsEmpty());
  EXPECT_EQ(DescribeFiles({}).Sentence(), "");
}

TEST(DatasetFilesTest, EnvironmentsOfOtherProgramsAreFound) {
  const auto files =
      FindDatasetFiles("lmdb:tests/testdata/foreign_lmdb/classes?label=prefix");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->files,
              ElementsAre(::testing::EndsWith("classes/data.mdb")));
  // A folder of environments, and options with letters of a path.
  const auto folder = FindDatasetFiles(
      "lmdb:tests/testdata/foreign_lmdb?label_key={key}.cls&db=a/b");
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_THAT(folder->files,
              AllOf(Contains(::testing::EndsWith("classes/data.mdb")),
                    Contains(::testing::EndsWith("texts/data.mdb")),
                    Contains(::testing::EndsWith("/named.mdb"))));
  // Errors are those of shards.
  EXPECT_TRUE(absl::IsNotFound(FindDatasetFiles("lmdb:/no/such").status()));
}

TEST(DatasetFilesTest, PartsThatWerePutTogetherAreNamed) {
  for (const auto& [first, second] :
       {std::pair("/d/train/a.parquet", "/d/test/a.parquet"),
        std::pair("/d/Train.parquet", "/d/test.parquet"),
        std::pair("/d/train-00000-of-00001.parquet", "/d/test_1.parquet"),
        std::pair("/d/split=train/a.parquet", "/d/split=test/a.parquet"),
        std::pair("/train/d/a.parquet", "/train/d/test.parquet")}) {
    EXPECT_THAT(DescribeFiles({first, second}).Warnings(),
                Contains(AllOf(HasSubstr("(test, train)"), HasSubstr(first),
                               HasSubstr(second))))
        << first;
  }
  EXPECT_THAT(
      DescribeFiles({"/d/train/a.parquet", "/d/train/b.parquet"}).Warnings(),
      IsEmpty());
  EXPECT_THAT(
      DescribeFiles({"/d/trains.parquet", "/d/test.parquet"}).Warnings(),
      IsEmpty());
}

TEST(DatasetFilesTest, ValuesInFoldersAreNoFields) {
  EXPECT_THAT(DescribeFiles({"/d/year=2024/month=1/a.parquet",
                             "/d/year=2024/month=2/a.parquet"})
                  .Warnings(),
              ElementsAre(HasSubstr("(year=2024/month=1, year=2024/month=2) "
                                    "are not fields of the dataset")));
  // Nothing was said of a glob inside one folder.
  EXPECT_THAT(
      DescribeFiles({"/d/year=2024/a.parquet", "/d/year=2024/b.parquet"})
          .Warnings(),
      ElementsAre(HasSubstr("(year=2024) are not fields")));
  EXPECT_THAT(DescribeFiles({"/d/2024/a.parquet"}).Warnings(), IsEmpty());
}

}  // namespace
}  // namespace millrace::storage
