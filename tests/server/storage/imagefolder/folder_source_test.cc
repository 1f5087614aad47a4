// imagefolder: what is read, what memory reading takes, and what happens to
// files that change while they are served: never a byte that the listing did
// not mean.

#include "server/storage/imagefolder/folder_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "common/usage_error.h"
#include "proto/error_detail.h"
#include "server/storage/imagefolder/content_index.h"
#include "server/storage/open.h"
#include "server/storage/sample_files.h"
#include "tests/server/storage/imagefolder/image_tree.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FolderSourceTest : public ::testing::Test {
 protected:
  FolderSourceTest() {
    tree_.AddAll({"cat/1.jpg", "cat/b/2.jpg", "dog/1.jpg"});
    options_.cache_dir = tree_.cache();
  }
  std::unique_ptr<RecordSource> Open() {
    auto source = OpenRecordSource(tree_.uri(), options_);
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? *std::move(source) : nullptr;
  }
  static absl::Status Read(const RecordSource& source, int64_t index,
                           std::string* image = nullptr) {
    const auto reader = source.NewReader();
    return (*reader)->Read(index, [&](const EncodedSample& sample) {
      if (image != nullptr) {
        image->assign(sample.fields[0].begin(), sample.fields[0].end());
      }
      return absl::OkStatus();
    });
  }
  ImageTree tree_;
  OpenSourceOptions options_;
};

TEST_F(FolderSourceTest, GivesTheBytesOfTheFilesAndTheirLabels) {
  const auto source = Open();
  const auto samples = ReadAll(*source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(*samples, (Samples{{"\xFF\xD8\xFF"
                                "cat/1.jpg",
                                Scalar<int64_t>(0)},
                               {"\xFF\xD8\xFF"
                                "cat/b/2.jpg",
                                Scalar<int64_t>(0)},
                               {"\xFF\xD8\xFF"
                                "dog/1.jpg",
                                Scalar<int64_t>(1)}}));
  EXPECT_EQ(source->info().format(), "imagefolder");
  EXPECT_EQ(source->info().shards_size(), 1);
  EXPECT_EQ(source->info().shards(0).name(), "images");
  EXPECT_EQ(source->read_wait(), ReadWait::kRead);
  EXPECT_GT(source->metadata_bytes(), 0);
  EXPECT_EQ(source->sample_files()->FileOf(1), "cat/b/2.jpg");
  EXPECT_EQ(source->BytesOf(1, {true, true}), 14 + 8);
  EXPECT_EQ(source->BytesOf(1, {false, true}), 8);
  for (const int64_t index : {-1, 3}) {
    EXPECT_TRUE(absl::IsOutOfRange(Read(*source, index)));
  }
}

// Two copies have one fingerprint, and a file may change in one of them.
TEST_F(FolderSourceTest, AFolderIsToldFromItsCopyAndFromALaterListing) {
  const auto open = [this](const std::string& path) {
    auto source = OpenRecordSource("imagefolder:" + path, options_);
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  };
  const auto identity = [](const RecordSource& source) {
    return source.FilesIdentity();
  };
  const std::string copy = tree_.path() + ".copy";
  tree_.CopyTo(copy);
  const std::string link = tree_.path() + ".link";
  ASSERT_EQ(symlink(tree_.path().c_str(), link.c_str()), 0);
  const auto source = open(tree_.path());
  const auto other = open(copy);
  EXPECT_EQ(other->info().fingerprint(), source->info().fingerprint());
  EXPECT_NE(identity(*other), identity(*source));
  EXPECT_EQ(identity(*open(link)), identity(*source));
  // The content may be known, and be the same by another listing.
  ASSERT_TRUE(IndexImageFolder(tree_.path(), options_, 1, {}).ok());
  const auto indexed = open(tree_.path());
  const struct timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000, 1}};
  ASSERT_EQ(utimensat(AT_FDCWD, (tree_ / "cat/1.jpg").c_str(), times, 0), 0);
  ASSERT_TRUE(IndexImageFolder(tree_.path(), options_, 1, {}).ok());
  const auto again = open(tree_.path());
  EXPECT_EQ(again->info().fingerprint(), indexed->info().fingerprint());
  EXPECT_NE(identity(*again), identity(*indexed));
}

