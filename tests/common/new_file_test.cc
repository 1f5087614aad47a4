#include "common/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class NewFile : public ::testing::Test {
 protected:
  const std::string folder_ = testing::NewTempDir();
  const std::string path_ = folder_ + "/image.npy";
};

TEST_F(NewFile, HasThePartsOneAfterAnother) {
  const absl::Status written = WriteNewFile(path_, {"head ", "", "elements"});
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(testing::ReadFile(path_), "head elements");
}

// replay --output=DIR wrote through a link of that name into a dataset.
TEST_F(NewFile, ReplacesNothing) {
  const std::string data = folder_ + "/photos.parquet";
  testing::WriteFile(data, "PAR1");
  const auto refused = [this] {
    return absl::IsAlreadyExists(WriteNewFile(path_, {"new"}));
  };
  ASSERT_EQ(symlink(data.c_str(), path_.c_str()), 0);
  EXPECT_TRUE(refused()) << "a link";
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(link(data.c_str(), path_.c_str()), 0);
  EXPECT_TRUE(refused()) << "a second name of the file";
  EXPECT_EQ(testing::ReadFile(data), "PAR1");
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(symlink((folder_ + "/none").c_str(), path_.c_str()), 0);
  EXPECT_TRUE(refused()) << "a link to nothing";
  EXPECT_NE(access((folder_ + "/none").c_str(), F_OK), 0);
  ASSERT_EQ(unlink(path_.c_str()), 0);
  // open() waited for a reader.
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(refused()) << "a FIFO";
}

TEST_F(NewFile, IsRemovedWhenItIsIncomplete) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit low = {.rlim_cur = 4096, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const absl::Status written =
      WriteNewFile(path_, {"head", std::string(8192, 'x')});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(written)) << written;
  EXPECT_THAT(
      std::string(written.message()),
      AllOf(HasSubstr("cannot write " + path_), HasSubstr("ulimit -f")));
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(NewFile, NamesTheFolderThatIsMissing) {
  const absl::Status written = WriteNewFile("/none/x.npy", {"x"});
  EXPECT_THAT(std::string(written.message()),
              AllOf(HasSubstr("/none/x.npy"), HasSubstr("create the folder")));
}

}  // namespace
}  // namespace millrace
