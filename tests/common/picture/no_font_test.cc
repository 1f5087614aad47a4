// A machine without any font: Cairo draws letters of strokes then. They must be
// letters, not a row of empty boxes.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/common/picture/drawn_picture.h"
#include "tests/testing/subprocess.h"

namespace millrace::picture {
namespace {

TEST(NoFont, TextIsStillReadable) {
  const std::string path = testing::NewTempDir() + "/fonts.conf";
  testing::WriteFile(path,
                     "<?xml version=\"1.0\"?>\n"
                     "<!DOCTYPE fontconfig SYSTEM \"fonts.dtd\">\n"
                     "<fontconfig></fontconfig>\n");
  ASSERT_EQ(setenv("FONTCONFIG_FILE", path.c_str(), 1), 0);
  const auto drawn = [](const std::string& text) {
    return testing::Drawn({.width = 100,
                           .height = 30,
                           .items = {PictureText{{5, 5, 90, 20}, text}}})
        .bytes();
  };
  const auto letters = drawn("OOO");
  EXPECT_NE(letters, drawn(""));
  EXPECT_NE(letters, drawn("III"));
  EXPECT_NE(letters, drawn("???"));
}

}  // namespace
}  // namespace millrace::picture
