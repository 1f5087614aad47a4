// The index in the cache folder: when it is used, when the folder is listed
// again, and what happens without one.

#include "server/storage/imagefolder/index_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "common/usage_error.h"
#include "server/storage/imagefolder/content_index.h"
#include "server/storage/imagefolder/folder_scan.h"
#include "tests/server/storage/imagefolder/image_tree.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class IndexCacheTest : public ::testing::Test {
 protected:
  IndexCacheTest() {
    tree_.AddAll({"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"});
    options_.cache_dir = tree_.cache();
  }

  // The index that is found; the log goes to log_.
  FolderIndex Find(IndexUse use = IndexUse::kCached) {
    ::testing::internal::CaptureStderr();
    auto index = FindFolderIndex(tree_.path(), options_, use, &room_);
    log_ = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(index.ok()) << index.status();
    return index.ok() ? *std::move(index) : FolderIndex();
  }
  void ExpectListed() { EXPECT_THAT(log_, HasSubstr("listed 3 files")); }
  void ExpectCached() {
    EXPECT_THAT(log_,
                AllOf(HasSubstr("3 files by the index"), Not(HasSubstr("listed "
                                                                       "3"))));
  }

  ImageTree tree_;
  OpenSourceOptions options_;
  ByteBudget::Reservation room_;
  std::string log_;
};

TEST_F(IndexCacheTest, TheFolderIsListedOnce) {
  const FolderIndex listed = Find();
  ExpectListed();
  tree_.LetIndexSettle();
  const FolderIndex cached = Find();
  ExpectCached();
  EXPECT_EQ(cached.listing_sum, listed.listing_sum);
  EXPECT_EQ(DescribeFolder(cached).fingerprint(),
            DescribeFolder(listed).fingerprint());
  Find(IndexUse::kFresh);
  ExpectListed();
}

// The clock of a file system has steps: a file that came within one of them
// would never be noticed.
TEST_F(IndexCacheTest, AFolderThatHasJustChangedIsListedAgain) {
  Find();
  Find();
  ExpectListed();
  EXPECT_THAT(log_, HasSubstr("changed shortly before it was listed"));
}

TEST_F(IndexCacheTest, AChangedFolderIsListedAgain) {
  Find();
  int64_t files = 3;
  for (const char* added : {"cat/3.jpg", "dog/deep/1.jpg", "dog/deep/2.jpg"}) {
    tree_.LetIndexSettle();
    tree_.Add(added);
    EXPECT_EQ(Find().files.size(), ++files) << added;
    EXPECT_EQ(tree_.Index().files.size(), files) << added;
    EXPECT_THAT(log_, AllOf(HasSubstr("is outdated: folder "),
                            HasSubstr(" has changed")))
        << added;
  }
  tree_.LetIndexSettle();
  std::filesystem::remove_all(tree_ / "dog/deep");
  EXPECT_EQ(Find().files.size(), 4);
}

// As a copy does that keeps times (rsync -a, tar): only the time of the last
// attribute change, which no program sets, tells.
TEST_F(IndexCacheTest, ATimeThatWasSetBackHidesNothing) {
  Find();
  tree_.LetIndexSettle();
  const std::string folder = tree_ / "cat";
  struct stat info;
  ASSERT_EQ(stat(folder.c_str(), &info), 0);
  tree_.Add("cat/3.jpg");
  const struct timespec times[2] = {info.st_atim, info.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, folder.c_str(), times, 0), 0);
  EXPECT_EQ(Find().files.size(), 4);
}

TEST_F(IndexCacheTest, ADamagedIndexIsMadeAnew) {
  Find();
  tree_.LetIndexSettle();
  const std::string whole = ReadFile(tree_.IndexFile());
  std::string changed = whole;
  changed[whole.size() / 2] ^= 1;
  std::string newer = whole;
  newer[8] = 9;
  for (const std::string& bytes :
       {std::string(), whole.substr(0, 30), whole.substr(0, whole.size() - 1),
        changed, newer, std::string(1000, 'x')}) {
    WriteFile(tree_.IndexFile(), bytes);
    EXPECT_EQ(Find().files.size(), 3);
    ExpectListed();
    EXPECT_THAT(log_, HasSubstr("is not used: it is "));
    tree_.LetIndexSettle();
    Find();
    ExpectCached();
  }
}

