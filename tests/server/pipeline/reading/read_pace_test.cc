#include "server/pipeline/reading/read_pace.h"

#include <gtest/gtest.h>

namespace millrace::pipeline {
namespace {

constexpr uint64_t kMicro = 1000;

TEST(ReadPace, MemoryAndPagesAreReadWhereTheyAreUsedAtFirst) {
  EXPECT_FALSE(ReadPace(storage::ReadWait::kNever).ahead());
  EXPECT_FALSE(ReadPace(storage::ReadWait::kPages).ahead());
  EXPECT_TRUE(ReadPace(storage::ReadWait::kRead).ahead());
}

TEST(ReadPace, SamplesThatMakeNobodyWaitAreNotReadAhead) {
  ReadPace pace(storage::ReadWait::kRead);
  pace.NoteWork(1000, 1000 * 400 * kMicro);
  pace.NoteWait(255, 0);
  EXPECT_TRUE(pace.ahead());  // too few to tell
  pace.NoteWait(1, 0);
  EXPECT_FALSE(pace.ahead());
  // Nor those that cost less than a hand-over does.
  pace.NoteWork(256, 256 * 1 * kMicro);
  pace.NoteWait(256, 256 * 1 * kMicro);
  EXPECT_FALSE(pace.ahead());
}

TEST(ReadPace, ATenthOfTheTimeSpentWaitingIsEnough) {
  ReadPace pace(storage::ReadWait::kPages);
  pace.NoteWork(256, 256 * 400 * kMicro);
  pace.NoteWait(256, 256 * 30 * kMicro);
  EXPECT_FALSE(pace.ahead());
  pace.NoteWork(256, 256 * 400 * kMicro);
  pace.NoteWait(256, 256 * 50 * kMicro);
  EXPECT_TRUE(pace.ahead());
  // It stays while there is something to gain.
  pace.NoteWork(256, 256 * 400 * kMicro);
  pace.NoteWait(256, 256 * 30 * kMicro);
  EXPECT_TRUE(pace.ahead());
  pace.NoteWork(256, 256 * 400 * kMicro);
  pace.NoteWait(256, 256 * 10 * kMicro);
  EXPECT_FALSE(pace.ahead());
}

TEST(ReadPace, OneLongWaitIsEnoughToTell) {
  ReadPace pace(storage::ReadWait::kPages);
  pace.NoteWork(1, 30'000 * kMicro);
  pace.NoteWait(1, 25'000 * kMicro);
  EXPECT_TRUE(pace.ahead());
}

}  // namespace
}  // namespace millrace::pipeline
