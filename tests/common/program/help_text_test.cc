#include "common/program/help_text.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::program {
namespace {

TEST(HelpTextTest, WrapsAt80ColumnsBehindTheNames) {
  std::string help;
  const std::string ten = "123456789";
  std::string text;
  for (int i = 0; i < 6; ++i) text += ten + " ";
  AppendHelpRow("--a=N", text, 28, &help);
  std::string expected = "  --a=N" + std::string(21, ' ');
  // 28 columns, and five words of ten columns each with their spaces.
  for (int i = 0; i < 5; ++i) expected += (i == 0 ? "" : " ") + ten;
  expected += "\n" + std::string(28, ' ') + ten + "\n";
  EXPECT_EQ(help, expected);
}

TEST(HelpTextTest, ALineMayHave80Columns) {
  std::string help;
  const std::string half(39, 'x');
  AppendWrapped(half + " " + half + "y", 0, 0, &help);
  EXPECT_EQ(help, half + " " + half + "y\n");
  help.clear();
  AppendWrapped(half + " " + half + "yy", 0, 0, &help);
  EXPECT_EQ(help, half + "\n" + half + "yy\n");
}

TEST(HelpTextTest, ALongNameHasALineOfItsOwn) {
  std::string help;
  AppendHelpRow("--output=lmdb", "Where to.", 12, &help);
  EXPECT_EQ(help, "  --output=lmdb\n            Where to.\n");
  help.clear();
  AppendHelpRow("--json", "Where to.", 10, &help);
  EXPECT_EQ(help, "  --json  Where to.\n");
}

TEST(HelpTextTest, KeepsLineFeedsAndWordsThatAreTooLong) {
  std::string help;
  const std::string wide(100, 'w');
  AppendWrapped("one\ntwo " + wide + "\n\nthree", 0, 2, &help);
  EXPECT_EQ(help, "  one\n  two\n  " + wide + "\n\n  three\n");
}

}  // namespace
}  // namespace millrace::program