// Whatever lies in the place of the index is not read as a whole first, and
// its size is no need of the server.
TEST_F(IndexCacheTest, AHugeFileThatIsNoIndexIsIgnored) {
  Find();
  ByteBudget budget(1 << 20);
  options_.metadata_budget = &budget;
  WriteFile(tree_.IndexFile(), "no index");
  std::filesystem::resize_file(tree_.IndexFile(), uint64_t{1} << 40);
  EXPECT_EQ(Find().files.size(), 3);
  ExpectListed();
  EXPECT_THAT(log_, HasSubstr("it does not begin as an index"));
  room_.Release();
}

// None of them may make the server wait.
TEST_F(IndexCacheTest, WhatIsNoFileInThePlaceOfTheIndexIsIgnored) {
  Find();
  const std::string file = tree_.IndexFile();
  std::filesystem::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(Find().files.size(), 3);
  ExpectListed();
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_EQ(Find().files.size(), 3);
  ExpectListed();
  EXPECT_THAT(log_, HasSubstr("the list of files is not kept: "));
  std::filesystem::remove(file);
  ASSERT_EQ(symlink("nothing", file.c_str()), 0);
  EXPECT_EQ(Find().files.size(), 3);
  ExpectListed();
}

// A server that cannot remove an outdated index would use it after each
// restart.
TEST_F(IndexCacheTest, AnOutdatedIndexThatStaysIsLogged) {
  const auto drop = [this] {
    ::testing::internal::CaptureStderr();
    DropFolderIndex(tree_.path(), options_.cache_dir);
    return ::testing::internal::GetCapturedStderr();
  };
  Find();
  const std::string file = tree_.IndexFile();
  EXPECT_THAT(drop(), HasSubstr("removed the index " + file));
  EXPECT_EQ(drop(), "");  // another thread or server was faster
  std::filesystem::create_directory(file);
  EXPECT_THAT(drop(),
              AllOf(HasSubstr("cannot remove the outdated index " + file),
                    HasSubstr("remove the file, or the next start")));
}

// Servers may share a cache folder and start at the same time.
TEST_F(IndexCacheTest, ManyServersListOneFolderAtOnce) {
  std::vector<std::thread> servers;
  std::atomic<int> found{0};
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 8; ++i) {
    servers.emplace_back([&] {
      ByteBudget::Reservation room;
      const auto index =
          FindFolderIndex(tree_.path(), options_, IndexUse::kCached, &room);
      if (index.ok() && index->files.size() == 3) ++found;
    });
  }
  for (std::thread& server : servers) server.join();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(found, 8);
  EXPECT_THAT(log, Not(HasSubstr("is not kept")));
  int files = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(tree_.cache())) {
    ++files;
  }
  EXPECT_EQ(files, 1);  // nothing is left beside the index
  tree_.LetIndexSettle();
  Find();
  ExpectCached();
}

TEST_F(IndexCacheTest, AnIndexOfOtherRulesIsOutdated) {
  Find();
  FolderIndex index = tree_.Index();
  index.rules += 1;
  WriteFile(tree_.IndexFile(), EncodeFolderIndex(index));
  Find();
  EXPECT_THAT(log_, HasSubstr("another version of Millrace"));
  index = tree_.Index();
  index.decoders = "pnm 1.0 abc\n";
  WriteFile(tree_.IndexFile(), EncodeFolderIndex(index));
  Find();
  EXPECT_THAT(log_, HasSubstr("the decoders of --operators differ"));
  // Two paths with one hash.
  index = tree_.Index();
  index.folder = "/other";
  WriteFile(tree_.IndexFile(), EncodeFolderIndex(index));
  EXPECT_EQ(Find().folder, tree_.path());
  EXPECT_THAT(log_, HasSubstr("it is of another folder"));
}

TEST_F(IndexCacheTest, WithoutACacheFolderTheFolderIsListedEachTime) {
  options_.cache_dir = "off";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Find().files.size(), 3);
    ExpectListed();
    EXPECT_THAT(log_, HasSubstr("there is no cache folder"));
  }
  // A file is in the place of the folder.
  WriteFile(tree_ / "no_folder", "");
  options_.cache_dir = tree_ / "no_folder/cache";
  EXPECT_EQ(Find().files.size(), 3);
  EXPECT_THAT(log_, AllOf(HasSubstr("the list of files is not kept: cannot "
                                    "create folder "),
                          HasSubstr("--cache_dir=DIR names another")));
}

