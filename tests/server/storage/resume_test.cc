// A packing that ends at any moment goes on where it stopped, and its files
// become those of a packing that was never interrupted, byte for byte.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/open.h"
#include "server/storage/packing_journal.h"
#include "tests/server/storage/storage_testing.h"

namespace {

constexpr int kKilled = 77;
int changes_left = -1;  // before the process ends; -1: it does not

void BeforeChange() {
  if (changes_left == 0) _exit(kKilled);
  if (changes_left > 0) --changes_left;
}

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

ssize_t write(int fd, const void* bytes, size_t count) {
  BeforeChange();
  return syscall(SYS_write, fd, bytes, count);
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
  BeforeChange();
  return syscall(SYS_pwrite64, fd, bytes, count, at);
}

// Without the disk: a killed process loses no bytes of its files.
int fsync(int) {
  BeforeChange();
  return 0;
}

int fdatasync(int) {
  BeforeChange();
  return 0;
}

}  // extern "C"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using Options = DatasetWriter::Options;
using Files = std::map<std::string, std::string>;  // bytes by path

Hash128 HashOf(const std::vector<std::string>& sample, int64_t index) {
  std::vector<absl::Span<const uint8_t>> fields;
  for (const std::string& field : sample) {
    fields.emplace_back(reinterpret_cast<const uint8_t*>(field.data()),
                        field.size());
  }
  return HashSample(index, fields);
}

// As `millrace-data pack` does it. `kept`: samples that were not written again.
absl::StatusOr<DatasetInfo> Write(const std::string& uri,
                                  const DatasetInfo& info,
                                  const Samples& samples, Options options,
                                  int64_t* kept = nullptr, int64_t end = -1) {
  options.resume = true;
  MR_ASSIGN_OR_RETURN(auto writer, DatasetWriter::Create(uri, info, options));
  if (kept != nullptr) *kept = writer->kept_samples();
  for (int64_t i = 0; i < static_cast<int64_t>(samples.size()); ++i) {
    if (i == end) {
      writer->KeepFinishedShards();
      return absl::CancelledError("ended");
    }
    const Hash128 hash = HashOf(samples[i], i);
    if (i < writer->kept_samples()) {
      MR_RETURN_IF_ERROR(writer->Confirm(hash));
      continue;
    }
    std::vector<absl::Span<const uint8_t>> fields;
    for (const std::string& field : samples[i]) {
      fields.emplace_back(reinterpret_cast<const uint8_t*>(field.data()),
                          field.size());
    }
    MR_RETURN_IF_ERROR(
        writer->Append(fields, absl::StrCat("f/", i, ".jpg"), hash));
  }
  return writer->Finish();
}

class ResumeTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::string Uri(absl::string_view name) const {
    return absl::StrCat(GetParam(), ":", folder_ / name);
  }

  // All files below a folder or at a path, and hidden ones.
  Files FilesOf(absl::string_view name) const {
    Files files;
    const std::string path = folder_ / name;
    if (!std::filesystem::is_directory(path)) {
      return {{"", ReadFile(path)}};
    }
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path)) {
      const std::string inner = entry.path();
      files[inner.substr(path.size())] =
          entry.is_directory() ? "folder" : ReadFile(inner);
    }
    return files;
  }

  // Packs into `name` as long as the packing is ended at each change in turn;
  // after each end the packing goes on and gives the files of "whole".
  void EndAtEveryChange(const std::string& name, Options options,
                        bool replaces = false) {
    const DatasetInfo info = ImageDataset(kSamples);
    const Samples samples = ImageSamples(kSamples);
    if (replaces) {
      ASSERT_TRUE(Pack(Uri("whole/"), ImageDataset(3), ImageSamples(3)).ok());
    }
    const std::string whole =
        absl::StrCat("whole", name.back() == '/' ? "/" : "");
    ASSERT_TRUE(Write(Uri(whole), info, samples, options).ok());
    const Files expected = FilesOf("whole");
    int64_t most_kept = 0;
    for (int changes = 0;; ++changes) {
      ASSERT_LT(changes, 600);
      std::filesystem::remove_all(folder_ / "d");
      if (replaces) {
        ASSERT_TRUE(Pack(Uri("d/"), ImageDataset(3), ImageSamples(3)).ok());
      }
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        changes_left = changes;
        _exit(Write(Uri(name), info, samples, options).ok() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      if (WEXITSTATUS(status) != kKilled) {
        ASSERT_EQ(WEXITSTATUS(status), 0);
        break;
      }
      Options again = options;
      // The packing may have been complete.
      again.overwrite = true;
      int64_t kept = 0;
      const auto packed = Write(Uri(name), info, samples, again, &kept);
      ASSERT_TRUE(packed.ok()) << changes << ": " << packed.status();
      most_kept = std::max(most_kept, kept);
      ASSERT_EQ(FilesOf("d"), expected) << "ended at change " << changes;
      for (const std::string& left : folder_.Names()) {
        ASSERT_FALSE(absl::StartsWith(left, "."))
            << left << " after change " << changes;
      }
    }
    EXPECT_EQ(FilesOf("d"), expected);
    EXPECT_EQ(most_kept, kSamples);
    std::filesystem::remove_all(folder_ / "d");
    std::filesystem::remove_all(folder_ / "whole");
  }

  static constexpr int64_t kSamples = 11;
  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Formats, ResumeTest, ::testing::ValuesIn(Schemes()),
                         [](const auto& info) { return info.param; });