// One such file stopped the whole folder.
TEST_F(FolderSourceTest, AnEmptyFileIsASampleWithoutBytes) {
  WriteFile(tree_ / "cat/0.jpg", "");
  const auto source = Open();
  EXPECT_EQ(source->info().samples(), 4);
  EXPECT_EQ(source->BytesOf(0, {true, true}), 8);
  std::string image = "untouched";
  EXPECT_TRUE(Read(*source, 0, &image).ok());
  EXPECT_EQ(image, "");
  EXPECT_TRUE(Read(*source, 1, &image).ok());
  // A file that is written late is not the one that was listed.
  WriteFile(tree_ / "cat/0.jpg", "\xFF\xD8\xFF");
  const absl::Status status = Read(*source, 0);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("grew from 0 to 3"));
}

TEST_F(FolderSourceTest, WithoutTheImageNoFileIsOpened) {
  const auto source = Open();
  std::filesystem::remove_all(tree_.path());
  const auto reader = source->NewReader();
  ASSERT_TRUE((*reader)->UseFields({false, true}).ok());
  int64_t label = -1;
  EXPECT_TRUE((*reader)
                  ->Read(2,
                         [&](const EncodedSample& sample) {
                           std::memcpy(&label, sample.fields[1].data(),
                                       sizeof(label));
                           return absl::OkStatus();
                         })
                  .ok());
  EXPECT_EQ(label, 1);
  ASSERT_TRUE((*reader)->UseFields({true, true}).ok());
  EXPECT_TRUE(absl::IsDataLoss((*reader)->Read(
      2, [](const EncodedSample&) { return absl::OkStatus(); })));
}

TEST_F(FolderSourceTest, ErrorsOfTheVisitPassThrough) {
  const auto source = Open();
  const auto reader = source->NewReader();
  EXPECT_TRUE(absl::IsDataLoss((*reader)->Read(0, [](const EncodedSample&) {
    return absl::DataLossError("does not decode");
  })));
  EXPECT_TRUE(source->CheckFiles().ok());
}

TEST_F(FolderSourceTest, PathsThatAreNoFolders) {
  const auto status = [this](const std::string& uri) {
    return OpenRecordSource(uri, options_).status();
  };
  EXPECT_THAT(std::string(status("imagefolder:").message()),
              HasSubstr("write imagefolder:PATH"));
  EXPECT_TRUE(absl::IsNotFound(status(tree_.uri() + "/none")));
  EXPECT_TRUE(absl::IsInvalidArgument(status(tree_.uri() + "/cat/1.jpg")));
  // Without a scheme a folder is not taken for an image folder.
  EXPECT_THAT(std::string(status(tree_.path()).message()),
              HasSubstr("imagefolder:" + tree_.path()));
}

struct Change {
  std::string name;
  std::function<void(const std::string& file)> make;
  std::string says;
};

class ChangedImageTest : public FolderSourceTest,
                         public ::testing::WithParamInterface<Change> {};

