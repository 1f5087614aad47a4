#include "common/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::string Path(const std::string& name) {
  return ::testing::TempDir() + "/regular_file_" + name;
}

TEST(RegularFileTest, IsReadAlsoThroughALink) {
  std::ofstream(Path("text"), std::ios::binary) << "12345";
  unlink(Path("link").c_str());
  ASSERT_EQ(symlink(Path("text").c_str(), Path("link").c_str()), 0);
  std::string bytes = "before";
  ASSERT_TRUE(ReadRegularFile(Path("link"), &bytes).ok());
  EXPECT_EQ(bytes, "12345");
  EXPECT_EQ(*ReadRegularFileStart(Path("text"), 3), "123");
  EXPECT_EQ(*ReadRegularFileStart(Path("text"), 9), "12345");
  EXPECT_EQ(*ReadRegularFileEnd(Path("text"), 3), "345");
  EXPECT_EQ(*ReadRegularFileEnd(Path("link"), 9), "12345");
  EXPECT_TRUE(absl::IsNotFound(OpenRegularFile(Path("none")).status()));
}

TEST(RegularFileTest, IsEmptyWithoutAByte) {
  std::ofstream(Path("empty")).flush();
  std::ofstream(Path("full")) << "1";
  unlink(Path("to_empty").c_str());
  ASSERT_EQ(symlink(Path("empty").c_str(), Path("to_empty").c_str()), 0);
  EXPECT_TRUE(IsEmptyFile(Path("empty")));
  EXPECT_TRUE(IsEmptyFile(Path("to_empty")));
  EXPECT_FALSE(IsEmptyFile(Path("full")));
  EXPECT_FALSE(IsEmptyFile(Path("none")));
  EXPECT_FALSE(IsEmptyFile("/dev/null")) << "no regular file";
}

// The open() of a pipe waits for a writer that never comes.
TEST(RegularFileTest, WhatCouldBlockIsRefused) {
  const std::string pipe = Path("pipe");
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path :
       {pipe, ::testing::TempDir(), std::string("/dev/zero")}) {
    const absl::Status refused = OpenRegularFile(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(path + " is not a regular file"));
  }
}

}  // namespace
}  // namespace millrace
