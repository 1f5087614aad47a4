// What audit logs hold after crashes, and what logs of several ranks and starts
// prove together.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/audit/audit_check.h"
#include "client/audit/audit_log.h"
#include "client/audit/audit_record.h"

namespace millrace::audit {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kBatch = 12;
constexpr uint64_t kSteps = 10;

// The sample at a position: each epoch has an order of its own.
int64_t SampleAt(uint64_t epoch, uint64_t position) {
  return static_cast<int64_t>((position * 7 + epoch * 31) % (kBatch * kSteps));
}

// A batch as a data server lays it out.
struct FakeBatch {
  BatchHeader header;
  std::string payload;
};

FakeBatch MakeBatch(uint64_t first, const std::vector<int64_t>& indices) {
  FakeBatch batch;
  batch.header.set_rows(indices.size());
  batch.header.set_first_position(first);
  TensorHeader* const tensor = batch.header.add_tensors();
  tensor->set_name("sample_index");
  tensor->set_dtype(DTYPE_INT64);
  batch.payload.assign(reinterpret_cast<const char*>(indices.data()),
                       indices.size() * 8);
  batch.header.set_payload_bytes(batch.payload.size());
  return batch;
}

AuditRecord Record(const FakeBatch& batch) {
  const auto record = RecordOf(
      batch.header, {reinterpret_cast<const uint8_t*>(batch.payload.data()),
                     batch.payload.size()});
  EXPECT_TRUE(record.ok()) << record.status();
  return record.value_or(AuditRecord());
}

AuditRecord RecordAt(Position position, uint32_t rank, uint32_t world) {
  const uint64_t rows = kBatch / world;
  const uint64_t first = position.step * kBatch + rank * rows;
  std::vector<int64_t> indices;
  for (uint64_t i = 0; i < rows; ++i) {
    indices.push_back(SampleAt(position.epoch, first + i));
  }
  return Record(MakeBatch(first, indices));
}

class AuditTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/auditXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  std::string PathOf(uint32_t rank) const {
    return absl::StrCat(folder_, "/rank-", rank, ".mraudit");
  }

  AuditRun Run(uint64_t attempt, uint32_t rank, uint32_t world) const {
    AuditRun run;
    run.set_attempt(attempt);
    run.set_rank(rank);
    run.set_world_size(world);
    run.set_plan_hash("plan");
    run.set_fingerprint("content");
    run.mutable_resolved_spec()->add_sources()->set_dataset("digits");
    run.set_steps_per_epoch(kSteps);
    run.set_samples_per_epoch(kSteps * kBatch);
    return run;
  }

  // One start of a rank: steps [from, to), counted over all epochs.
  void Write(uint64_t attempt, uint32_t rank, uint32_t world, uint64_t from,
             uint64_t to, const std::string& path = "") {
    auto writer = AuditWriter::Open(path.empty() ? PathOf(rank) : path,
                                    Run(attempt, rank, world));
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (uint64_t step = from; step < to; ++step) {
      const Position position = {step / kSteps, step % kSteps};
      const absl::Status status =
          (*writer)->Append(position, RecordAt(position, rank, world));
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  void WriteAll(uint64_t attempt, uint32_t world, uint64_t from, uint64_t to) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      Write(attempt, rank, world, from, to);
    }
  }

  absl::StatusOr<AuditResult> TryCheck(std::vector<std::string> paths = {}) {
    for (uint32_t rank = 0; rank < 12 && paths.size() <= rank; ++rank) {
      if (access(PathOf(rank).c_str(), F_OK) != 0) break;
      paths.push_back(PathOf(rank));
    }
    std::vector<AuditFile> files;
    for (const std::string& path : paths) {
      auto file = ReadAuditFile(path);
      if (!file.ok()) return file.status();
      files.push_back(*std::move(file));
    }
    return CheckAuditLogs(files);
  }
  // Leaves what the logs prove in result_.
  void Check(std::vector<std::string> paths = {}) {
    absl::StatusOr<AuditResult> result = TryCheck(std::move(paths));
    ASSERT_TRUE(result.ok()) << result.status();
    result_ = *std::move(result);
  }

