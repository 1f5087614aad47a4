// The file that tells scripts the port.

#include "server/port_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "common/usage_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::server {
namespace {

absl::Status Write(const std::string& path, int port) {
  absl::StatusOr<PortFile> file = PortFile::Open(path);
  return file.ok() ? file->Write(port) : file.status();
}

TEST(PortFileTest, WritesThePortAndLeavesNothingElse) {
  std::string folder = ::testing::TempDir() + "/port_file_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/port";
  ASSERT_TRUE(Write(path, 7001).ok());
  ASSERT_TRUE(Write(path, 7002).ok());  // over the one before
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
  ASSERT_TRUE(Write(path, 7001).ok());
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

// `--dataset=x=lmdb:D --port_file=D` removed the dataset D.
TEST(PortFileTest, LeavesAFileThatIsNoPortFile) {
  std::string folder = ::testing::TempDir() + "/port_file_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/file";
  for (const std::string& text :
       {std::string("a dataset\n"), std::string("7001\n7002\n"),
        std::string("70x\n"), std::string("1234567")}) {
    std::ofstream(path) << text;
    for (const absl::Status& status :
         {CheckPortFile(path), RemovePortFile(path)}) {
      EXPECT_TRUE(IsUsageError(status)) << text;
      EXPECT_THAT(std::string(status.message()),
                  ::testing::HasSubstr("flag --port_file=" + path +
                                       ": the file exists and is not a port "
                                       "file"));
    }
    EXPECT_EQ(access(path.c_str(), F_OK), 0) << text;
  }
  EXPECT_TRUE(IsUsageError(CheckPortFile(folder)));
  for (const std::string& text : {std::string(), std::string("65535\n")}) {
    std::ofstream(path) << text;
    EXPECT_TRUE(CheckPortFile(path).ok()) << text;
  }
  EXPECT_TRUE(CheckPortFile(folder + "/none").ok());
}

TEST(PortFileTest, RefusesThePathOfADataset) {
  const std::string folder = ::testing::TempDir();
  const absl::Status same = CheckPortFileIsNoDataset(
      folder + "/a.lmdb", "a", "lmdb:" + folder + "/./a.lmdb");
  EXPECT_TRUE(IsUsageError(same));
  EXPECT_THAT(std::string(same.message()),
              ::testing::HasSubstr("the path is that of dataset a"));
  EXPECT_TRUE(CheckPortFileIsNoDataset(folder + "/port", "a",
                                       "lmdb:" + folder + "/a.lmdb")
                  .ok());
  EXPECT_TRUE(CheckPortFileIsNoDataset("", "a", "lmdb:/a").ok());
  // Refused for its own reason.
  EXPECT_TRUE(CheckPortFileIsNoDataset(folder + "/port", "a", "lmdb:").ok());
}

// A server opened all datasets before it said that nobody reads the pipe.
TEST(PortFileTest, APipeNeedsItsReaderAtTheStart) {
  std::string folder = ::testing::TempDir() + "/port_file_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const absl::StatusOr<PortFile> none = PortFile::Open(pipe);
  EXPECT_TRUE(absl::IsUnavailable(none.status()));
  EXPECT_THAT(std::string(none.status().message()),
              ::testing::AllOf(::testing::HasSubstr(pipe),
                               ::testing::HasSubstr("no program reads the "
                                                    "pipe; start the reader "
                                                    "first")));
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  absl::StatusOr<PortFile> file = PortFile::Open(pipe);
  ASSERT_TRUE(file.ok()) << file.status();
  char text[16] = {};
  EXPECT_LT(read(reader, text, sizeof(text)), 0) << "the pipe is open";
  ASSERT_TRUE(file->Write(7001).ok());
  ASSERT_EQ(read(reader, text, sizeof(text)), 5);
  EXPECT_EQ(std::string(text), "7001\n");
  EXPECT_EQ(read(reader, text, sizeof(text)), 0) << "the pipe has ended";
  close(reader);
}

TEST(PortFileTest, NamesAFileThatCannotBeWritten) {
  const absl::Status status = Write("/no/such/folder/port", 1);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("/no/such/folder/port"));
}

}  // namespace
}  // namespace millrace::server
