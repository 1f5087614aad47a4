// The file that tells scripts the port.

#include "server/port_file.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(PortFileTest, WritesThePortAndLeavesNothingElse) {
  std::string folder = ::testing::TempDir() + "/port_file_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/port";
  ASSERT_TRUE(WritePortFile(path, 7001).ok());
  ASSERT_TRUE(WritePortFile(path, 7002).ok());  // over the one before
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, "7002");
  int entries = 0;
  DIR* listing = opendir(folder.c_str());
  ASSERT_NE(listing, nullptr);
  while (readdir(listing) != nullptr) ++entries;
  closedir(listing);
  EXPECT_EQ(entries, 3);  // ".", "..", "port"
}

TEST(PortFileTest, RemovesThatOfAnEarlierServer) {
  std::string folder = ::testing::TempDir() + "/port_file_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/port";
  EXPECT_TRUE(RemovePortFile(path).ok()) << "there is none";
  ASSERT_TRUE(WritePortFile(path, 7001).ok());
  EXPECT_TRUE(RemovePortFile(path).ok());
  EXPECT_FALSE(std::ifstream(path).is_open());
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(RemovePortFile(pipe).ok());
  EXPECT_EQ(access(pipe.c_str(), F_OK), 0) << "pipes and devices stay";
  const absl::Status status = RemovePortFile(folder);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(folder));
}

// --port_file=labels.csv removed the labels.
TEST(PortFileTest, KeepsAFileOfAnotherKind) {
  std::string folder = ::testing::TempDir() + "/port_file_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/labels.csv";
  std::ofstream(path) << "photo,label\n";
  const absl::Status status = RemovePortFile(path);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(std::ifstream(path).is_open());
}

TEST(PortFileTest, NamesAFileThatCannotBeWritten) {
  const absl::Status status = WritePortFile("/no/such/folder/port", 1);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("/no/such/folder/port"));
}

}  // namespace
}  // namespace millrace
