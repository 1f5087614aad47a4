#include "trainer/audit_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "client/audit/audit_log.h"
#include "client/audit/audit_record.h"
#include "tests/testing/subprocess.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void Log(const std::string& path, uint64_t attempt, uint64_t batches) {
  AuditRun run;
  run.set_attempt(attempt);
  run.set_steps_per_epoch(100);
  auto writer = audit::AuditWriter::Open(path, run);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (uint64_t step = 0; step < batches; ++step) {
    ASSERT_TRUE(
        (*writer)->Append({0, step}, audit::AuditRecord{.samples = 8}).ok());
  }
}

TEST(AuditComplete, CountsTheRecordsOfAStartOfTheJob) {
  const std::string path = testing::NewTempDir() + "/rank-00000.mraudit";
  Log(path, 1, 7);
  Log(path, 2, 5);
  EXPECT_TRUE(CheckAuditIsComplete(path, 1, 7).ok());
  EXPECT_TRUE(CheckAuditIsComplete(path, 2, 5).ok());
  const absl::Status lost = CheckAuditIsComplete(path, 2, 6);
  EXPECT_TRUE(absl::IsDataLoss(lost));
  EXPECT_THAT(std::string(lost.message()),
              AllOf(HasSubstr(path), HasSubstr("has 5 of the 6 batches")));
}

TEST(AuditComplete, MissesWhatADiskHadNoRoomFor) {
  const std::string path = testing::NewTempDir() + "/rank-00000.mraudit";
  EXPECT_TRUE(CheckAuditIsComplete(path, 1, 0).ok()) << "nothing was given";
  EXPECT_THAT(std::string(CheckAuditIsComplete(path, 1, 1).message()),
              HasSubstr("No such file"));
  testing::WriteFile(path, "");
  EXPECT_THAT(std::string(CheckAuditIsComplete(path, 1, 3).message()),
              HasSubstr("has 0 of the 3 batches"));
  Log(path, 1, 3);
  EXPECT_TRUE(CheckAuditIsComplete(path, 1, 3).ok());
  ASSERT_EQ(truncate(path.c_str(),
                     static_cast<off_t>(testing::ReadFile(path).size()) - 20),
            0);
  EXPECT_FALSE(CheckAuditIsComplete(path, 1, 3).ok());
}

}  // namespace
}  // namespace millrace::trainer
