// What a listing may find: its memory, and links that multiply it.

#include "server/storage/imagefolder/listing_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/usage_error.h"
#include "server/storage/imagefolder/folder_files.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ListingSizeTest, CountsFilesAndFolders) {
  const uint64_t bytes = ListingSize::FolderBytes(3) +
                         ListingSize::FolderBytes(5) +
                         FolderFiles::MemoryBytes(2, 10);
  ListingSize size("/in", bytes);
  EXPECT_FALSE(*size.AddFolder("cat", 1, 10));
  EXPECT_FALSE(*size.AddFolder("cat/b", 1, 11));
  EXPECT_TRUE(size.AddFile("1.jpg", 70, false));
  EXPECT_TRUE(size.AddFile("2.jpg", 60, false));
  EXPECT_TRUE(size.fits());
  EXPECT_EQ(size.bytes(), bytes);
  EXPECT_EQ(size.files(), 2);
  EXPECT_EQ(size.folders(), 2);
  EXPECT_EQ(size.largest_file(), 70);
  EXPECT_FALSE(size.AddFile("3.jpg", 60, false));
  EXPECT_FALSE(size.fits());
  // Counted to the end, where no links are.
  EXPECT_FALSE(*size.AddFolder("dog", 1, 12));
  EXPECT_EQ(size.folders(), 3);
}

TEST(ListingSizeTest, TheSameNumberOnAnotherDeviceIsAnotherFolder) {
  ListingSize size("/in", UINT64_MAX);
  EXPECT_FALSE(*size.AddFolder("cat", 1, 10));
  EXPECT_FALSE(*size.AddFolder("dog", 2, 10));
  EXPECT_TRUE(*size.AddFolder("eel", 2, 10));
}

// A few links are how a folder is given a second name: the list is counted to
// its end, and the refusal says what it needs.
TEST(ListingSizeTest, AListThatDoesNotFitEndsWhereLinksHaveMadeMostOfIt) {
  ListingSize size("/in", 100);
  EXPECT_FALSE(*size.AddFolder("cat", 1, 10));
  for (int i = 0; i < 10; ++i) size.AddFile("1.jpg", 1, false);
  EXPECT_FALSE(size.fits());
  EXPECT_TRUE(*size.AddFolder("dog", 1, 10));
  for (int i = 0; i < 8; ++i) size.AddFile("1.jpg", 1, true);
  EXPECT_TRUE(*size.AddFolder("eel", 1, 10));
  for (int i = 0; i < 8; ++i) size.AddFile("1.jpg", 1, true);
  const absl::Status status = size.AddFolder("fox", 1, 10).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(IsUsageError(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("such as /in/fox: after 26 files in 4 folders"),
                    HasSubstr("the memory budget has 100 B for it"),
                    HasSubstr("raise --memory_budget")));
}

// Commands without a memory budget must end, too.
TEST(ListingSizeTest, WithoutABudgetLinksAreBoundedAllTheSame) {
  ListingSize size("/in", UINT64_MAX);
  EXPECT_FALSE(*size.AddFolder("cat", 1, 10));
  absl::Status status;
  uint64_t again = 0;
  while (status.ok() && again <= 2 * ListingSize::kMaxFoldersAgain) {
    ++again;
    status = size.AddFolder("cat/b", 1, 10).status();
  }
  EXPECT_EQ(again, ListingSize::kMaxFoldersAgain + 2);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("links in /in lead to the same folders"),
                    HasSubstr("remove such links")));
}

TEST(ListingSizeTest, NamesOfMoreThanAListHoldsEndTheListing) {
  ListingSize size("/in", UINT64_MAX);
  const std::string name(1 << 20, 'x');
  for (int i = 0; i < 4096; ++i) size.AddFile(name, 1, false);
  const absl::Status status = size.AddFolder("cat", 1, 10).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 4 GiB"));
}

}  // namespace
}  // namespace millrace::storage