  static std::string Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void SetBytes(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  std::string folder_;
  AuditResult result_;
};

TEST_F(AuditTest, ARecordSaysWhichSamplesInWhichPlaces) {
  const AuditRecord record = Record(MakeBatch(24, {5, 7, -1, 9}));
  EXPECT_EQ(record.samples, 3) << "padding is none";
  EXPECT_EQ(record.sample_sum,
            SampleHash(0, 5) + SampleHash(0, 7) + SampleHash(0, 9));
  const AuditRecord other_order = Record(MakeBatch(24, {7, 5, -1, 9}));
  EXPECT_EQ(other_order.sample_sum, record.sample_sum);
  EXPECT_NE(other_order.ids, record.ids);
  EXPECT_NE(Record(MakeBatch(28, {5, 7, -1, 9})).ids, record.ids);
  EXPECT_NE(SampleHash(1, 5), SampleHash(0, 5));

  FakeBatch none = MakeBatch(0, {1});
  none.header.mutable_tensors(0)->set_name("index");
  EXPECT_TRUE(absl::IsDataLoss(
      RecordOf(none.header,
               {reinterpret_cast<const uint8_t*>(none.payload.data()), 8})
          .status()));
}

TEST_F(AuditTest, SamplesOfSeveralSourcesAreToldApart) {
  FakeBatch batch = MakeBatch(0, {3, 3});
  TensorHeader* const source = batch.header.add_tensors();
  source->set_name("source_index");
  source->set_dtype(DTYPE_INT16);
  source->set_offset(batch.payload.size());
  batch.payload += std::string("\0\0\1\0", 4);
  const AuditRecord record = Record(batch);
  EXPECT_EQ(record.sample_sum, SampleHash(0, 3) + SampleHash(1, 3));
  batch.payload[16] = 1;
  batch.payload[18] = 0;
  EXPECT_NE(Record(batch).ids, record.ids);
}

TEST_F(AuditTest, ACompleteRunIsProved) {
  WriteAll(1, 3, 0, 2 * kSteps);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems, IsEmpty());
  EXPECT_THAT(result_.notes, IsEmpty());
  ASSERT_THAT(result_.epochs, SizeIs(2));
  for (const AuditEpoch& epoch : result_.epochs) {
    EXPECT_EQ(epoch.proof, AuditEpoch::kProved);
    EXPECT_EQ(epoch.samples, kSteps * kBatch);
    EXPECT_EQ(epoch.steps, kSteps);
  }
  EXPECT_EQ(result_.records, 3 * 2 * kSteps);
  EXPECT_EQ(result_.superseded, 0);
}

TEST_F(AuditTest, RestartsTakeTheirPlaceAlsoWithAnotherWorld) {
  // Killed in step 7, resumed from a checkpoint of step 4 with 4 ranks, which
  // go on into the next epoch; then from one of step 12 with 1.
  WriteAll(10, 2, 0, 7);
  WriteAll(20, 4, 4, 15);
  WriteAll(30, 1, 12, 20);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems, IsEmpty());
  ASSERT_THAT(result_.epochs, SizeIs(2));
  EXPECT_EQ(result_.epochs[0].proof, AuditEpoch::kProved);
  EXPECT_EQ(result_.epochs[1].proof, AuditEpoch::kProved);
  EXPECT_EQ(result_.attempts, 3);
  EXPECT_EQ(result_.superseded, 2 * 3 + 4 * 3);
}

TEST_F(AuditTest, AnEarlierCheckpointTakesAwayTwoStarts) {
  WriteAll(1, 2, 0, 8);
  WriteAll(2, 2, 6, 9);
  WriteAll(3, 2, 3, 10);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems, IsEmpty());
  EXPECT_EQ(result_.epochs[0].proof, AuditEpoch::kProved);
}

TEST_F(AuditTest, StepsThatWereLostAreNamed) {
  // Resumed one step further than where it ended.
  WriteAll(1, 2, 0, 5);
  WriteAll(2, 2, 6, 10);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(
      result_.problems,
      ElementsAre(
          HasSubstr("lost: rank 0 of 2 did not receive epoch 0 step 5"),
          HasSubstr("lost: rank 1 of 2 did not receive epoch 0 step 5")));
  EXPECT_EQ(result_.epochs[0].proof, AuditEpoch::kIncomplete);
}

