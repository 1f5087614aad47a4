#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/folder.h"
#include "common/read_file.h"
#include "trainer/files.h"
#include "trainer/progress.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Progress, SaysWhereTheRunIs) {
  EXPECT_EQ(FormatState({.epoch = 0,
                         .epochs = 8,
                         .step = 120,
                         .steps = 468,
                         .loss = 0.53124,
                         .samples_per_second = 18204.4,
                         .stall_share = 0.012,
                         .seconds_left = 3.7}),
            "epoch 1/8 step 120/468  loss 0.5312  18,204 samples/s  0:04 left  "
            "waiting 1.2 %");
  Progress lines({.log_every = 10});
  EXPECT_TRUE(lines.Wants(20, 100));
  EXPECT_FALSE(lines.Wants(21, 100));
  EXPECT_FALSE(Progress({.enabled = false, .log_every = 1}).Wants(1, 1));
}

TEST(Progress, DrawsABarThatFitsTheTerminal) {
  const Progress::State state = {.epoch = 0,
                                 .epochs = 8,
                                 .step = 117,
                                 .steps = 468,
                                 .loss = 0.53124,
                                 .samples_per_second = 18204.4,
                                 .stall_share = 0.012,
                                 .seconds_left = 3725};
  const std::string wide = FormatBar(state, 121);
  EXPECT_THAT(wide,
              HasSubstr("epoch 1/8 [==========>                             ] "
                        "117/468  loss"));
  EXPECT_THAT(wide, HasSubstr("  loss 0.5312  18,204 samples/s  1:02:05 left  "
                              "waiting 1.2 %"));
  EXPECT_THAT(FormatBar(state, 40), HasSubstr("loss"));
  EXPECT_THAT(FormatBar(state, 40), Not(HasSubstr("waiting")));
  for (size_t columns = 0; columns < 200; ++columns) {
    EXPECT_LE(FormatBar(state, columns).size(), columns);
  }
  const auto count = [](const std::string& text, char c) {
    return std::count(text.begin(), text.end(), c);
  };
  Progress::State moving = state;
  long drawn = 0;
  for (moving.step = 0; moving.step <= moving.steps; moving.step += 13) {
    const std::string bar = FormatBar(moving, 121);
    EXPECT_GE(count(bar, '='), drawn);
    drawn = count(bar, '=');
    EXPECT_EQ(bar.find(']'), wide.find(']'));
  }
  EXPECT_EQ(drawn, 40);
}

TEST(Progress, SaysHowLongItTakesAsAClockDoes) {
  EXPECT_EQ(FormatClock(0), "0:00");
  EXPECT_EQ(FormatClock(59.6), "1:00");
  EXPECT_EQ(FormatClock(3599), "59:59");
  EXPECT_EQ(FormatClock(3600 * 30), "30:00:00");
  EXPECT_EQ(FormatClock(std::nan("")), "-");
  EXPECT_EQ(FormatClock(1e300), "-");
}

class Files : public ::testing::Test {
 protected:
  const std::string folder_ = [] {
    std::string name = ::testing::TempDir() + "/files.XXXXXX";
    return std::string(mkdtemp(name.data()));
  }();
};

TEST_F(Files, AreReplacedAsAWhole) {
  const std::string path = folder_ + "/summary.json";
  ASSERT_TRUE(CheckWritable(path).ok());
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "the check leaves nothing";
  ASSERT_TRUE(WriteFileAtomically(path, "first").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "second").ok());
  EXPECT_EQ(*ReadFile(path, 100), "second");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFile(path, 3).status()));
}

