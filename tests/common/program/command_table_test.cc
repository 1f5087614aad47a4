#include "common/program/command_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace millrace::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommandTableTest : public ::testing::Test {
 protected:
  int Run(const std::vector<std::string>& arguments) {
    std::ostringstream out;
    ::testing::internal::CaptureStderr();
    const int code =
        CommandTable({.program = "millrace",
                      .summary = "Asks servers.",
                      .version = "1.2.3",
                      .commands = {{"status", "What they do.",
                                    [this](const auto& rest) {
                                      rest_ = rest;
                                      return 7;
                                    }},
                                   {"bench", "How fast.",
                                    [](const auto&) { return 8; }}},
                      .examples = {"millrace status --endpoint=data-1:7001",
                                   "millrace bench"}})
            .Run(arguments, out);
    err_ = ::testing::internal::GetCapturedStderr();
    out_ = out.str();
    return code;
  }

  std::vector<std::string> rest_;
  std::string out_;
  std::string err_;
};

TEST_F(CommandTableTest, RunsTheCommandThatIsNamed) {
  EXPECT_EQ(Run({"status", "--json", "--help"}), 7);
  EXPECT_THAT(rest_, ElementsAre("--json", "--help"));
  EXPECT_EQ(Run({"bench"}), 8);
}

TEST_F(CommandTableTest, ShowsItsCommands) {
  for (const char* help : {"--help", "-h", "help"}) {
    EXPECT_EQ(Run({help}), 0);
    EXPECT_EQ(out_,
              "usage: millrace COMMAND [flags]\n\n"
              "Asks servers.\n\n"
              "Commands:\n"
              "  status    What they do.\n"
              "  bench     How fast.\n\n"
              "Examples:\n"
              "  millrace status --endpoint=data-1:7001\n"
              "  millrace bench\n\n"
              "`millrace COMMAND --help` lists the flags of a command, "
              "`millrace --version`\nprints the release.\n");
    EXPECT_EQ(err_, "");
  }
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(out_, "millrace 1.2.3\n");
}

TEST_F(CommandTableTest, NamesMistakes) {
  EXPECT_EQ(Run({}), 2);
  EXPECT_THAT(err_, HasSubstr("usage: millrace COMMAND"));
  EXPECT_EQ(Run({"stats"}), 2);
  EXPECT_EQ(err_, "millrace: unknown command `stats`; did you mean status?\n");
  EXPECT_EQ(Run({"colour"}), 2);
  EXPECT_EQ(err_,
            "millrace: unknown command `colour`; `millrace --help` lists the "
            "commands\n");
  EXPECT_EQ(Run({"--help", "bench"}), 2);
  EXPECT_THAT(err_, HasSubstr("unexpected argument `bench` after --help"));
  EXPECT_EQ(out_, "");
}

}  // namespace
}  // namespace millrace::program