TEST_F(AuditTest, ARankWithoutALogIsNamed) {
  Write(1, 0, 2, 0, 10);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems, ElementsAre(HasSubstr("rank 1 of 2 has no log "
                                                      "of the start at epoch "
                                                      "0 step 0")));
}

TEST_F(AuditTest, TwoLogsOfOneRankAreDoubled) {
  WriteAll(1, 2, 0, 10);
  const std::string copy = folder_ + "/copy.mraudit";
  Write(1, 1, 2, 3, 5, copy);
  ASSERT_NO_FATAL_FAILURE(Check({PathOf(0), PathOf(1), copy}));
  ASSERT_FALSE(result_.problems.empty());
  EXPECT_THAT(result_.problems[0],
              HasSubstr("doubled: rank 1 of 2 received epoch 0 step 3 to "
                        "epoch 0 step 4"));
}

TEST_F(AuditTest, ASampleThatCameTwiceIsFound) {
  WriteAll(1, 2, 0, 9);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    auto writer = AuditWriter::Open(PathOf(rank), Run(1, rank, 2));
    ASSERT_TRUE(writer.ok());
    // The samples of step 8 again, under the name of step 9.
    ASSERT_TRUE((*writer)->Append({0, 9}, RecordAt({0, 8}, rank, 2)).ok());
  }
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_EQ(result_.epochs[0].proof, AuditEpoch::kWrong);
  EXPECT_THAT(result_.problems, ElementsAre(HasSubstr("not each sample once")));
}

TEST_F(AuditTest, WhatADroppedRestOrASubsetLeavesIsOnlyCounted) {
  auto writer = AuditWriter::Open(PathOf(0), [this] {
    AuditRun run = Run(1, 0, 1);
    run.set_samples_per_epoch(kSteps * kBatch + 5);
    run.set_dropped_per_epoch(5);
    return run;
  }());
  ASSERT_TRUE(writer.ok());
  for (uint64_t step = 0; step < kSteps; ++step) {
    ASSERT_TRUE((*writer)->Append({0, step}, RecordAt({0, step}, 0, 1)).ok());
  }
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_EQ(result_.epochs[0].proof, AuditEpoch::kCounted);
  EXPECT_TRUE(HasKnownSamples(result_.run));
}

TEST_F(AuditTest, TheEndOfAKilledJobIsNoLoss) {
  Write(1, 0, 2, 0, 6);
  Write(1, 1, 2, 0, 5);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems, IsEmpty());
  EXPECT_THAT(result_.notes, ElementsAre(HasSubstr("the job ended there")));
  EXPECT_EQ(result_.epochs[0].steps, 5);
  EXPECT_EQ(result_.begin, (Position{0, 0}));
  EXPECT_EQ(result_.end, (Position{0, 5}));
  // It was 1: nothing was repeated.
  EXPECT_EQ(result_.superseded, 0);
  // Further apart they were not killed together.
  Write(1, 0, 2, 6, 9);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems,
              ElementsAre(HasSubstr("lost: rank 1 of 2 did not receive epoch 0 "
                                    "step 5 to epoch 0 step 8")));
}

TEST_F(AuditTest, AJobMayBeKilledInTheFirstStepOfAStart) {
  WriteAll(1, 2, 0, 10);
  Write(2, 0, 2, 10, 11);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems, IsEmpty());
  EXPECT_THAT(result_.notes, ElementsAre(HasSubstr("the job ended there")));
  EXPECT_EQ(result_.epochs[0].proof, AuditEpoch::kProved);
  EXPECT_EQ(result_.superseded, 0) << "no later start replaced the step";
  EXPECT_EQ(result_.end, (Position{1, 0}));
  // Later than that it is lost, or its log is.
  Write(2, 0, 2, 11, 14);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems, ElementsAre(HasSubstr("rank 1 of 2 has no log "
                                                      "of the start at epoch "
                                                      "1 step 0")));
}

