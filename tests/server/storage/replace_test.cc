// A dataset of several shards is replaced as a whole: packing over it is ended
// at every change that it makes to the file system, and what opens afterwards
// is the old dataset or the new one. (Shards were once renamed one by one: a
// packing that was killed in between left a mixture that did not open, and the
// old dataset was gone.)

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/storage/open.h"
#include "tests/server/storage/storage_testing.h"

namespace {

constexpr int kKilled = 77;
int changes_left = -1;  // before the process ends; -1: it does not

void BeforeChange() {
  if (changes_left == 0) _exit(kKilled);
  if (changes_left > 0) --changes_left;
}

// Called once, when a folder has been listed.
std::function<void()>* after_listing = nullptr;

}  // namespace

// In front of the C library's, for this program and its libraries.
extern "C" {

int rename(const char* from, const char* to) noexcept {
  BeforeChange();
  return static_cast<int>(
      syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int renameat2(int from_at, const char* from, int to_at, const char* to,
              unsigned flags) noexcept {
  BeforeChange();
  return static_cast<int>(
      syscall(SYS_renameat2, from_at, from, to_at, to, flags));
}

int unlink(const char* path) noexcept {
  BeforeChange();
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int rmdir(const char* path) noexcept {
  BeforeChange();
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

int mkdir(const char* path, mode_t mode) noexcept {
  BeforeChange();
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int closedir(DIR* folder) {
  using Function = int (*)(DIR*);
  static const auto next =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "closedir"));
  const int result = next(folder);
  if (after_listing != nullptr) {
    const std::function<void()>& call = *after_listing;
    after_listing = nullptr;
    call();
  }
  return result;
}

}  // extern "C"

namespace millrace::storage {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class ReplaceTest : public ::testing::Test {
 protected:
  static absl::Status PackTo(const std::string& path, int64_t samples,
                             int64_t shards) {
    return Pack("lmdb:" + path, ImageDataset(samples), ImageSamples(samples),
                {.shards = shards, .overwrite = true})
        .status();
  }

  // The number of samples of what opens and reads to its end; else 0.
  static int64_t SamplesOf(const std::string& path) {
    const auto source = OpenRecordSource("lmdb:" + path, {});
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return 0;
    const auto samples = ReadAll(**source);
    EXPECT_TRUE(samples.ok()) << samples.status();
    if (!samples.ok()) return 0;
    EXPECT_EQ(*samples, ImageSamples(static_cast<int64_t>(samples->size())));
    return static_cast<int64_t>(samples->size());
  }

  // Packs 7 samples into `shards` over a dataset of 10 at `path`, ended at each
  // change in turn.
  void EndAtEveryChange(const std::string& path, int64_t old_shards,
                        int64_t shards) {
    int old_seen = 0, new_seen = 0;
    for (int changes = 0;; ++changes) {
      ASSERT_LT(changes, 100);
      ASSERT_TRUE(PackTo(path, 10, old_shards).ok());
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        changes_left = changes;
        _exit(PackTo(path, 7, shards).ok() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      const int64_t samples = SamplesOf(path);
      ASSERT_THAT(samples, AnyOf(10, 7)) << "ended at change " << changes;
      ++(samples == 10 ? old_seen : new_seen);
      if (WEXITSTATUS(status) != kKilled) {
        EXPECT_EQ(WEXITSTATUS(status), 0);
        EXPECT_EQ(samples, 7);
        break;
      }
      // Whatever was left, packing again replaces it.
      ASSERT_TRUE(PackTo(path, 7, shards).ok());
      ASSERT_EQ(SamplesOf(path), 7);
      // And removes it: the room of a dataset was lost with each end.
      EXPECT_THAT(Hidden(), IsEmpty()) << "ended at change " << changes;
    }
    EXPECT_GE(old_seen, 1);
    EXPECT_GE(new_seen, 1);
  }

  // Hidden files and folders, and what is in them.
  std::vector<std::string> Hidden() const {
    std::vector<std::string> hidden;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_.path())) {
      const std::string path = entry.path();
      if (path.find("/.", folder_.path().size()) != std::string::npos) {
        hidden.push_back(path);
      }
    }
    return hidden;
  }

  TempFolder folder_;
};

TEST_F(ReplaceTest, SeveralShardsAreOldOrNewWheneverThePackerDies) {
  EndAtEveryChange(folder_ / "d", 3, 2);
  EndAtEveryChange(folder_ / "d", 2, 3);
  EndAtEveryChange(folder_ / "d", 3, 3);
}

// Each packing removes what the one before it has left before it makes
// anything.
TEST_F(ReplaceTest, PackingsThatDieInARowLeaveOneHiddenFolder) {
  const std::string path = folder_ / "d";
  bool any = false;
  for (int changes = 0; changes < 16; ++changes) {
    ASSERT_TRUE(PackTo(path, 10, 3).ok());
    for (int death = 0; death < 5; ++death) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        changes_left = changes;
        _exit(PackTo(path, 7, 2).ok() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_THAT(SamplesOf(path), AnyOf(10, 7)) << changes;
      const auto hidden = static_cast<int64_t>(folder_.Names().size()) - 1;
      ASSERT_LE(hidden, 1) << "death " << death << " at change " << changes;
      any = any || hidden == 1;
    }
    ASSERT_TRUE(PackTo(path, 7, 2).ok());
    EXPECT_THAT(Hidden(), IsEmpty()) << changes;
  }
  EXPECT_TRUE(any);
}

TEST_F(ReplaceTest, OneShardIsOldOrNewWheneverThePackerDies) {
  EndAtEveryChange(folder_ / "file", 1, 1);
  std::filesystem::create_directory(folder_ / "in");
  EndAtEveryChange(folder_ / "in/", 1, 1);
}

TEST_F(ReplaceTest, ALinkToTheFolderStaysALink) {
  const std::string link = folder_ / "link";
  ASSERT_TRUE(PackTo(folder_ / "d", 10, 3).ok());
  std::filesystem::create_directory_symlink(folder_ / "d", link);
  ASSERT_TRUE(PackTo(link, 7, 2).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(SamplesOf(folder_ / "d"), 7);
  EXPECT_THAT(folder_.Names(), ElementsAre("d", "link"));
}

TEST_F(ReplaceTest, TheNewFolderHasTheModeOfTheOld) {
  const std::string path = folder_ / "d";
  ASSERT_TRUE(PackTo(path, 10, 3).ok());
  ASSERT_EQ(chmod(path.c_str(), 0751), 0);
  ASSERT_TRUE(PackTo(path, 7, 2).ok());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0751u);
}

TEST_F(ReplaceTest, APackingThatFailsLeavesTheOldDatasetAndNothingElse) {
  const std::string path = folder_ / "d";
  ASSERT_TRUE(PackTo(path, 10, 3).ok());
  Samples bad = ImageSamples(7);
  bad[6][1] = Scalar<int64_t>(99);  // no such class
  EXPECT_FALSE(Pack("lmdb:" + path, ImageDataset(7), bad,
                    {.shards = 2, .overwrite = true})
                   .ok());
  EXPECT_EQ(SamplesOf(path), 10);
  EXPECT_THAT(folder_.Names(), ElementsAre("d"));
}

TEST_F(ReplaceTest, WhatCameIntoTheFolderMeanwhileIsKept) {
  const std::string path = folder_ / "d";
  ASSERT_TRUE(PackTo(path, 10, 3).ok());
  auto writer = DatasetWriter::Create("lmdb:" + path, ImageDataset(7),
                                      {.shards = 2, .overwrite = true});
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const std::vector<std::string>& sample : ImageSamples(7)) {
    std::vector<absl::Span<const uint8_t>> fields;
    for (const std::string& field : sample) {
      fields.emplace_back(reinterpret_cast<const uint8_t*>(field.data()),
                          field.size());
    }
    ASSERT_TRUE((*writer)->Append(fields, "").ok());
  }
  WriteFile(path + "/letter", "dear");
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(SamplesOf(path), 7);
  std::string letter;
  for (const std::string& name : folder_.Names()) {
    if (name != "d") letter = ReadFile(folder_ / name + "/letter");
  }
  EXPECT_EQ(letter, "dear");
}

// Ends with 0 when `body` gives true.
int InProcess(const std::function<bool()>& body, pid_t* pid = nullptr) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  if (pid != nullptr) *pid = child;
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// Left-overs are told from what a packing beside this one writes into.
TEST_F(ReplaceTest, WhatARunningPackingHasIsKept) {
  const std::string path = folder_ / "d";
  ASSERT_TRUE(PackTo(path, 10, 3).ok());
  pid_t gone = 0;
  ASSERT_EQ(InProcess([] { return true; }, &gone), 0);
  const auto left_by = [&](pid_t pid) {
    const std::string left = folder_ / absl::StrCat(".d.", pid, ".tmp");
    std::filesystem::create_directory(left);
    WriteFile(left + "/part-00000-of-00001.lmdb", "x");
    return left;
  };
  const std::string left = left_by(gone);
  const std::string of_older_version = left_by(getppid());
  const std::string of_another = folder_ / absl::StrCat(".e.", gone, ".tmp");
  WriteFile(of_another, "x");
  {
    // In another container: its process cannot be seen.
    auto writer =
        DatasetWriter::Create("lmdb:" + (folder_ / "e"), ImageDataset(7), {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    EXPECT_FALSE(std::filesystem::exists(of_another));
    EXPECT_TRUE(std::filesystem::exists(left)) << "of another dataset";
    ASSERT_EQ(InProcess([&] { return PackTo(path, 7, 2).ok(); }), 0);
    EXPECT_TRUE(std::filesystem::exists(left));
  }
  ASSERT_TRUE(PackTo(path, 7, 2).ok());
  EXPECT_THAT(Hidden(), UnorderedElementsAre(
                            of_older_version,
                            of_older_version + "/part-00000-of-00001.lmdb"));
}

// Opening lists the folder first and opens the shards then.
TEST_F(ReplaceTest, AFolderThatIsReplacedWhileItIsOpenedOpens) {
  const std::string path = folder_ / "d";
  ASSERT_TRUE(PackTo(path, 10, 3).ok());
  std::function<void()> replace = [&] { EXPECT_TRUE(PackTo(path, 7, 2).ok()); };
  after_listing = &replace;
  EXPECT_EQ(SamplesOf(path), 7);
  EXPECT_EQ(after_listing, nullptr);
}

}  // namespace
}  // namespace millrace::storage
