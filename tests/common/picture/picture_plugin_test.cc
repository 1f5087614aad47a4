#include "common/picture/picture_plugin.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

TEST(PicturePlugIn, ExportsItsFunctionAndNothingElse) {
  const ProgramResult nm =
      RunProgram({"/usr/bin/nm", "-D", "--defined-only",
                  ProgramPath("common/picture/libmillrace_picture.so")});
  ASSERT_EQ(nm.exit_code, 0) << nm.err;
  std::istringstream lines(nm.out);
  std::string address, type, name, more;
  ASSERT_TRUE(lines >> address >> type >> name);
  EXPECT_EQ(type, "T");
  EXPECT_EQ(name, picture::kDrawPicture);
  EXPECT_FALSE(lines >> more) << more;
}

}  // namespace
}  // namespace millrace::testing