TEST_P(ResumeTest, OneFileIsTheSameWheneverThePackerDies) {
  EndAtEveryChange("d", {});
}

TEST_P(ResumeTest, ShardsAreTheSameWheneverThePackerDies) {
  EndAtEveryChange("d", {.shards = 3});
  EndAtEveryChange("d/", {.shard_bytes = 9000});
}

TEST_P(ResumeTest, ShardsThatReplaceAreTheSameWheneverThePackerDies) {
  EndAtEveryChange("d/", {.shards = 2, .overwrite = true}, true);
}

TEST_P(ResumeTest, TheSameSamplesGiveTheSameBytes) {
  for (const Options& options :
       {Options{}, Options{.shards = 3}, Options{.shard_bytes = 5000}}) {
    std::vector<Files> files;
    for (const char* name : {"a", "b"}) {
      ASSERT_TRUE(
          Pack(Uri(name), EveryKindDataset(9), EveryKindSamples(9), options)
              .ok());
      files.push_back(FilesOf(name));
      std::filesystem::remove_all(folder_ / name);
    }
    EXPECT_EQ(files[0], files[1]);
  }
}

TEST_P(ResumeTest, WhatIsPreparedIsPartOfTheMetadata) {
  DatasetInfo info = ImageDataset(9);
  const auto plain = Pack(Uri("plain"), info, ImageSamples(9));
  info.add_prepared("images: smaller");
  const auto packed = Pack(Uri("d"), info, ImageSamples(9), {.shards = 2});
  ASSERT_TRUE(plain.ok() && packed.ok()) << packed.status();
  EXPECT_EQ(plain->fingerprint(), packed->fingerprint());
  const auto source = OpenRecordSource(Uri("d"), {});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT((*source)->info().prepared(),
              ::testing::ElementsAre("images: smaller"));
}

TEST_P(ResumeTest, BytesCutShards) {
  Samples samples;
  for (const int bytes : {400, 400, 100, 1000, 300, 300, 300, 1}) {
    samples.push_back(
        {std::string(bytes - 8 > 0 ? bytes - 8 : 1, 'x'), Scalar<int64_t>(1)});
  }
  const auto info =
      Pack(Uri("d"), ImageDataset(8), samples, {.shard_bytes = 900});
  ASSERT_TRUE(info.ok()) << info.status();
  std::vector<int64_t> counts;
  for (const ShardInfo& shard : info->shards()) {
    counts.push_back(shard.samples());
  }
  EXPECT_EQ(counts, std::vector<int64_t>({3, 1, 3, 1}));
  const auto source = OpenRecordSource(Uri("d"), {});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->info().fingerprint(), info->fingerprint());
  const auto read = ReadAll(**source);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, samples);
}

TEST_P(ResumeTest, OneShardOfBytesIsInAFolder) {
  ASSERT_TRUE(Pack(Uri("d"), ImageDataset(5), ImageSamples(5),
                   {.shard_bytes = uint64_t{1} << 40})
                  .ok());
  EXPECT_THAT(FilesOf("d"), ::testing::ElementsAre(::testing::Key(absl::StrCat(
                                "/part-00000-of-00001.", GetParam()))));
}

TEST_P(ResumeTest, TooManyShardsOfBytesAreRefusedEarly) {
  constexpr int64_t kMany = 40000;
  auto writer =
      DatasetWriter::Create(Uri("d"), ImageDataset(kMany), {.shard_bytes = 1});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::string label = Scalar<int64_t>(1);
  const absl::Span<const uint8_t> bytes(
      reinterpret_cast<const uint8_t*>(label.data()), 8);
  absl::Status status;
  int64_t appended = 0;
  while (status.ok() && appended < kMany) {
    status = (*writer)->Append({bytes, bytes}, "");
    ++appended;
  }
  EXPECT_TRUE(IsUsageError(status)) << status;
  EXPECT_LT(appended, 100);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("would be about 40000"), HasSubstr("10000")));
}