// A file of the same size and time would not be noticed: each of these differs.
// The error is that of the sample and not of the server: a client that got
// Unavailable would ask again until its time was over.
TEST_P(ChangedImageTest, IsADamagedSampleAndTheOthersAreRead) {
  const auto source = Open();
  const std::string file = tree_ / "cat/1.jpg";
  ASSERT_TRUE(Read(*source, 0).ok());
  const std::string index = tree_.IndexFile();
  GetParam().make(file);
  if (HasFatalFailure()) return;
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = Read(*source, 0);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(file + " " + GetParam().says),
                      HasSubstr("or restart the data server")));
    EXPECT_EQ(GetErrorDetail(status).shard(), "cat/1.jpg");
    EXPECT_EQ(GetErrorDetail(status).row(), 0);
    EXPECT_EQ(GetErrorDetail(status).sample(), 0);
  }
  EXPECT_TRUE(source->CheckFiles().ok());
  EXPECT_TRUE(Read(*source, 1).ok());
  // The next start lists the folder, which shows nothing of a change in place.
  EXPECT_FALSE(std::filesystem::exists(index));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ChangedImageTest,
    ::testing::Values(
        Change{"Truncated",
               [](const std::string& file) {
                 ASSERT_EQ(truncate(file.c_str(), 5), 0);
               },
               "was truncated from 12 to 5 bytes"},
        Change{"Emptied", [](const std::string& file) { WriteFile(file, ""); },
               "was truncated from 12 to 0 bytes"},
        Change{"Grown",
               [](const std::string& file) {
                 WriteFile(file, std::string(100, 'x'));
               },
               "grew from 12 to 100 bytes"},
        Change{"OverwrittenWithTheSameSize",
               [](const std::string& file) {
                 WriteFile(file, std::string(12, 'x'));
                 // In the same tick of the clock the time would be the same.
                 const struct timespec times[2] = {{0, UTIME_OMIT},
                                                   {1'000'000'000, 1}};
                 ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
               },
               "was overwritten"},
        Change{"Removed",
               [](const std::string& file) { std::filesystem::remove(file); },
               "is no longer there"},
        Change{"ALinkToNothing",
               [](const std::string& file) {
                 std::filesystem::remove(file);
                 ASSERT_EQ(symlink("none", file.c_str()), 0);
               },
               "is no longer there"},
        Change{"ALoop",
               [](const std::string& file) {
                 std::filesystem::remove(file);
                 ASSERT_EQ(symlink("1.jpg", file.c_str()), 0);
               },
               "is no longer there"},
        Change{"AFolder",
               [](const std::string& file) {
                 std::filesystem::remove(file);
                 std::filesystem::create_directory(file);
               },
               "is no longer a regular file"},
        Change{"AFifo",
               [](const std::string& file) {
                 std::filesystem::remove(file);
                 ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
               },
               "is no longer a regular file"},
        Change{"ItsFolderIsAnother",
               [](const std::string& file) {
                 const std::string folder =
                     std::filesystem::path(file).parent_path();
                 std::filesystem::rename(folder + "/b", folder + ".b");
                 std::filesystem::remove_all(folder);
                 std::filesystem::create_directory(folder);
                 std::filesystem::rename(folder + ".b", folder + "/b");
               },
               "is no longer there"}),
    [](const ::testing::TestParamInfo<Change>& info) {
      return info.param.name;
    });

// The fingerprint of the content is known again only after `index`.
TEST_F(FolderSourceTest, AChangedFileOfAnIndexedFolderSaysToIndexIt) {
  ASSERT_TRUE(IndexImageFolder(tree_.path(), options_, 1, {}).ok());
  tree_.LetIndexSettle();
  const auto source = Open();
  WriteFile(tree_ / "cat/1.jpg", "\xFF\xD8\xFF new and longer content");
  EXPECT_THAT(std::string(Read(*source, 0).message()),
              HasSubstr("run `millrace-data index --input=" + tree_.path() +
                        "` again and restart the data server"));
}

TEST_F(FolderSourceTest, AFileThatMayNotBeReadIsADamagedSample) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads every file";
  const auto source = Open();
  const std::string file = tree_ / "cat/1.jpg";
  ASSERT_EQ(chmod(file.c_str(), 0), 0);
  const absl::Status status = Read(*source, 0);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cannot open " + file),
                    HasSubstr("the permission to read the file")));
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  EXPECT_TRUE(Read(*source, 0).ok());
}

