#include "trainer/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <string>

#include "trainer/files.h"
#include "trainer/progress.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Summary, IsJsonWithTheKeysThatOthersRead) {
  TrainSummary summary;
  summary.dataset = "a\"b\\c\n";
  summary.epoch_seconds = {1.5, 2};
  summary.loss = {0.25, std::nan("")};
  summary.stall_share = 0.125;
  const std::string json = ToJson(summary);
  EXPECT_THAT(json, HasSubstr("\"dataset\": \"a\\\"b\\\\c\\u000a\""));
  EXPECT_THAT(json, HasSubstr("\"epoch_seconds\": [1.5, 2]"));
  EXPECT_THAT(json, HasSubstr("\"loss\": [0.25, null]"));
  EXPECT_THAT(json, HasSubstr("\"stall_share\": 0.125"));
  EXPECT_THAT(json, HasSubstr("\"eval_accuracy\": null"));
  summary.eval_accuracy = 0.875;
  EXPECT_THAT(ToJson(summary), HasSubstr("\"eval_accuracy\": 0.875"));
}

TEST(Progress, SaysWhereTheRunIs) {
  EXPECT_EQ(FormatState({.epoch = 0,
                         .epochs = 8,
                         .step = 120,
                         .steps = 468,
                         .loss = 0.53124,
                         .samples_per_second = 18204.4,
                         .stall_share = 0.012}),
            "epoch 1/8 step 120/468  loss 0.5312  18204 samples/s  waiting "
            "1.2 %");
  Progress lines({.log_every = 10});
  EXPECT_TRUE(lines.Wants(20, 100));
  EXPECT_FALSE(lines.Wants(21, 100));
  EXPECT_FALSE(Progress({.enabled = false, .log_every = 1}).Wants(1, 1));
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

TEST_F(Files, ThatCannotBeWrittenAreKnownBefore) {
  EXPECT_TRUE(absl::IsNotFound(CheckWritable(folder_ + "/none/summary.json")));
  EXPECT_THAT(std::string(CheckWritable(folder_).message()),
              HasSubstr("is a folder"));
  EXPECT_FALSE(WriteFileAtomically(folder_ + "/none/x", "x").ok());
  EXPECT_TRUE(absl::IsNotFound(ReadFile(folder_ + "/none", 1).status()));
}

}  // namespace
}  // namespace millrace
