// Folders of images in a server with leases: a file that changes in one of two
// copies is an error of that copy alone.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "server/lease/leased_datasets.h"
#include "tests/server/lease/served_files.h"
#include "tests/server/storage/imagefolder/image_tree.h"

namespace millrace::lease {
namespace {

class LeasedFoldersTest : public ::testing::Test {
 protected:
  LeasedFoldersTest() {
    tree_.AddAll({"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"});
    tree_.CopyTo(copy());
  }
  std::string copy() const { return tree_.path() + ".copy"; }

  storage::ImageTree tree_;
  ServedFiles served_{tree_.cache()};
};

// Both were served from the folder that came first: its error was that of the
// program that had named the other one.
TEST_F(LeasedFoldersTest, AnOverwrittenFileIsAnErrorOfItsOwnCopy) {
  LeasedDatasets datasets(served_.options());
  const auto a = datasets.Acquire({tree_.uri(), ""});
  const auto b = datasets.Acquire({"imagefolder:" + copy(), ""});
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  // Plans and digests follow from the fingerprint.
  EXPECT_EQ(a->fingerprint, b->fingerprint);
  EXPECT_NE(a->name, b->name);
  storage::WriteFile(tree_ / "cat/1.jpg", "another file");
  EXPECT_TRUE(absl::IsDataLoss(served_.Read(a->name, 0)));
  EXPECT_TRUE(served_.Read(b->name, 0).ok());
  // A program that comes later finds the folder as it is now, and the copy.
  const auto later = datasets.Acquire({tree_.uri(), ""});
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_NE(later->fingerprint, a->fingerprint);
  EXPECT_TRUE(served_.Read(later->name, 0).ok());
  EXPECT_EQ(datasets.Acquire({"imagefolder:" + copy(), ""})->name, b->name);
}

// The copy in the place of the original.
TEST_F(LeasedFoldersTest, AFolderThatIsReplacedIsAnotherDataset) {
  LeasedDatasets datasets(served_.options());
  const auto old = datasets.Acquire({tree_.uri(), ""});
  ASSERT_TRUE(old.ok()) << old.status();
  std::filesystem::rename(tree_.path(), tree_.path() + ".old");
  std::filesystem::rename(copy(), tree_.path());
  const auto fresh = datasets.Acquire({tree_.uri(), ""});
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  EXPECT_EQ(fresh->fingerprint, old->fingerprint);
  EXPECT_NE(fresh->name, old->name);
  EXPECT_TRUE(served_.Read(old->name, 0).ok());
}

}  // namespace
}  // namespace millrace::lease