TEST_F(FolderSourceTest, AFileThatIsRestoredIsReadAgain) {
  const auto source = Open();
  const std::string file = tree_ / "cat/1.jpg";
  std::filesystem::rename(file, file + ".old");
  EXPECT_TRUE(absl::IsDataLoss(Read(*source, 0)));
  std::filesystem::rename(file + ".old", file);
  std::string image;
  EXPECT_TRUE(Read(*source, 0, &image).ok());
  EXPECT_EQ(image,
            "\xFF\xD8\xFF"
            "cat/1.jpg");
}

// Another folder under the name is not the one that was listed.
TEST_F(FolderSourceTest, AFolderThatIsMovedAwayIsReadOn) {
  const auto source = Open();
  const std::string moved = tree_.path() + ".old";
  std::filesystem::rename(tree_.path(), moved);
  tree_.AddAll({"cat/1.jpg", "cat/b/2.jpg", "dog/1.jpg"});
  WriteFile(tree_ / "cat/1.jpg", "another file");
  std::string image;
  EXPECT_TRUE(Read(*source, 0, &image).ok());
  EXPECT_EQ(image,
            "\xFF\xD8\xFF"
            "cat/1.jpg");
  std::filesystem::remove_all(moved);
}

// A change in place leaves the times of the folders as they are: the index is
// dropped, so that a restart serves the folder as it is now.
TEST_F(FolderSourceTest, ARestartServesTheFolderAsItIsNow) {
  auto source = Open();
  tree_.LetIndexSettle();
  const std::string before = source->info().fingerprint();
  WriteFile(tree_ / "cat/1.jpg", "\xFF\xD8\xFF new and longer content");
  source = Open();
  EXPECT_EQ(source->info().fingerprint(), before);
  EXPECT_TRUE(absl::IsDataLoss(Read(*source, 0)));
  source = Open();
  EXPECT_NE(source->info().fingerprint(), before);
  std::string image;
  EXPECT_TRUE(Read(*source, 0, &image).ok());
  EXPECT_EQ(image, "\xFF\xD8\xFF new and longer content");
}

// While another thread replaces a file again and again, a read gives the listed
// bytes or an error.
TEST_F(FolderSourceTest, ReadsBesideAWriter) {
  tree_.Add("cat/big.jpg");
  const std::string file = tree_ / "cat/big.jpg";
  const std::string listed = "\xFF\xD8\xFF" + std::string(300'000, 'a');
  WriteFile(file, listed);
  // A time that no other write has.
  const struct timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000, 1}};
  ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  const auto source = Open();
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    const std::string other = file + ".new";
    for (int i = 0; !stop; ++i) {
      WriteFile(other, i % 2 == 0 ? listed
                                  : "\xFF\xD8\xFF" + std::string(300'000, 'b'));
      if (i % 2 == 0) utimensat(AT_FDCWD, other.c_str(), times, 0);
      std::filesystem::rename(other, file);
    }
  });
  int good = 0;
  for (int i = 0; i < 2000 && good < 50; ++i) {
    std::string image;
    const absl::Status status = Read(*source, 2, &image);
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
    if (!status.ok()) continue;
    ++good;
    ASSERT_EQ(image, listed);
  }
  stop = true;
  writer.join();
  EXPECT_GT(good, 0);
}