TEST_F(IndexCacheTest, ANewCacheFolderIsPrivate) {
  Find();
  struct stat info;
  ASSERT_EQ(stat(tree_.cache().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700);
}

TEST_F(IndexCacheTest, LinksLeadToTheSameIndex) {
  Find();
  const std::string link = tree_.cache() + "/link";
  ASSERT_EQ(symlink(tree_.path().c_str(), link.c_str()), 0);
  const auto real = RealFolder(link + "/");
  ASSERT_TRUE(real.ok()) << real.status();
  EXPECT_EQ(*real, tree_.path());
  EXPECT_TRUE(absl::IsNotFound(RealFolder(tree_ / "none").status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(RealFolder(tree_ / "cat/1.jpg").status()));
}

TEST_F(IndexCacheTest, WarningsAreSaidAtEachStart) {
  tree_.AddAll({"cat/notes.txt", "dog/.hidden.jpg"});
  Find();
  tree_.LetIndexSettle();
  Find();
  ExpectCached();
  EXPECT_THAT(log_,
              AllOf(HasSubstr("cat/notes.txt"), HasSubstr("dog/.hidden.jpg")));
}

TEST_F(IndexCacheTest, BadFilesAndEmptyClassesAreRefused) {
  WriteFile(tree_ / "cat/2.gif", "GIF89a");
  absl::Status status =
      FindFolderIndex(tree_.path(), options_, IndexUse::kCached, &room_)
          .status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cat/2.gif has the name of an image format"),
                    HasSubstr("--skip_bad")));
  std::filesystem::remove(tree_ / "cat/2.gif");
  std::filesystem::create_directory(tree_ / "eel");
  status = FindFolderIndex(tree_.path(), options_, IndexUse::kCached, &room_)
               .status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("eel contains no image"));
}

// One empty file stopped the whole folder, whatever the job's policy for
// damaged samples is. Its warning is said again when the index is used.
TEST_F(IndexCacheTest, AnEmptyFileIsListedWithAWarning) {
  WriteFile(tree_ / "cat/empty.jpg", "");
  const std::string warning =
      "1 empty file becomes a damaged sample, for which a pipeline has its "
      "policy bad_samples: cat/empty.jpg";
  EXPECT_EQ(Find().files.size(), 4);
  EXPECT_THAT(log_, HasSubstr(warning));
  tree_.LetIndexSettle();
  const FolderIndex cached = Find();
  EXPECT_THAT(log_,
              AllOf(HasSubstr("4 files by the index"), HasSubstr(warning)));
  EXPECT_EQ(cached.files.PathOf(2), "cat/empty.jpg");
  EXPECT_EQ(cached.files.bytes(2), 0);
  const auto indexed = IndexImageFolder(tree_.path(), options_, 1, {});
  ASSERT_TRUE(indexed.ok()) << indexed.status();
  EXPECT_THAT(indexed->bad, ElementsAre(tree_ / "cat/empty.jpg"));
}

TEST_F(IndexCacheTest, TheListIsChargedToTheBudget) {
  const FolderIndex listed = Find();
  const uint64_t bytes = ListingBytes(listed.files, listed.folders);
  ByteBudget enough(1 << 20), less(bytes - 1);
  options_.metadata_budget = &enough;
  Find(IndexUse::kFresh);
  EXPECT_EQ(enough.used(), bytes);
  tree_.LetIndexSettle();
  Find();
  ExpectCached();
  EXPECT_EQ(enough.used(), bytes);
  room_.Release();
  EXPECT_EQ(enough.used(), 0);
  options_.metadata_budget = &less;
  uint64_t wanted = 0;
  options_.metadata_advice = [&wanted](uint64_t needed, const DatasetInfo*) {
    wanted = needed;
    return "give it more";
  };
  for (const IndexUse use : {IndexUse::kFresh, IndexUse::kCached}) {
    wanted = 0;
    const absl::Status status =
        FindFolderIndex(tree_.path(), options_, use, &room_).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(IsUsageError(status));
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("the list of 3 files in 3 folders of " +
                                tree_.path() + " needs "),
                      HasSubstr("give it more, or pack the folder")));
    EXPECT_EQ(wanted, bytes);
    EXPECT_EQ(less.used(), 0);
  }
  // What is asked for is enough, by a listing and by an index.
  ByteBudget exact(wanted);
  options_.metadata_budget = &exact;
  Find(IndexUse::kFresh);
  room_.Release();
  Find();
  EXPECT_EQ(exact.used(), bytes);
  room_.Release();  // before the budgets end
}

