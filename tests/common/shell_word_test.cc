#include "common/shell_word.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

TEST(ShellWord, LeavesPlainPathsAsTheyAre) {
  for (const char* text : {"bad/epoch-0-step-1-rank-0/batch.json", "/a_b.c",
                           "data-1:7001,data-2:7001", "--run=a+b@c%d"}) {
    EXPECT_EQ(ShellWord(text), text);
  }
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("my run's"), "'my run'\\''s'");
}

TEST(ShellWord, IsOneWordOfTheShell) {
  for (const char* text :
       {"a b", "it's", "'", "\"q\"", "$HOME", "`id`", "a;b", "a&b", "*", "~",
        "#a", "a\\b", "(x)", "!x", "\t", "line\nline", "\xc3\xa4 \xff", ""}) {
    const testing::ProgramResult run = testing::RunProgram(
        {"/bin/sh", "-c", absl::StrCat("printf %s. ", ShellWord(text))});
    EXPECT_EQ(run.exit_code, 0) << text;
    EXPECT_EQ(run.out, absl::StrCat(text, "."));
  }
}

}  // namespace
}  // namespace millrace
