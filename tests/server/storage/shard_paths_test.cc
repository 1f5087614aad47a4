#include "server/storage/shard_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FindShardsTest, AFileIsItself) {
  TempFolder folder;
  WriteFile(folder / "any name", "x");
  const auto found = FindShards(folder / "any name", ".lmdb");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->one_file);
  EXPECT_THAT(found->files, ElementsAre(folder / "any name"));
}

TEST(FindShardsTest, ARangeGivesItsFilesInTheOrderOfTheNumbers) {
  TempFolder folder;
  for (const char* name : {"s-8.tar", "s-9.tar", "s-10.tar", "s-11.tar"}) {
    WriteFile(folder / name, "x");
  }
  const auto found = FindShards(folder / "s-{8..10}.tar", ".tar");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->files, ElementsAre(folder / "s-8.tar", folder / "s-9.tar",
                                        folder / "s-10.tar"));
  EXPECT_FALSE(found->one_file);
  const auto missing = FindShards(folder / "s-{7..9}.tar", ".tar");
  EXPECT_TRUE(absl::IsNotFound(missing.status())) << missing.status();
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr(folder / "s-7.tar"));
  EXPECT_TRUE(
      absl::IsInvalidArgument(FindShards(folder / "{9..8}", ".tar").status()));
  // A range of globs, and a file whose name only looks like a range.
  EXPECT_EQ(FindShards(folder / "s-{8..9}*", ".tar")->files.size(), 2);
  WriteFile(folder / "{0..1}", "x");
  EXPECT_TRUE(FindShards(folder / "{0..1}", ".tar")->one_file);
}

TEST(FindShardsTest, AMissingPathSaysWhatFits) {
  TempFolder folder;
  const auto message = [&](const std::string& name, absl::string_view suffix) {
    const absl::Status status = FindShards(folder / name, suffix).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(message("a", ".tar"),
            "there is no file or folder " + folder / "a" + "; check the path");
  EXPECT_EQ(message("a", ".lmdb"),
            "there is no file or folder " + folder / "a" +
                "; check the path, or write the dataset with `millrace-data "
                "pack`");
}

TEST(FindShardsTest, ListsInBraces) {
  TempFolder folder;
  for (const char* name : {"b-1.tar", "a-2.tar", "a-1.tar", "c.tar"}) {
    WriteFile(folder / name, "");
  }
  EXPECT_THAT(
      FindShards(folder / "{b,a}-*.tar", ".tar")->files,
      ElementsAre(folder / "b-1.tar", folder / "a-1.tar", folder / "a-2.tar"));
  const auto missing = FindShards(folder / "{c,d}.tar", ".tar").status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("d.tar"));
  const auto twice = FindShards(folder / "{a,a-1}*.tar", ".tar").status();
  EXPECT_TRUE(absl::IsInvalidArgument(twice)) << twice;
  EXPECT_THAT(std::string(twice.message()), HasSubstr("a-1.tar twice"));
}

TEST(FindShardsTest, AFolderGivesItsShardsInBytewiseOrder) {
  TempFolder folder;
  for (const char* name : {"b.lmdb", "a.lmdb", "B.lmdb", "c.parquet", "notes",
                           ".a.lmdb.1.tmp", ".hidden.lmdb"}) {
    WriteFile(folder / name, "x");
  }
  std::filesystem::create_directory(folder / "papers");
  WriteFile(folder / "papers/readme", "x");
  std::filesystem::create_directory(folder / ".old");
  WriteFile(folder / ".old/e.lmdb", "x");
  std::filesystem::create_symlink(folder / "a.lmdb", folder / "l.lmdb");
  std::filesystem::create_symlink(folder / "nothing", folder / "dead link");
  const auto found = FindShards(folder.path(), ".lmdb");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->one_file);
  EXPECT_THAT(found->files, ElementsAre(folder / "B.lmdb", folder / "a.lmdb",
                                        folder / "b.lmdb", folder / "l.lmdb"));
}

// Each of these was passed over, and its samples were missing.
TEST(FindShardsTest, WhatIsNamedLikeAShardAndIsNoFileIsRefused) {
  for (const bool by_glob : {false, true}) {
    TempFolder folder;
    WriteFile(folder / "b.parquet", "x");
    const std::string bad = folder / "a.parquet";
    const auto message = [&] {
      const auto found =
          FindShards(by_glob ? folder / "*" : folder.path(), ".parquet");
      EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << found.status();
      return std::string(found.status().message());
    };
    std::filesystem::create_symlink(folder / "nothing", bad);
    EXPECT_THAT(message(), HasSubstr(bad + " is a link to a file that does"));
    std::filesystem::remove(bad);
    std::filesystem::create_symlink(bad, bad);
    EXPECT_THAT(message(), HasSubstr(bad + " is a link that leads back to"));
    std::filesystem::remove(bad);
    ASSERT_EQ(mkfifo(bad.c_str(), 0600), 0);
    EXPECT_THAT(message(), HasSubstr(bad + " is not a regular file"));
    std::filesystem::remove(bad);
    std::filesystem::create_directory(bad);
    EXPECT_THAT(message(), HasSubstr(bad + " is a folder, not a shard"));
    std::filesystem::remove(bad);
    EXPECT_TRUE(FindShards(folder.path(), ".parquet").ok());
  }
}