TEST_F(AuditTest, ARankThatNeverHadALogIsNamedAlsoAfterOneStep) {
  Write(1, 0, 2, 0, 1);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems, ElementsAre(HasSubstr("rank 1 of 2 has no log "
                                                      "of the start at epoch "
                                                      "0 step 0")));
}

TEST_F(AuditTest, ALoaderThatWasSentBackCountsWhatItGotThen) {
  auto writer = AuditWriter::Open(PathOf(0), Run(1, 0, 1));
  ASSERT_TRUE(writer.ok());
  for (const uint64_t step : {0, 1, 2, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    ASSERT_TRUE((*writer)->Append({0, step}, RecordAt({0, step}, 0, 1)).ok());
  }
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems, IsEmpty());
  EXPECT_EQ(result_.epochs[0].proof, AuditEpoch::kProved);
  EXPECT_EQ(result_.superseded, 3);
}

TEST_F(AuditTest, LogsOfDifferentPlansAreRefused) {
  Write(1, 0, 2, 0, 5);
  AuditRun other = Run(1, 1, 2);
  other.set_fingerprint("other content");
  auto writer = AuditWriter::Open(PathOf(1), other);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append({0, 0}, RecordAt({0, 0}, 1, 2)).ok());
  const auto result = TryCheck();
  EXPECT_TRUE(absl::IsInvalidArgument(result.status()));
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("other content"));
}

// A job's log took the steps of another one, and neither could be proved.
TEST_F(AuditTest, ALogIsGoneOnWithByTheSameJobAlone) {
  Write(1, 0, 2, 0, 5);
  const std::string before = Bytes(PathOf(0));
  AuditRun data = Run(2, 0, 2);
  data.set_fingerprint("other content");
  AuditRun order = Run(2, 0, 2);
  order.set_plan_hash("other plan");
  order.mutable_resolved_spec()->set_seed(7);
  for (const AuditRun& other : {data, order}) {
    const auto writer = AuditWriter::Open(PathOf(0), other);
    EXPECT_TRUE(absl::IsInvalidArgument(writer.status())) << writer.status();
    EXPECT_THAT(std::string(writer.status().message()),
                AllOf(HasSubstr("the audit log " + PathOf(0)),
                      HasSubstr("plan 706c616e over content content"),
                      HasSubstr(other.fingerprint()),
                      HasSubstr(absl::BytesToHexString(other.plan_hash())),
                      HasSubstr("give every job a folder of its own")));
  }
  EXPECT_THAT(
      std::string(AuditWriter::Open(PathOf(0), order).status().message()),
      HasSubstr("they differ in seed (0 in the log, 7 in this run)"));
  EXPECT_EQ(Bytes(PathOf(0)), before);
  // Restarts with another number of ranks are the same job.
  EXPECT_TRUE(AuditWriter::Open(PathOf(0), Run(2, 0, 4)).ok());
}

TEST_F(AuditTest, AFileThatIsNoLogIsNotAppendedTo) {
  SetBytes(PathOf(0), "epoch 0 step 0 loss 2.3, and no audit log");
  const auto writer = AuditWriter::Open(PathOf(0), Run(1, 0, 1));
  EXPECT_TRUE(absl::IsInvalidArgument(writer.status()));
  EXPECT_THAT(std::string(writer.status().message()),
              AllOf(HasSubstr(PathOf(0) + " is not an audit log"),
                    HasSubstr("name another file")));
  // A start that was killed in its first write leaves a part of a head.
  Write(1, 1, 2, 0, 3);
  for (const size_t length : {1, 16, 40}) {
    SetBytes(PathOf(1), Bytes(PathOf(1)).substr(0, length));
    EXPECT_TRUE(AuditWriter::Open(PathOf(1), Run(2, 1, 2)).ok()) << length;
    Write(2, 1, 2, 0, 3);
  }
}