// --checkpoint and --json of one name left the summary alone, with exit code 0.
TEST_F(Files, OfTwoFlagsAreNotTheSame) {
  const std::string path = folder_ + "/x";
  const std::string link = folder_ + "/link";
  ASSERT_EQ(symlink("x", link.c_str()), 0);
  EXPECT_TRUE(
      CheckDistinct({{"--json", path}, {"--checkpoint", path + "y"}}).ok());
  EXPECT_TRUE(CheckDistinct({{"--json", ""}, {"--checkpoint", ""}}).ok());
  EXPECT_TRUE(
      CheckDistinct({{"--json", "/dev/stdout"}, {"--step_losses", "/dev/null"}})
          .ok());
  for (const std::string& same :
       {path, link,
        folder_ + "/../" + folder_.substr(folder_.rfind('/') + 1) + "/x"}) {
    const absl::Status status =
        CheckDistinct({{"--json", path}, {"--checkpoint", same}});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << same;
    EXPECT_THAT(status.message(), HasSubstr("--json and --checkpoint both"));
  }
}

// A run ended with "Is a directory" after its last step.
TEST_F(Files, AreNotFoldersOfOtherFlags) {
  const auto check = [](const std::string& file, const std::string& audit_dir) {
    return std::string(
        CheckApart({{"--json", file}},
                   {{"--profile", "", "", ".pt.trace.json"},
                    {"--audit_dir", audit_dir, "rank-", ".mraudit"}})
            .message());
  };
  const std::string logs = folder_ + "/logs";
  for (const bool exists : {false, true}) {
    if (exists) {
      ASSERT_TRUE(MakeFolders(logs).ok());
    }
    for (const char* slash : {"", "/"}) {
      EXPECT_EQ(check(logs, logs + slash),
                absl::StrCat("--json and --audit_dir both name ", logs,
                             ", but --json is a file and --audit_dir a folder; "
                             "give each its own path"));
      EXPECT_THAT(check(folder_ + "/./logs", logs + slash),
                  HasSubstr("both name"));
    }
    EXPECT_EQ(check(logs, logs + "/a/b"),
              absl::StrCat("--audit_dir=", logs,
                           "/a/b is a folder below --json=", logs,
                           ", which is a file; give each its own path"));
    EXPECT_EQ(check(logs + "/rank-00000.mraudit", logs),
              absl::StrCat("--json=", logs,
                           "/rank-00000.mraudit has the name of a file that "
                           "--audit_dir=",
                           logs, " writes; give it another name"));
    for (const char* good : {"/logs/summary.json", "/rank-00000.mraudit",
                             "/logs2", "/log", "/logs/a/rank-00000.mraudit"}) {
      EXPECT_EQ(check(folder_ + good, logs), "") << good;
    }
  }
  EXPECT_THAT(check("none", "./none"), HasSubstr("both name none"));
  EXPECT_EQ(check("", logs), "");
  EXPECT_EQ(check("/dev/stdout", logs), "");
  EXPECT_EQ(check(logs, ""), "");
  EXPECT_TRUE(absl::IsInvalidArgument(CheckApart(
      {{"--json", logs}}, {{"--tensorboard", logs, "events.", ""}})));
}

// A link to a disk with more room, say; it may lead to nothing yet.
TEST_F(Files, AreWrittenWhereTheirLinksLead) {
  ASSERT_TRUE(MakeFolders(folder_ + "/large/disk").ok());
  const std::string link = folder_ + "/run.ckpt";
  ASSERT_EQ(symlink("large/second", link.c_str()), 0);
  ASSERT_EQ(symlink("disk/file", (folder_ + "/large/second").c_str()), 0);
  const std::string target = folder_ + "/large/disk/file";
  for (const char* content : {"first", "second"}) {
    ASSERT_TRUE(CheckWritable(link).ok());
    ASSERT_TRUE(WriteFileAtomically(link, content).ok());
    EXPECT_EQ(*ReadFile(target, 100), content);
    struct stat info;
    ASSERT_EQ(lstat(link.c_str(), &info), 0);
    EXPECT_TRUE(S_ISLNK(info.st_mode)) << "the link stays";
  }
  ASSERT_EQ(symlink("loop", (folder_ + "/loop").c_str()), 0);
  EXPECT_FALSE(WriteFileAtomically(folder_ + "/loop", "x").ok());
}

