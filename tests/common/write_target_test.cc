#include "common/write_target.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

class WriteTarget : public ::testing::Test {
 protected:
  // TempDir() may lie behind a link.
  const std::string folder_ = [] {
    char* const real = realpath(testing::NewTempDir().c_str(), nullptr);
    std::string copy = real;
    free(real);
    return copy;
  }();
};

TEST_F(WriteTarget, HasOneRealPathWhateverItsSpelling) {
  const std::string target = folder_ + "/target";
  const std::string link = folder_ + "/link";
  ASSERT_EQ(symlink("target", link.c_str()), 0);
  for (const bool exists : {false, true}) {
    if (exists) testing::WriteFile(target, "x");
    for (const std::string& same :
         {target, folder_ + "/./target", folder_ + "/none/../target",
          target + "/", link}) {
      const absl::StatusOr<std::string> real = RealPath(same);
      ASSERT_TRUE(real.ok()) << real.status();
      EXPECT_EQ(*real, target) << same << ", " << exists;
    }
  }
  ASSERT_EQ(::link(target.c_str(), (folder_ + "/second").c_str()), 0);
  EXPECT_EQ(*RealPath(folder_ + "/second"), folder_ + "/second");
}

TEST_F(WriteTarget, HasAnAbsoluteRealPath) {
  char* const here = getcwd(nullptr, 0);
  EXPECT_EQ(*RealPath("none/file"), std::string(here) + "/none/file");
  free(here);
  EXPECT_EQ(*RealPath("/"), "/");
  EXPECT_EQ(*RealPath(""), "");
  const std::string loop = folder_ + "/loop";
  ASSERT_EQ(symlink("loop", loop.c_str()), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(RealPath(loop).status()));
}

}  // namespace
}  // namespace millrace