// Opening a FIFO waits for a program at its other end: a training hung for ten
// minutes, and only SIGKILL ended it.
TEST_F(AuditTest, WhatIsNoFileIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(PathOf(0).c_str(), 0600), 0);
  ASSERT_EQ(mkdir(PathOf(1).c_str(), 0700), 0);
  for (const int rank : {0, 1}) {
    for (const absl::Status& status :
         {AuditWriter::Open(PathOf(rank), Run(1, 0, 1)).status(),
          ReadAuditFile(PathOf(rank)).status()}) {
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("the audit log " + PathOf(rank) + " is a " +
                            (rank == 0 ? "FIFO" : "folder")));
    }
  }
}

// As an earlier version wrote it.
TEST_F(AuditTest, OneFileOfTwoJobsIsNamedOnce) {
  Write(1, 0, 1, 0, 5);
  AuditRun other = Run(2, 0, 1);
  other.set_plan_hash("other plan");
  auto writer = AuditWriter::Open(PathOf(1), other);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append({0, 0}, RecordAt({0, 0}, 0, 1)).ok());
  SetBytes(PathOf(0), Bytes(PathOf(0)) + Bytes(PathOf(1)));
  const auto result = TryCheck({PathOf(0)});
  EXPECT_TRUE(absl::IsInvalidArgument(result.status()));
  const std::string why(result.status().message());
  EXPECT_THAT(why, HasSubstr("has steps of two jobs"));
  EXPECT_EQ(why.find(PathOf(0)), why.rfind(PathOf(0))) << why;
}

TEST_F(AuditTest, AWriteThatWasCutShortCostsThatRecordAlone) {
  Write(1, 0, 1, 0, 6);
  const std::string bytes = Bytes(PathOf(0));
  SetBytes(PathOf(0), bytes.substr(0, bytes.size() - 11));
  Write(2, 0, 1, 5, 10);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems, IsEmpty());
  EXPECT_THAT(result_.notes, ElementsAre(HasSubstr("32 bytes outside the "
                                                   "records")));
  EXPECT_EQ(result_.epochs[0].proof, AuditEpoch::kProved);
}

TEST_F(AuditTest, EveryDamagedByteIsNoticed) {
  Write(1, 0, 1, 0, 3);
  const std::string whole = Bytes(PathOf(0));
  for (size_t i = 0; i < whole.size(); ++i) {
    SCOPED_TRACE(i);
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    SetBytes(PathOf(0), damaged);
    const auto file = ReadAuditFile(PathOf(0));
    if (!file.ok()) {  // no head is left
      EXPECT_TRUE(absl::IsDataLoss(file.status())) << file.status();
      EXPECT_THAT(std::string(file.status().message()),
                  HasSubstr(" damaged: "));
      continue;
    }
    uint64_t records = 0;
    for (const AuditSegment& segment : file->segments) {
      records += segment.records;
    }
    // The zeros behind the head are no part of it.
    if (records == 3) {
      EXPECT_EQ(whole[i], 0);
      EXPECT_LT(i, whole.size() - 3 * 32);
      EXPECT_FALSE(file->damaged_at.has_value());
    } else {
      EXPECT_GT(file->skipped_bytes, 0);
      // The last record may have been cut short, the others not.
      if (i < whole.size() - 32) {
        EXPECT_EQ(file->damaged_at, i / 32 * 32);
      }
    }
  }
  for (size_t length = 0; length < whole.size(); ++length) {
    SetBytes(PathOf(0), whole.substr(0, length));
    const auto file = ReadAuditFile(PathOf(0));
    if (!file.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(file.status())) << length;
      EXPECT_THAT(std::string(file.status().message()),
                  HasSubstr(" is cut off or damaged: it has "))
          << length;
    }
    if (file.ok() && !file->segments.empty()) {
      EXPECT_LE(file->segments[0].records, 2);
      EXPECT_FALSE(file->damaged_at.has_value()) << length;
    }
  }
  SetBytes(PathOf(0), "epoch 0 step 0 loss 2.3, and no audit log");
  const absl::Status other = ReadAuditFile(PathOf(0)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("is not an audit log"));
}

