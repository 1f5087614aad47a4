#include "trainer/step_losses.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using testing::ReadFile;
using testing::WriteFile;

class StepLossesFile : public ::testing::Test {
 protected:
  const std::string path_ = testing::NewTempDir() + "/losses";
};

TEST_F(StepLossesFile, HasEachStepAsSoonAsItIsTold) {
  WriteFile(path_, "of a run before\n");
  StepLosses losses(path_, std::nullopt);
  EXPECT_EQ(ReadFile(path_), "of a run before\n") << "nothing is known yet";
  ASSERT_TRUE(losses.Append(0, 3, {0.5, 0.25}).ok());
  EXPECT_EQ(ReadFile(path_), "0 3 0.5\n0 4 0.25\n");
  ASSERT_TRUE(losses.Append(1, 0, {1}).ok());
  ASSERT_TRUE(losses.Append(1, 1, {}).ok());
  EXPECT_EQ(ReadFile(path_), "0 3 0.5\n0 4 0.25\n1 0 1\n");
}

// Steps after the checkpoint are trained again; the last line was cut off.
TEST_F(StepLossesFile, GoesOnWhereTheRunGoesOn) {
  WriteFile(path_, "0 8 0.5\n0 9 0.4\n1 0 0.3\n1 1 0.2\n1 2 0.");
  StepLosses losses(path_, Position{1, 1});
  ASSERT_TRUE(losses.Append(1, 1, {0.125}).ok());
  EXPECT_EQ(ReadFile(path_), "0 8 0.5\n0 9 0.4\n1 0 0.3\n1 1 0.125\n");
  // There need be no file yet.
  StepLosses fresh(path_ + "2", Position{1, 1});
  ASSERT_TRUE(fresh.Append(1, 1, {0.125}).ok());
  EXPECT_EQ(ReadFile(path_ + "2"), "1 1 0.125\n");
}

TEST_F(StepLossesFile, KeepsWhatCouldNotBeWrittenForTheNextTime) {
  const std::string folder = testing::NewTempDir() + "/none";
  StepLosses losses(folder + "/losses", std::nullopt);
  EXPECT_TRUE(absl::IsNotFound(losses.Append(0, 0, {0.5})));
  ASSERT_EQ(testing::RunProgram({"/bin/mkdir", folder}).exit_code, 0);
  EXPECT_TRUE(losses.Append(0, 1, {}).ok());
  EXPECT_EQ(ReadFile(folder + "/losses"), "0 0 0.5\n");
}

}  // namespace
}  // namespace millrace