// A content hash is lost only when the files are not those that were read.
TEST_F(IndexCacheTest, TheContentHashStaysWhileTheFilesDo) {
  const auto indexed = IndexImageFolder(tree_.path(), options_, 3, {});
  ASSERT_TRUE(indexed.ok()) << indexed.status();
  EXPECT_EQ(indexed->file, tree_.IndexFile());
  const std::string sum = indexed->info.shards(0).content_sum();
  EXPECT_EQ(sum.size(), 32);
  tree_.LetIndexSettle();
  EXPECT_EQ(Find().content_sum, sum);
  ExpectCached();
  // A hidden file changes the folder, not the samples.
  tree_.Add("cat/.DS_Store");
  EXPECT_EQ(Find().content_sum, sum);
  ExpectListed();
  tree_.LetIndexSettle();
  tree_.Add("cat/3.jpg");
  EXPECT_EQ(Find().content_sum, "");
  EXPECT_THAT(log_, HasSubstr("the fingerprint of the content is not known"));
}

// `verify` replaced the index, and the second `verify` found nothing to
// compare.
TEST_F(IndexCacheTest, TheContentHashIsKeptForAComparison) {
  const auto indexed = IndexImageFolder(tree_.path(), options_, 3, {});
  ASSERT_TRUE(indexed.ok()) << indexed.status();
  const std::string sum = indexed->info.shards(0).content_sum();
  tree_.LetIndexSettle();
  const std::string bytes = ReadFile(tree_.IndexFile());
  options_.keep_content_index = true;
  std::filesystem::rename(tree_ / "cat/2.jpg", tree_ / "cat/3.jpg");
  const FolderIndex renamed = Find();
  EXPECT_EQ(renamed.content_sum, sum);
  EXPECT_EQ(renamed.files.PathOf(1), "cat/3.jpg");
  EXPECT_EQ(ReadFile(tree_.IndexFile()), bytes);
  tree_.Add("cat/4.jpg");
  const auto more =
      FindFolderIndex(tree_.path(), options_, IndexUse::kCached, &room_);
  EXPECT_TRUE(absl::IsDataLoss(more.status())) << more.status();
  EXPECT_THAT(std::string(more.status().message()),
              AllOf(HasSubstr(tree_.IndexFile()),
                    HasSubstr("of 3 files, and there are 4 files"),
                    HasSubstr("`millrace-data index --input=")));
  EXPECT_EQ(ReadFile(tree_.IndexFile()), bytes);
}

TEST_F(IndexCacheTest, IndexingNeedsACacheFolder) {
  options_.cache_dir = "off";
  const absl::Status status =
      IndexImageFolder(tree_.path(), options_, 1, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(IndexCacheTest, IndexingStopsWhenItIsAsked) {
  const absl::Status status =
      IndexImageFolder(tree_.path(), options_, 1,
                       [](int64_t, int64_t, int64_t) { return false; })
          .status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_TRUE(std::filesystem::is_empty(tree_.cache()));
}

TEST_F(IndexCacheTest, IndexingNamesFilesThatAreNoImages) {
  WriteFile(tree_ / "cat/text.jpg", "not an image");
  int64_t files = 0, all = 0, bytes = 0;
  const auto indexed = IndexImageFolder(
      tree_.path(), options_, 2, [&](int64_t done, int64_t of, int64_t read) {
        files = done;
        all = of;
        bytes = read;
        return true;
      });
  ASSERT_TRUE(indexed.ok()) << indexed.status();
  EXPECT_EQ(indexed->bad_count, 1);
  EXPECT_THAT(indexed->bad, ElementsAre(tree_ / "cat/text.jpg"));
  EXPECT_LE(files, all);
  EXPECT_EQ(all, 4);
  EXPECT_LE(bytes, indexed->info.shards(0).bytes());
}

}  // namespace
}  // namespace millrace::storage