// A flipped bit in the version was taken for a newer format, which `audit`
// reports as a mistake on the command line.
TEST_F(AuditTest, ANewerFormatIsToldFromADamagedVersion) {
  Write(1, 0, 1, 0, 3);
  std::string bytes = Bytes(PathOf(0));
  bytes[4] = 2;
  SetBytes(PathOf(0), bytes);
  EXPECT_TRUE(absl::IsDataLoss(ReadAuditFile(PathOf(0)).status()));
  bytes[24] ^= 1;  // the hash, which a newer version computes otherwise
  SetBytes(PathOf(0), bytes);
  const absl::Status newer = ReadAuditFile(PathOf(0)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(newer)) << newer;
  EXPECT_THAT(std::string(newer.message()), HasSubstr("has format version 2"));
}

// Records behind the damage were left out with a note, and the audit of a job
// that had ended there passed.
TEST_F(AuditTest, DamageInTheMiddleOfALogIsAProblem) {
  Write(1, 0, 1, 0, 4);
  const size_t first_start = Bytes(PathOf(0)).size();
  Write(2, 0, 1, 4, 10);
  const std::string whole = Bytes(PathOf(0));
  const size_t records_of_first = first_start - 4 * 32;
  struct Case {
    size_t at;     // that is damaged
    size_t bytes;  // so many, by ones
    size_t named;  // the offset that is named
  };
  for (const auto& [at, bytes, named] : {
           Case{records_of_first + 40, 1, records_of_first + 32},
           Case{records_of_first, 4 * 32, records_of_first},
           Case{first_start + 9, 1, first_start},   // the second head
           Case{first_start + 40, 1, first_start},  // its message
           Case{whole.size() - 64, 1, whole.size() - 64},
       }) {
    SCOPED_TRACE(at);
    std::string damaged = whole;
    for (size_t i = at; i < at + bytes; ++i) {
      damaged[i] = static_cast<char>(~damaged[i]);
    }
    SetBytes(PathOf(0), damaged);
    ASSERT_NO_FATAL_FAILURE(Check());
    EXPECT_TRUE(result_.damaged);
    ASSERT_GE(result_.problem_count, 1);
    EXPECT_THAT(result_.problems[0],
                AllOf(HasSubstr("damaged: the audit log " + PathOf(0)),
                      HasSubstr(absl::StrCat("offset ", named, " ")),
                      HasSubstr("damaged or edited")));
  }
}

// "The logs hold no record", as though the wrong folder had been given.
TEST_F(AuditTest, ADamagedFirstRecordIsNamed) {
  Write(1, 0, 1, 0, 4);
  std::string bytes = Bytes(PathOf(0));
  const size_t records = bytes.size() - 4 * 32;
  bytes[records + 8] = static_cast<char>(~bytes[records + 8]);
  SetBytes(PathOf(0), bytes);
  const absl::Status status = TryCheck().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(PathOf(0)),
                    HasSubstr(absl::StrCat("offset ", records, " "))));
}

// A start stops at its first error: nothing of it follows a write that was cut
// short.
TEST_F(AuditTest, ARecordThatIsMissingWithinAStartIsDamage) {
  auto writer = AuditWriter::Open(PathOf(0), Run(1, 0, 1));
  ASSERT_TRUE(writer.ok());
  const auto append = [&](uint64_t step) {
    ASSERT_TRUE((*writer)->Append({0, step}, RecordAt({0, step}, 0, 1)).ok());
  };
  for (const uint64_t step : {0, 1, 2}) append(step);
  const size_t end = Bytes(PathOf(0)).size();
  for (const uint64_t step : {1, 2, 3})
    append(step);  // sent back: another head
  std::string bytes = Bytes(PathOf(0));
  std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(end) - 32, 32, 0);
  SetBytes(PathOf(0), bytes);
  const auto file = ReadAuditFile(PathOf(0));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->damaged_at, end - 32);
}