TEST(FindShardsTest, OtherSpellingsOfTheSuffixAreRefused) {
  for (const char* name : {"a.parq", "a.pq", "a.PARQUET", "a.Parquet"}) {
    TempFolder folder;
    WriteFile(folder / "b.parquet", "x");
    WriteFile(folder / name, "x");
    const auto found = FindShards(folder.path(), ".parquet");
    EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << found.status();
    EXPECT_THAT(std::string(found.status().message()),
                AllOf(HasSubstr((folder / name) + " has the name of a shard"),
                      HasSubstr(folder / "*.parquet excludes it")));
    // A glob says which files are meant.
    const auto some = FindShards(folder / "*.parquet", ".parquet");
    ASSERT_TRUE(some.ok()) << some.status();
    EXPECT_THAT(some->files, ElementsAre(folder / "b.parquet"));
    const auto all = FindShards(folder / "*", ".parquet");
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(all->files.size(), 2u);
  }
}

TEST(FindShardsTest, ShardsInNestedFoldersAreRefused) {
  TempFolder folder;
  WriteFile(folder / "b.parquet", "x");
  std::filesystem::create_directories(folder / "year=1/day=2");
  for (const char* path : {"", "*"}) {
    EXPECT_TRUE(FindShards(folder / path, ".parquet").ok());
  }
  WriteFile(folder / "year=1/day=2/c.parquet", "x");
  for (const char* path : {"", "*"}) {
    const auto found = FindShards(folder / path, ".parquet");
    EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << found.status();
    EXPECT_THAT(std::string(found.status().message()),
                AllOf(HasSubstr("year=1/day=2/c.parquet is in a folder"),
                      HasSubstr("year=1/day=2/*.parquet selects its folder")));
  }
  EXPECT_TRUE(FindShards(folder / "*.parquet", ".parquet").ok());
}

TEST(FindShardsTest, AGlobGivesWhatItMatches) {
  TempFolder folder;
  for (const char* name : {"x-2", "x-1", "y-1"}) WriteFile(folder / name, "x");
  const auto found = FindShards(folder / "x-*", ".lmdb");
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(found->files, ElementsAre(folder / "x-1", folder / "x-2"));
}

TEST(FindShardsTest, AFileWhoseNameLooksLikeAGlobIsAFile) {
  TempFolder folder;
  WriteFile(folder / "x[1]", "x");
  EXPECT_TRUE(FindShards(folder / "x[1]", ".lmdb").ok());
}

TEST(FindShardsTest, WhatLiesThereInsteadIsSaid) {
  TempFolder folder;
  const auto message = [&] {
    const auto found = FindShards(folder.path(), ".lmdb");
    EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << found.status();
    return std::string(found.status().message());
  };
  EXPECT_THAT(message(), HasSubstr("name a shard file"));
  WriteFile(folder / ".a.lmdb.77.tmp", "x");
  EXPECT_THAT(message(), HasSubstr("interrupted"));
  // What an interrupted packing left hid this one.
  WriteFile(folder / "a.parquet", "x");
  EXPECT_THAT(message(),
              HasSubstr("but a.parquet: write parquet:" + folder.path()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(FindShards("/dev/null", ".lmdb").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(FindShards("", ".lmdb").status()));
}

TEST(NumberedNameTest, TakesNamesApart) {
  NumberedName name;
  ASSERT_TRUE(ParseNumberedName(ShardName(2, 40, ".lmdb"), ".lmdb", &name));
  EXPECT_EQ(name.prefix, "part");
  EXPECT_EQ(name.index, 2);
  EXPECT_EQ(name.count, 40);
  for (const char* other :
       {"part-00002-of-00004", "part-0002-of-00004.lmdb", "00002-of-00004.lmdb",
        "part-00002-xx-00004.lmdb", "part-0000x-of-00004.lmdb", ".lmdb"}) {
    EXPECT_FALSE(ParseNumberedName(other, ".lmdb", &name)) << other;
  }
}

TEST(NumberedNameTest, ASetMustBeWholeAndOne) {
  const auto check = [](std::vector<std::string> files) {
    return CheckNumberedNames(files, ".parquet");
  };
  EXPECT_TRUE(check({"/d/a.parquet", "/d/b.parquet"}).ok());
  EXPECT_TRUE(check({"/d/train-00000-of-00002.parquet",
                     "/d/train-00001-of-00002.parquet"})
                  .ok());
  const absl::Status missing = check(
      {"/d/train-00000-of-00003.parquet", "/d/train-00002-of-00003.parquet"});
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("train-00001-of-00003.parquet is missing"));
  const absl::Status mixed = check(
      {"/d/test-00000-of-00001.parquet", "/d/train-00000-of-00001.parquet"});
  EXPECT_THAT(std::string(mixed.message()), HasSubstr("different sets"));
  EXPECT_FALSE(check({"/d/train-00005-of-00003.parquet"}).ok());
}

}  // namespace
}  // namespace millrace::storage