TEST_F(Files, ThatKilledProcessesLeftAreRemoved) {
  const std::string path = folder_ + "/run.ckpt";
  // A process that has ended and was waited for: its number is free.
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  ASSERT_EQ(waitpid(ended, nullptr, 0), ended);
  // Also with the number of a process that runs: in another container it was
  // somebody else's.
  const std::vector<std::string> leftovers = {
      absl::StrCat(path, ".tmp.", ended), absl::StrCat(path, ".tmp.", getpid()),
      absl::StrCat(path, ".tmp.", ended, ".0123456789abcdef")};
  const std::vector<std::string> kept = {
      path + ".tmp.x", path + ".tmp.1.x", path + ".tmp.1.0123456789abcdeg",
      absl::StrCat(folder_, "/other.tmp.", ended)};
  for (const std::string& file : leftovers) std::ofstream(file) << "half";
  for (const std::string& file : kept) std::ofstream(file) << "half";
  ASSERT_TRUE(CheckWritable(path).ok());
  for (const std::string& file : leftovers) {
    EXPECT_NE(access(file.c_str(), F_OK), 0) << file;
  }
  for (const std::string& file : kept) {
    EXPECT_EQ(access(file.c_str(), F_OK), 0) << file;
  }
}

// In containers both processes may have the number 1: the checkpoint that a pod
// wrote while it ended was removed by the pod that took its place.
TEST_F(Files, ThatAnotherProcessWritesStay) {
  const std::string path = folder_ + "/run.ckpt";
  for (const bool same_process : {true, false}) {
    SCOPED_TRACE(same_process);
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write("whole").ok());
    if (same_process) {
      ASSERT_TRUE(CheckWritable(path).ok());
    } else {
      const pid_t other = fork();
      if (other == 0) _exit(CheckWritable(path).ok() ? 0 : 1);
      int status = -1;
      ASSERT_EQ(waitpid(other, &status, 0), other);
      ASSERT_EQ(status, 0);
    }
    const absl::Status committed = (*file)->Commit();
    EXPECT_TRUE(committed.ok()) << committed;
    EXPECT_EQ(*ReadFile(path, 100), "whole");
  }
}

// Opening and closing a pipe would end its reader: nobody reads here, and the
// check neither waits for one nor replaces the pipe.
TEST_F(Files, ThatArePipesAreCheckedWithoutBeingOpened) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(CheckWritable(path).ok());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

TEST_F(Files, FoldersThatCannotBeMadeAreKnownBefore) {
  EXPECT_TRUE(CheckFolder("--profile", folder_).ok());
  EXPECT_TRUE(CheckFolder("--profile", folder_ + "/a/b//c/").ok());
  EXPECT_NE(access((folder_ + "/a").c_str(), F_OK), 0) << "nothing is made";
  EXPECT_TRUE(CheckFolder("--profile", "relative/folder").ok());
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/file", "x").ok());
  ASSERT_EQ(symlink((folder_ + "/none").c_str(), (folder_ + "/link").c_str()),
            0);
  for (const char* path : {"/file", "/file/", "/file/a/b", "/link/a"}) {
    const absl::Status status = CheckFolder("--profile", folder_ + path);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << path;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("--profile=", folder_, path, ": ")));
  }
}

TEST_F(Files, ThatCannotBeWrittenAreKnownBefore) {
  EXPECT_TRUE(absl::IsNotFound(CheckWritable(folder_ + "/none/summary.json")));
  EXPECT_THAT(std::string(CheckWritable(folder_).message()),
              HasSubstr("is a folder"));
  EXPECT_FALSE(WriteFileAtomically(folder_ + "/none/x", "x").ok());
  EXPECT_TRUE(absl::IsNotFound(ReadFile(folder_ + "/none", 1).status()));
}

}  // namespace
}  // namespace millrace::trainer