TEST_F(AuditTest, SeveralWritesThatWereCutShortAreNoDamage) {
  Write(1, 0, 1, 0, 6);
  std::string bytes = Bytes(PathOf(0));
  const std::string head = bytes.substr(0, 40);
  const auto cut_to = [&bytes](size_t size) {
    bytes.resize(size);
    bytes.resize((size + 31) / 32 * 32);
  };
  cut_to(bytes.size() - 11);
  for (int i = 0; i < 2; ++i) {
    bytes += head;
    cut_to(bytes.size());
  }
  SetBytes(PathOf(0), bytes);
  Write(4, 0, 1, 5, 10);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_FALSE(result_.damaged);
  EXPECT_THAT(result_.problems, IsEmpty());
  EXPECT_EQ(result_.epochs[0].proof, AuditEpoch::kProved);
}

// A machine that loses its power may leave blocks of zeros.
TEST_F(AuditTest, ZerosAtTheEndOfAStartAreAWriteThatWasCutShort) {
  Write(1, 0, 1, 0, 6);
  SetBytes(PathOf(0), Bytes(PathOf(0)) + std::string(4096, '\0'));
  Write(2, 0, 1, 6, 10);
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_THAT(result_.problems, IsEmpty());
  EXPECT_THAT(result_.notes, ElementsAre(HasSubstr("a write was cut short")));
}

// A log that had been emptied, or cut off within its head, was appended to
// without a word.
TEST_F(AuditTest, ALogThatBeginsAnewIsNamed) {
  Write(1, 0, 1, 0, 3);
  const std::string whole = Bytes(PathOf(0));
  for (const size_t length : {0, 1, 31, 40}) {
    SCOPED_TRACE(length);
    SetBytes(PathOf(0), whole.substr(0, length));
    ::testing::internal::CaptureStderr();
    Write(2, 0, 1, 0, 10);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("the audit log " + PathOf(0)),
                      HasSubstr(length == 0 ? "no bytes" : "no whole head"),
                      HasSubstr("starts the log again")));
    ASSERT_NO_FATAL_FAILURE(Check());
    EXPECT_THAT(result_.problems, IsEmpty());
  }
  // What is more than the first write left behind is no cut.
  std::string damaged = whole;
  damaged[40] ^= 1;
  SetBytes(PathOf(0), damaged);
  const auto writer = AuditWriter::Open(PathOf(0), Run(2, 0, 1));
  EXPECT_TRUE(absl::IsInvalidArgument(writer.status())) << writer.status();
  EXPECT_EQ(Bytes(PathOf(0)), damaged);
}

TEST_F(AuditTest, ADamagedLogIsNamedWhenItIsAppendedTo) {
  Write(1, 0, 1, 0, 3);
  std::string bytes = Bytes(PathOf(0));
  bytes[bytes.size() - 60] ^= 1;
  SetBytes(PathOf(0), bytes);
  ::testing::internal::CaptureStderr();
  Write(2, 0, 1, 3, 10);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("the audit log " + PathOf(0)),
                    HasSubstr(absl::StrCat("offset ", bytes.size() - 64))));
}

// A training that was refused left a new, empty log behind.
TEST_F(AuditTest, ALogWithoutARecordIsNotLeftBehind) {
  ASSERT_TRUE(AuditWriter::Open(PathOf(0), Run(1, 0, 1)).ok());
  EXPECT_NE(access(PathOf(0).c_str(), F_OK), 0);
  // What was there is not removed.
  SetBytes(PathOf(0), "");
  ASSERT_TRUE(AuditWriter::Open(PathOf(0), Run(1, 0, 1)).ok());
  EXPECT_EQ(access(PathOf(0).c_str(), F_OK), 0);
  Write(2, 1, 2, 0, 1);
  EXPECT_EQ(access(PathOf(1).c_str(), F_OK), 0);
}

TEST_F(AuditTest, TwoWritersOfOneFileAreRefused) {
  auto first = AuditWriter::Open(PathOf(0), Run(1, 0, 1));
  ASSERT_TRUE(first.ok());
  const auto second = AuditWriter::Open(PathOf(0), Run(2, 0, 1));
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("another process writes"));
}

TEST_F(AuditTest, AFolderThatIsNotThereIsNamed) {
  const auto writer = AuditWriter::Open(folder_ + "/none/x", Run(1, 0, 1));
  EXPECT_THAT(std::string(writer.status().message()),
              HasSubstr(folder_ + "/none/x"));
}

}  // namespace
}  // namespace millrace::audit