// Files that are read are part of the memory budget: in whatever threads, their
// bytes are never more than what the source has reserved. Each thread once held
// a file beside the budget.
TEST_F(FolderSourceTest, ReadersHoldNoMoreThanTheirPartOfTheBudget) {
  constexpr uint64_t kBytes = 1 << 20;
  for (int i = 0; i < 8; ++i) {
    WriteFile(tree_ / absl::StrCat("cat/large-", i, ".jpg"),
              std::string(kBytes, 'x'));
  }
  ByteBudget reads(2 * kBytes + 4096), lists(3 * kBytes);
  options_.read_budget = &reads;
  options_.read_bytes = reads.capacity();
  options_.metadata_budget = &lists;
  auto source = Open();
  EXPECT_EQ(reads.used(), reads.capacity());
  EXPECT_EQ(lists.used(), source->metadata_bytes());
  EXPECT_GT(lists.used(), kBytes);  // the largest file is always read
  const uint64_t bound = reads.capacity() + lists.used();
  EXPECT_LE(source->unused_bytes(), bound);
  std::atomic<uint64_t> held{0}, most{0};
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      const auto reader = source->NewReader();
      for (int64_t i = 0; i < 33; ++i) {
        const absl::Status status = (*reader)->Read(
            (i + t) % source->info().samples(), [&](const EncodedSample& s) {
              const uint64_t now = held += s.fields[0].size();
              uint64_t before = most;
              while (before < now && !most.compare_exchange_weak(before, now)) {
              }
              for (int spin = 0; spin < 20; ++spin) std::this_thread::yield();
              held -= s.fields[0].size();
              return absl::OkStatus();
            });
        if (!status.ok()) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GE(most, kBytes);
  EXPECT_LE(most, 3 * kBytes + 4096);
  source.reset();
  EXPECT_EQ(reads.used(), 0);
  EXPECT_EQ(lists.used(), 0);
}

// Many image folders may have taken the rest.
TEST_F(FolderSourceTest, WithoutRoomForMoreFilesAreReadOneByOne) {
  ByteBudget none(0);
  options_.read_budget = &none;
  options_.read_bytes = 1 << 20;
  const auto source = Open();
  const auto samples = ReadAll(*source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(samples->size(), 3);
}

TEST_F(FolderSourceTest, AFileThatIsLargerThanTheBudgetIsRefused) {
  WriteFile(tree_ / "dog/9.jpg", std::string(100'000, 'x'));
  ByteBudget reads(1 << 20), lists(90'000);
  options_.read_budget = &reads;
  options_.read_bytes = reads.capacity();
  options_.metadata_budget = &lists;
  uint64_t wanted = 0;
  options_.metadata_advice = [&wanted](uint64_t bytes, const DatasetInfo*) {
    wanted = bytes;
    return "give it more";
  };
  const absl::Status status = OpenRecordSource(tree_.uri(), options_).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(IsUsageError(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(tree_ / "dog/9.jpg has 97.7 KiB (100000 bytes)"),
                    HasSubstr("the memory budget has 87."),
                    HasSubstr("give it more, pack the folder")));
  EXPECT_EQ(lists.used(), 0);
  EXPECT_EQ(reads.used(), 0);
  // What the message asks for is enough, and a byte less is not.
  ByteBudget enough(wanted), less(wanted - 1);
  options_.metadata_budget = &enough;
  EXPECT_TRUE(OpenRecordSource(tree_.uri(), options_).ok());
  options_.metadata_budget = &less;
  wanted = 0;
  EXPECT_FALSE(OpenRecordSource(tree_.uri(), options_).ok());
  EXPECT_EQ(wanted, enough.capacity());
  // Also where not even the list fits: it was named without the file, so that a
  // server with the budget that was advised was refused again.
  ByteBudget nothing(10);
  options_.metadata_budget = &nothing;
  wanted = 0;
  EXPECT_THAT(
      std::string(OpenRecordSource(tree_.uri(), options_).status().message()),
      HasSubstr("the list of 4 files in 4 folders of " + tree_.path()));
  EXPECT_EQ(wanted, enough.capacity());
}

// No descriptor stays open, and few are open at the same time.
TEST_F(FolderSourceTest, OpensFilesOnlyWhileTheyAreRead) {
  const auto count = [] {
    int open = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      ++open;
    }
    return open;
  };
  const int before = count();
  const auto source = Open();
  std::vector<std::unique_ptr<RecordReader>> readers;
  for (int i = 0; i < 40; ++i) {
    readers.push_back(*source->NewReader());
    EXPECT_TRUE(readers.back()
                    ->Read(i % 3,
                           [&](const EncodedSample&) {
                             EXPECT_EQ(count(), before + 1);  // the folder
                             return absl::OkStatus();
                           })
                    .ok());
  }
}

}  // namespace
}  // namespace millrace::storage
