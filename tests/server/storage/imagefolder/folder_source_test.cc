// imagefolder: what is read, and what happens to files that change while they
// are served: never a byte that the listing did not mean.

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

#include "proto/error_detail.h"
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
  EXPECT_EQ(SampleFilesOf(*source)->FileOf(1), "cat/b/2.jpg");
  for (const int64_t index : {-1, 3}) {
    EXPECT_TRUE(absl::IsOutOfRange(Read(*source, index)));
  }
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
  EXPECT_TRUE(absl::IsUnavailable((*reader)->Read(
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
              HasSubstr("or imagefolder:" + tree_.path()));
}

struct Change {
  std::string name;
  std::function<void(const std::string& file)> make;
  std::string says;
};

class ChangedImageTest : public FolderSourceTest,
                         public ::testing::WithParamInterface<Change> {};

// A file of the same size and time would not be noticed: each of these differs.
TEST_P(ChangedImageTest, IsUnavailableAndTheOthersAreRead) {
  const auto source = Open();
  const std::string file = tree_ / "cat/1.jpg";
  ASSERT_TRUE(Read(*source, 0).ok());
  const std::string index = tree_.IndexFile();
  GetParam().make(file);
  if (HasFatalFailure()) return;
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = Read(*source, 0);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(file + " " + GetParam().says),
                      HasSubstr("restart the data server")));
    EXPECT_EQ(GetErrorDetail(status).shard(), "cat/1.jpg");
    EXPECT_EQ(GetErrorDetail(status).row(), 0);
    EXPECT_EQ(GetErrorDetail(status).sample(), 0);
  }
  EXPECT_TRUE(absl::IsUnavailable(source->CheckFiles()));
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

TEST_F(FolderSourceTest, AFileThatCannotBeReadIsUnavailable) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads every file";
  const auto source = Open();
  const std::string file = tree_ / "cat/1.jpg";
  ASSERT_EQ(chmod(file.c_str(), 0), 0);
  const absl::Status status = Read(*source, 0);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cannot open " + file), HasSubstr("ermission")));
  // It has not changed.
  EXPECT_TRUE(source->CheckFiles().ok());
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  EXPECT_TRUE(Read(*source, 0).ok());
}

TEST_F(FolderSourceTest, AFileThatIsRestoredIsReadAgain) {
  const auto source = Open();
  const std::string file = tree_ / "cat/1.jpg";
  std::filesystem::rename(file, file + ".old");
  EXPECT_TRUE(absl::IsUnavailable(Read(*source, 0)));
  EXPECT_TRUE(absl::IsUnavailable(source->CheckFiles()));
  std::filesystem::rename(file + ".old", file);
  EXPECT_TRUE(source->CheckFiles().ok());
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
  EXPECT_TRUE(absl::IsUnavailable(Read(*source, 0)));
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
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    if (!status.ok()) continue;
    ++good;
    ASSERT_EQ(image, listed);
  }
  stop = true;
  writer.join();
  EXPECT_GT(good, 0);
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
