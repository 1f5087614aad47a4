// What TensorBoard reads, checked byte by byte, also when the disk is full.

#include "trainer/monitoring/event_file.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/subprocess.h"
#include "tests/trainer/monitoring/event_reader.h"
#include "trainer/monitoring/crc32c.h"

namespace millrace::monitoring {
namespace {

using ::millrace::testing::EventContent;
using ::millrace::testing::NewTempDir;
using ::millrace::testing::ReadEvents;
using ::millrace::testing::ReadFile;
using ::millrace::testing::Series;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// RFC 3720, appendix B.4.
TEST(Crc32c, HasTheValuesOfTheRfc) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  EXPECT_EQ(Crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
}

// A file that TensorFlow's TFRecordWriter has written begins so.
TEST(EventFile, FramesARecordAsTensorFlowDoes) {
  EXPECT_EQ(FrameRecord("abc").substr(0, 8),
            std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(FrameRecord("abc").size(), 8u + 4 + 3 + 4);
  // The first record of every event file, without its time:
  // length 24, masked CRC of it.
  EXPECT_EQ(FrameRecord(std::string(24, 'x')).substr(8, 4),
            std::string("\xa3\x7f\x4b\x22", 4));
}

TEST(EventFile, HoldsNumbersOverSteps) {
  const std::string folder = NewTempDir() + "/logs/run 1";
  std::string path;
  {
    auto file = EventFile::Create(
        folder, {.now = absl::FromUnixSeconds(1'700'000'000)});
    ASSERT_TRUE(file.ok()) << file.status();
    path = (*file)->path();
    EXPECT_THAT(path, HasSubstr(folder + "/events.out.tfevents.1700000000."));
    const absl::Time later = absl::FromUnixMillis(1'700'000'010'500);
    EXPECT_TRUE(
        (*file)->Add(3, {{"Loss/train", 0.5}, {"Loss/val", 0.75}}, later).ok());
    EXPECT_TRUE((*file)->Add(int64_t{1} << 40, {{"Loss/train", -2}}).ok());
    EXPECT_TRUE((*file)->Add(7, {{"Loss/train", std::nan("")}}).ok());
  }
  const EventContent content = ReadEvents(ReadFile(path));
  EXPECT_EQ(content.error, "");
  ASSERT_EQ(content.events.size(), 4u);
  EXPECT_EQ(content.events[0].file_version, "brain.Event:2");
  EXPECT_EQ(content.events[0].wall_time, 1'700'000'000);
  EXPECT_EQ(content.events[1].wall_time, 1'700'000'010.5);
  EXPECT_THAT(content.events[1].scalars,
              ElementsAre(Pair("Loss/train", 0.5f), Pair("Loss/val", 0.75f)));
  EXPECT_EQ(content.events[2].step, int64_t{1} << 40);
  EXPECT_TRUE(std::isnan(content.events[3].scalars.at("Loss/train")));
  for (const auto& event : content.events) EXPECT_FALSE(event.starts_session);
}

TEST(EventFile, OfAResumedRunTakesThePlaceOfWhatWasTrainedInVain) {
  const std::string folder = NewTempDir();
  auto file = EventFile::Create(folder, {.first_step = 101});
  ASSERT_TRUE(file.ok()) << file.status();
  const EventContent content = ReadEvents(ReadFile((*file)->path()));
  ASSERT_EQ(content.events.size(), 2u);
  EXPECT_TRUE(content.events[1].starts_session);
  EXPECT_EQ(content.events[1].step, 101);
  // A second one at the same moment is a file of its own.
  auto other = EventFile::Create(folder, {});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE((*other)->path(), (*file)->path());
}

TEST(EventFile, IsWrittenWhileTheRunGoesOn) {
  const absl::Time start = absl::FromUnixSeconds(1'700'000'000);
  auto file = EventFile::Create(
      NewTempDir(), {.flush_every = absl::Seconds(2), .now = start});
  ASSERT_TRUE(file.ok()) << file.status();
  const auto written = [&] {
    return ReadEvents(ReadFile((*file)->path())).events.size();
  };
  EXPECT_EQ(written(), 1u);
  EXPECT_TRUE((*file)->Add(1, {{"a", 1}}, start).ok());
  EXPECT_EQ(written(), 2u) << "the first point is seen at once";
  EXPECT_TRUE((*file)->Add(2, {{"a", 1}}, start + absl::Seconds(1)).ok());
  EXPECT_EQ(written(), 2u);
  EXPECT_TRUE((*file)->Add(3, {{"a", 1}}, start + absl::Seconds(2)).ok());
  EXPECT_EQ(written(), 4u);
}

// A reader stops at the first thing that is not whole, and has what was before.
TEST(EventFile, IsReadAsFarAsItIsWhole) {
  std::string path;
  {
    auto file = EventFile::Create(NewTempDir(), {});
    ASSERT_TRUE(file.ok()) << file.status();
    path = (*file)->path();
    for (uint64_t step = 1; step <= 3; ++step) {
      EXPECT_TRUE((*file)->Add(step, {{"a", 1.0 * step}}).ok());
    }
  }
  const std::string whole = ReadFile(path);
  ASSERT_EQ(ReadEvents(whole).events.size(), 4u);
  size_t at_least = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const EventContent cut = ReadEvents(whole.substr(0, size));
    EXPECT_LT(cut.events.size(), 4u);
    EXPECT_GE(cut.events.size(), at_least);
    at_least = cut.events.size();
  }
  EXPECT_EQ(at_least, 3u);
  // No byte can change without being noticed.
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_NE(ReadEvents(damaged).error, "") << "byte " << at;
  }
}

// The limit on a file's size stands for a disk that is full, and is raised like
// one that gets room again.
TEST(EventFile, AFullDiskCostsNoRecordThatFitsIntoMemory) {
  signal(SIGXFSZ, SIG_IGN);  // write() then fails
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto limit = [&before](rlim_t bytes) {
    const rlimit now = {bytes, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &now), 0);
  };
  auto file = EventFile::Create(
      NewTempDir(),
      {.flush_every = absl::ZeroDuration(), .max_pending_bytes = 1000});
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string head = ReadFile((*file)->path());
  // Room for half a record.
  limit(head.size() + 20);
  const absl::Status full = (*file)->Add(1, {{"a", 1}});
  EXPECT_FALSE(full.ok());
  EXPECT_THAT(std::string(full.message()), HasSubstr((*file)->path()));
  EXPECT_FALSE((*file)->Add(2, {{"a", 2}}).ok());
  EXPECT_EQ(ReadFile((*file)->path()), head) << "no half record stays";
  limit(before.rlim_cur);
  EXPECT_TRUE((*file)->Add(3, {{"a", 3}}).ok());
  EXPECT_THAT(Series(ReadEvents(ReadFile((*file)->path())), "a"),
              ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 3)));
  EXPECT_EQ((*file)->MissingText(), "");

  // What does not fit into memory either is left out as whole records.
  limit(ReadFile((*file)->path()).size());
  for (uint64_t step = 4; step < 100; ++step) {
    EXPECT_FALSE((*file)->Add(step, {{"a", 1}}).ok());
  }
  EXPECT_GT((*file)->left_out(), 0u);
  // "the end of the run is missing" was all that a run said whose file had
  // none of its points.
  const uint64_t kept = ReadFile((*file)->path()).size();
  EXPECT_THAT(
      (*file)->MissingText(),
      AllOf(HasSubstr(absl::StrCat((*file)->path(), " has 3 of 99 points (",
                                   kept, " of ")),
            HasSubstr(" bytes): 96 points are missing, the first at "
                      "step 4, the last at step 99")));
  limit(before.rlim_cur);
  EXPECT_TRUE((*file)->Flush().ok());
  EXPECT_THAT((*file)->MissingText(),
              AllOf(HasSubstr(absl::StrCat((*file)->left_out(),
                                           " points are missing, the first "
                                           "at step ")),
                    HasSubstr(", the last at step 99")));
  const EventContent content = ReadEvents(ReadFile((*file)->path()));
  EXPECT_EQ(content.error, "");
  EXPECT_EQ(content.events.size() - 1 + (*file)->left_out(), 99u);
}

TEST(EventFile, SaysWhereItCannotBeMade) {
  const std::string folder = NewTempDir();
  testing::WriteFile(folder + "/file", "");
  const auto file = EventFile::Create(folder + "/file/logs", {});
  EXPECT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr(folder + "/file"));
}

}  // namespace
}  // namespace millrace::monitoring
