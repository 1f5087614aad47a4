// The bound of the files of all datasets together.

#include "server/storage/objects/open_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

class OpenFilesTest : public ::testing::Test {
 protected:
  OpenFilesTest() {
    for (int i = 0; i < 6; ++i) WriteFile(Path(i), absl::StrCat("file ", i));
  }
  std::string Path(int i) const { return folder_ / absl::StrCat(i); }
  static std::string Content(int fd) {
    char bytes[16];
    const ssize_t got = pread(fd, bytes, sizeof(bytes), 0);
    return std::string(bytes, got < 0 ? 0 : static_cast<size_t>(got));
  }

  TempFolder folder_;
  const int a_ = 0;  // owners
  const int b_ = 0;
  OpenFiles files_{3};
};

// Each dataset had a bound of its own, and a few of them took all descriptors.
TEST_F(OpenFilesTest, TheBoundIsThatOfAllOwners) {
  for (int i = 0; i < 6; ++i) {
    for (const int* const owner : {&a_, &b_}) {
      const OpenFiles::Use use(files_, owner, Path(i));
      EXPECT_EQ(Content(use.fd()), absl::StrCat("file ", i));
      EXPECT_LE(files_.open_files(), 3);
    }
  }
  EXPECT_EQ(files_.open_files(), 3);
}

// The name stands for another file by the time at which the other one opens it.
TEST_F(OpenFilesTest, OwnersHaveDescriptorsOfTheirOwn) {
  { const OpenFiles::Use use(files_, &a_, Path(0)); }
  ASSERT_EQ(unlink(Path(0).c_str()), 0);
  WriteFile(Path(0), "new");
  const OpenFiles::Use old(files_, &a_, Path(0));
  const OpenFiles::Use fresh(files_, &b_, Path(0));
  EXPECT_EQ(Content(old.fd()), "file 0");
  EXPECT_EQ(Content(fresh.fd()), "new");
}

TEST_F(OpenFilesTest, AnOwnersFilesAreClosedWithIt) {
  { const OpenFiles::Use use(files_, &a_, Path(0)); }
  { const OpenFiles::Use use(files_, &b_, Path(0)); }
  files_.Close(&a_);
  EXPECT_EQ(files_.open_files(), 1);
  files_.Close(&a_);
  files_.Close(&b_);
  EXPECT_EQ(files_.open_files(), 0);
}

TEST_F(OpenFilesTest, AFileThatCannotBeOpenedTakesNoPlace) {
  const OpenFiles::Use use(files_, &a_, folder_ / "none");
  EXPECT_LT(use.fd(), 0);
  EXPECT_EQ(use.error(), ENOENT);
  EXPECT_EQ(files_.open_files(), 0);
}

TEST_F(OpenFilesTest, APlaceClosesAFileThatIsNotUsed) {
  const OpenFiles::Use used(files_, &a_, Path(0));
  for (const int i : {1, 2}) {
    const OpenFiles::Use use(files_, &a_, Path(i));
  }
  const OpenFiles::Place one(files_), two(files_);
  EXPECT_EQ(files_.open_files(), 3);
  EXPECT_EQ(Content(used.fd()), "file 0");
}

TEST_F(OpenFilesTest, AReaderWaitsForAPlace) {
  std::optional<OpenFiles::Place> one(std::in_place, files_);
  const OpenFiles::Place two(files_), three(files_);
  std::atomic<bool> opened{false};
  std::thread reader([&] {
    const OpenFiles::Use use(files_, &a_, Path(0));
    opened = use.fd() >= 0;
  });
  EXPECT_EQ(files_.open_files(), 3);
  one.reset();
  reader.join();
  EXPECT_TRUE(opened);
}

TEST_F(OpenFilesTest, DescriptorsThatAreHeldHaveABoundOfTheirOwn) {
  std::vector<std::unique_ptr<OpenFiles::Hold>> held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(std::make_unique<OpenFiles::Hold>(files_));
    EXPECT_EQ(held.back()->granted(), i < 3) << i;
  }
  EXPECT_EQ(files_.open_files(), 0);
  held.erase(held.begin());
  EXPECT_TRUE(OpenFiles::Hold(files_).granted());
}

}  // namespace
}  // namespace millrace::storage