TEST_P(ResumeTest, OtherFlagsAndOtherInputsStartAnew) {
  const Samples samples = ImageSamples(9);
  const Options options = {.shards = 3};
  const auto interrupt = [&] {
    EXPECT_TRUE(absl::IsCancelled(
        Write(Uri("d"), ImageDataset(9), samples, options, nullptr, 7)
            .status()));
    EXPECT_THAT(FilesOf("d"), Not(IsEmpty()));
  };
  int64_t kept = -1;
  interrupt();
  ASSERT_TRUE(Write(Uri("d"), ImageDataset(9), samples, options, &kept).ok());
  EXPECT_EQ(kept, 6);

  std::filesystem::remove_all(folder_ / "d");
  interrupt();
  ASSERT_TRUE(
      Write(Uri("d"), ImageDataset(9), samples, {.shards = 4}, &kept).ok());
  EXPECT_EQ(kept, 0);
  EXPECT_THAT(FilesOf("d"), SizeIs(4));

  std::filesystem::remove_all(folder_ / "d");
  interrupt();
  DatasetInfo prepared = ImageDataset(9);
  prepared.add_prepared("other pixels");
  ASSERT_TRUE(Write(Uri("d"), prepared, samples, options, &kept).ok());
  EXPECT_EQ(kept, 0);

  std::filesystem::remove_all(folder_ / "d");
  interrupt();
  ASSERT_TRUE(
      Write(Uri("d"), ImageDataset(8), ImageSamples(8), options, &kept).ok());
  EXPECT_EQ(kept, 0);

  // The same number of samples.
  std::filesystem::remove_all(folder_ / "d");
  interrupt();
  Samples changed = samples;
  changed[4][0] += "x";
  const auto refused =
      Write(Uri("d"), ImageDataset(9), changed, options, &kept);
  EXPECT_EQ(kept, 6);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("samples 3 to 5 differ"));
  ASSERT_TRUE(Write(Uri("d"), ImageDataset(9), changed, options, &kept).ok());
  EXPECT_EQ(kept, 0);
}

// A limit on the size of files stands for a full disk.
TEST_P(ResumeTest, AfterAFullDiskThePackingGoesOn) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  Samples samples;
  for (int i = 0; i < 8; ++i) {
    samples.push_back(
        {std::string(i < 6 ? 1000 : 4 << 20, 'x'), Scalar<int64_t>(i % 3)});
  }
  const Options options = {.shards = 4, .resume = true};
  const DatasetInfo info = ImageDataset(8);
  ASSERT_TRUE(Write(Uri("whole"), info, samples, options).ok());
  {
    auto writer = DatasetWriter::Create(Uri("d"), info, options);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const rlimit small{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    absl::Status status;
    for (int i = 0; i < 8 && status.ok(); ++i) {
      std::vector<absl::Span<const uint8_t>> fields;
      for (const std::string& field : samples[i]) {
        fields.emplace_back(reinterpret_cast<const uint8_t*>(field.data()),
                            field.size());
      }
      status = (*writer)->Append(fields, absl::StrCat("f/", i, ".jpg"),
                                 HashOf(samples[i], i));
    }
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ((*writer)->KeepFinishedShards(), 6);
  }
  // The disk is still full.
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto full = Write(Uri("d"), info, samples, options);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(full.ok());
  int64_t kept = 0;
  ASSERT_TRUE(Write(Uri("d"), info, samples, options, &kept).ok());
  EXPECT_EQ(kept, 6);
  EXPECT_EQ(FilesOf("d"), FilesOf("whole"));
}

// Containers give the same numbers to other processes.
TEST_P(ResumeTest, TheNumberOfAnotherProgramDoesNotKeepAPackingFromGoingOn) {
  const Options options = {.shards = 3};
  ASSERT_TRUE(absl::IsCancelled(
      Write(Uri("d"), ImageDataset(9), ImageSamples(9), options, nullptr, 7)
          .status()));
  std::filesystem::rename(
      folder_ / absl::StrCat("d/.part.", getpid(), ".tmp"),
      folder_ / absl::StrCat("d/.part.", getppid(), ".tmp"));
  int64_t kept = 0;
  ASSERT_TRUE(
      Write(Uri("d"), ImageDataset(9), ImageSamples(9), options, &kept).ok());
  EXPECT_EQ(kept, 6);
  EXPECT_THAT(FilesOf("d"), SizeIs(3));
}

TEST(PackingJournalTest, ALineThatWasCutOffIsNoLine) {
  TempFolder folder;
  PackingJournal::Content content;
  content.flags = {.low = 1, .high = 2};
  content.input = {.low = 3, .high = 4};
  content.shards = {{.samples = 5, .bytes = 6, .content = {7, 8}, .input = {}}};
  {
    auto journal = PackingJournal::Start(folder.path(), content);
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_TRUE((*journal)->Add(content.shards[0]).ok());
    ASSERT_TRUE((*journal)->AddPlacing().ok());
  }
  const std::string path = folder / PackingJournal::kName;
  const std::string text = ReadFile(path);
  int64_t last = 2;
  for (size_t bytes = text.size();; --bytes) {
    WriteFile(path, text.substr(0, bytes));
    PackingJournal::Content read;
    if (!PackingJournal::Read(folder.path(), &read)) break;
    EXPECT_EQ(read.flags, content.flags);
    EXPECT_EQ(read.input, content.input);
    EXPECT_EQ(read.placing, bytes == text.size());
    ASSERT_LE(static_cast<int64_t>(read.shards.size()), last);
    last = static_cast<int64_t>(read.shards.size());
    for (const PackingJournal::Shard& shard : read.shards) {
      EXPECT_EQ(shard.samples, 5);
      EXPECT_EQ(shard.content, content.shards[0].content);
    }
  }
  EXPECT_EQ(last, 0);
}

}  // namespace
}  // namespace millrace::storage
