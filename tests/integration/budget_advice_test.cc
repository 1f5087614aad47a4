// The budget that millrace-server names when it refuses one, given back to it.
// "The smallest that works" left nothing for a row of the presets, or reckoned
// with fewer threads than the larger budget has room for: it was refused again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/audit_data.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

ProgramResult Check(std::vector<std::string> flags, int budget_mib) {
  flags.insert(flags.begin(), ProgramPath("server/millrace-server"));
  flags.push_back("--check_config");
  flags.push_back(absl::StrCat("--memory_budget=", budget_mib, "MiB"));
  return RunProgram(flags);
}

// MiB; 0 where none is named.
int Advised(const std::string& sentence) {
  const std::string flag = "--memory_budget=";
  const size_t at = sentence.rfind(flag);
  return at == std::string::npos
             ? 0
             : std::atoi(sentence.c_str() + at + flag.size());
}

class BudgetAdviceTest : public ::testing::Test {
 protected:
  // Refused with `budget_mib`, started with what is named then, and refused
  // with a MiB less.
  static void ExpectSmallest(const std::vector<std::string>& flags,
                             int budget_mib) {
    const ProgramResult refused = Check(flags, budget_mib);
    ASSERT_EQ(refused.exit_code, 1) << refused.out << refused.err;
    const int advised = Advised(refused.err);
    ASSERT_GT(advised, budget_mib) << refused.err;
    const ProgramResult again = Check(flags, advised);
    EXPECT_EQ(again.exit_code, 0) << refused.err << again.err;
    const ProgramResult less = Check(flags, advised - 1);
    EXPECT_EQ(less.exit_code, 1) << advised;
    EXPECT_EQ(Advised(less.err), advised) << less.err;
  }

  static std::string Photos() {
    static const std::string* const flag = new std::string(
        Pack("photos", "imagefolder", WriteImageFolder(12), "lmdb", 1));
    return *flag;
  }
};

TEST_F(BudgetAdviceTest, OfAFixedNumberOfThreads) {
  ExpectSmallest({Photos(), "--threads=3"}, 16);
}

TEST_F(BudgetAdviceTest, OfANumberThatAdapts) {
  ExpectSmallest({Photos()}, 16);
  ExpectSmallest({Photos(), "--initial_threads=16"}, 16);
}

// Mixing needs two images a thread, so that more threads need more.
TEST_F(BudgetAdviceTest, OfABatchThatGrowsWithTheThreads) {
  const std::string pipeline = NewTempDir() + "/mix.textproto";
  WriteFile(pipeline,
            "batch_size: 2 last_batch: LAST_BATCH_PAD "
            "transforms { decode_image {} } "
            "transforms { center_crop { height: 1500 width: 1500 } } "
            "transforms { mix_up { alpha: 0.2 } }");
  ExpectSmallest(
      {Photos(), "--initial_threads=16", "--check_pipeline=" + pipeline}, 80);
  ExpectSmallest({Photos(), "--check_pipeline=" + pipeline}, 16);
}

}  // namespace
}  // namespace millrace::testing
