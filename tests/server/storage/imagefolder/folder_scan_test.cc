// Which files of a folder become samples, and what is said of the others.

#include "server/storage/imagefolder/folder_scan.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>

#include "absl/strings/str_join.h"
#include "common/usage_error.h"
#include "server/storage/imagefolder/listing_doubts.h"
#include "tests/server/storage/imagefolder/image_tree.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Paths(const FolderFiles& files) {
  std::vector<std::string> paths;
  for (int64_t i = 0; i < files.size(); ++i) {
    paths.push_back(absl::StrCat(files.LabelOf(i), " ", files.PathOf(i)));
  }
  return paths;
}

class FolderScanTest : public ::testing::Test {
 protected:
  FolderListing Scan(const ScanOptions& options = {.use = FolderUse::kUri}) {
    auto listing = ScanImageFolder(tree_.path(), options);
    EXPECT_TRUE(listing.ok()) << listing.status();
    return listing.ok() ? *std::move(listing) : FolderListing();
  }
  std::string Refusal() {
    const auto listing = ScanImageFolder(tree_.path(), {});
    EXPECT_FALSE(listing.ok());
    return std::string(listing.status().message());
  }
  std::string Notes() {
    const FolderListing listing = Scan();
    return absl::StrJoin(listing.notes.Warnings(), "\n");
  }
  ImageTree tree_;
};

// A name is compared with the '/' behind it: "a-b/" comes before "a/".
TEST_F(FolderScanTest, SamplesAreInBytewiseOrderOfPathsAndClassesOfNames) {
  tree_.AddAll({"b/1.jpg", "a/10.jpg", "a/2.JPEG", "a-b/x.png", "a/sub/0.webp",
                "a/Z.jpg"});
  const FolderListing listing = Scan();
  EXPECT_THAT(listing.classes, ElementsAre("a", "a-b", "b"));
  EXPECT_THAT(Paths(listing.files),
              ElementsAre("1 a-b/x.png", "0 a/10.jpg", "0 a/2.JPEG",
                          "0 a/Z.jpg", "0 a/sub/0.webp", "2 b/1.jpg"));
  EXPECT_EQ(listing.files.bytes(0), 3 + std::strlen("a-b/x.png"));
  struct stat info;
  ASSERT_EQ(stat((tree_ / "a-b/x.png").c_str(), &info), 0);
  EXPECT_EQ(listing.files.modified_nanos(0), ModifiedNanos(info));
  EXPECT_THAT(listing.notes.Warnings(), IsEmpty());
  EXPECT_EQ(listing.folders.size(), 5);
  EXPECT_EQ(listing.memory_bytes, ListingBytes(listing.files, listing.folders));
  EXPECT_GT(listing.memory_bytes, listing.files.memory_bytes());
  EXPECT_EQ(listing.file_count, 6);
  EXPECT_EQ(listing.folder_count, 5);
  EXPECT_EQ(listing.largest_file_bytes, 3 + std::strlen("a/sub/0.webp"));
}

TEST_F(FolderScanTest, TheListDoesNotDependOnThreads) {
  for (int i = 0; i < 40; ++i) {
    for (int j = 0; j < 5; ++j) {
      tree_.Add(absl::StrCat("class", i, "/", j * 37 % 11, ".jpg"));
      tree_.Add(absl::StrCat("class", i, "/note", j));
    }
  }
  const FolderListing one = Scan({.use = FolderUse::kUri, .threads = 1});
  const FolderListing many = Scan({.use = FolderUse::kUri, .threads = 16});
  EXPECT_EQ(Paths(one.files), Paths(many.files));
  EXPECT_EQ(one.files.ListingSum(), many.files.ListingSum());
  EXPECT_EQ(one.notes.Warnings(), many.notes.Warnings());
}

TEST_F(FolderScanTest, WhatIsLeftOutIsNamed) {
  tree_.AddAll({"cat/1.jpg", "cat/.2.jpg", "cat/.git/3.jpg", "cat/notes.txt",
                "cat/noend", "dog/1.jpg", "4.jpg"});
  const FolderListing listing = Scan();
  EXPECT_THAT(Paths(listing.files), ElementsAre("0 cat/1.jpg", "1 dog/1.jpg"));
  EXPECT_THAT(listing.notes.Warnings(),
              ElementsAre(AllOf(HasSubstr("3 files left out"),
                                HasSubstr("4.jpg, cat/noend, cat/notes.txt")),
                          AllOf(HasSubstr("2 hidden files or folders left out"),
                                HasSubstr("cat/.2.jpg, cat/.git"))));
}

TEST_F(FolderScanTest, LinksAreFollowed) {
  tree_.AddAll({"cat/1.jpg", "dog/1.jpg"});
  ASSERT_EQ(symlink("1.jpg", (tree_ / "cat/2.jpg").c_str()), 0);
  ASSERT_EQ(symlink("cat", (tree_ / "eel").c_str()), 0);
  EXPECT_THAT(Paths(Scan().files),
              ElementsAre("0 cat/1.jpg", "0 cat/2.jpg", "1 dog/1.jpg",
                          "2 eel/1.jpg", "2 eel/2.jpg"));
}

TEST_F(FolderScanTest, ALoopOfLinksEnds) {
  tree_.AddAll({"cat/1.jpg", "dog/1.jpg"});
  ASSERT_EQ(symlink(".", (tree_ / "cat/self").c_str()), 0);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("nested too deeply"),
                               HasSubstr("a link may form a loop")));
}

// None of them may make the server wait.
TEST_F(FolderScanTest, FilesThatAreNoFilesAreBad) {
  tree_.AddAll({"cat/1.jpg", "dog/1.jpg"});
  ASSERT_EQ(mkfifo((tree_ / "cat/fifo.jpg").c_str(), 0600), 0);
  ASSERT_EQ(symlink("gone", (tree_ / "cat/broken.jpg").c_str()), 0);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // The path of a socket is short.
  ASSERT_EQ(chdir((tree_ / "cat").c_str()), 0);
  std::strcpy(address.sun_path, "socket.jpg");
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  ASSERT_EQ(chdir("/"), 0);
  const FolderListing listing = Scan();
  close(fd);
  EXPECT_THAT(Paths(listing.files), ElementsAre("0 cat/1.jpg", "1 dog/1.jpg"));
  EXPECT_EQ(listing.notes.bad_count(), 3);
  EXPECT_THAT(listing.notes.BadFiles(),
              AllOf(HasSubstr("cat/broken.jpg is a link to a file or folder "
                              "that does not exist"),
                    HasSubstr("cat/fifo.jpg is not a regular file"),
                    HasSubstr("cat/socket.jpg is not a regular file")));
}

// The server serves such a file as a damaged sample, for which a job has a
// policy; what is packed has no damaged samples.
TEST_F(FolderScanTest, EmptyFilesAreListedForTheServerAndBadForPack) {
  tree_.AddAll({"cat/1.jpg", "dog/1.jpg"});
  WriteFile(tree_ / "cat/empty.jpg", "");
  WriteFile(tree_ / "dog/0.png", "");
  const FolderListing served = Scan();
  EXPECT_THAT(Paths(served.files), ElementsAre("0 cat/1.jpg", "0 cat/empty.jpg",
                                               "1 dog/0.png", "1 dog/1.jpg"));
  EXPECT_EQ(served.files.bytes(1), 0);
  EXPECT_EQ(served.notes.bad_count(), 0);
  EXPECT_THAT(
      served.notes.Warnings(),
      ElementsAre(AllOf(HasSubstr("2 empty files become damaged samples"),
                        HasSubstr("bad_samples"),
                        HasSubstr("cat/empty.jpg, dog/0.png"))));
  const FolderListing packed = Scan({.use = FolderUse::kPack});
  EXPECT_THAT(Paths(packed.files), ElementsAre("0 cat/1.jpg", "1 dog/1.jpg"));
  EXPECT_EQ(packed.notes.bad_count(), 2);
  EXPECT_THAT(packed.notes.BadFiles(), HasSubstr("cat/empty.jpg is empty"));
}

// A link to a folder that is not mounted would be a class, or a part of one,
// that is missing, and the labels of other classes would change.
TEST_F(FolderScanTest, LinksThatLeadNowhereAreBadWhateverTheirNames) {
  tree_.AddAll({"cat/1.jpg", "dog/1.jpg"});
  ASSERT_EQ(symlink("gone", (tree_ / "bee").c_str()), 0);
  ASSERT_EQ(symlink("gone", (tree_ / "cat/more").c_str()), 0);
  ASSERT_EQ(symlink("self", (tree_ / "cat/self").c_str()), 0);
  const FolderListing listing = Scan();
  EXPECT_EQ(listing.notes.bad_count(), 3);
  EXPECT_THAT(listing.notes.BadFiles(),
              AllOf(HasSubstr("/bee is a link to a file or folder that does "
                              "not exist"),
                    HasSubstr("/cat/more is a link"),
                    HasSubstr("cat/self: Too many levels of symbolic links")));
}

// Runs `body` in a process of a user without rights, in `folder`, whose path
// may lead through folders that are closed to the user. 77: that is not
// possible.
int AsNobody(const std::string& folder, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (chdir(folder.c_str()) != 0 || geteuid() != 0 || setgid(65534) != 0 ||
        setuid(65534) != 0)
      _exit(77);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// What may not be looked at could be anything: nothing is left out silently,
// and an input that cannot be looked at is not called empty.
TEST_F(FolderScanTest, FoldersWithoutPermissionsAreRefused) {
  tree_.AddAll({"cat/1.jpg", "cat/notes.txt", "dog/1.jpg"});
  const std::string above = std::filesystem::path(tree_.path()).parent_path();
  ASSERT_EQ(chmod(above.c_str(), 0755), 0);
  struct Case {
    std::string folder;
    mode_t mode;
    std::string says;
  };
  for (const Case& c :
       {Case{tree_.path(), 0744, "cannot read images/cat"},
        Case{tree_.path(), 0711, "cannot read folder images"},
        Case{tree_ / "cat", 0744, "cannot read images/cat/notes.txt"},
        Case{tree_ / "cat", 0711, "cannot read folder images/cat"}}) {
    ASSERT_EQ(chmod(c.folder.c_str(), c.mode), 0);
    const int result = AsNobody(above, [&] {
      const auto listing = ScanImageFolder("images", {});
      const std::string said = listing.ok()
                                   ? listing->notes.BadFiles()
                                   : std::string(listing.status().message());
      const bool right = said.find(c.says) != said.npos &&
                         said.find("Permission denied") != said.npos;
      if (!right) fprintf(stderr, "%s\n", said.c_str());
      return right ? 0 : 1;
    });
    ASSERT_EQ(chmod(c.folder.c_str(), 0755), 0);
    if (result == 77) GTEST_SKIP() << "needs root";
    EXPECT_EQ(result, 0) << c.folder << " " << c.mode;
  }
}

// A relative path is opened below the folder that the absolute one leads to: it
// may be listed and then be too long to be opened.
TEST_F(FolderScanTest, PathsThatAreTooLongAreBad) {
  tree_.AddAll({"cat/1.jpg", "dog/1.jpg"});
  std::string below = "cat";
  while (tree_.path().size() + below.size() + 1 + 200 < PATH_MAX - 1) {
    below += "/" + std::string(199, 'd');
  }
  std::filesystem::create_directories(tree_ / below);
  const std::string name = std::string(240, 'x') + ".jpg";
  const int folder = open((tree_ / below).c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_GE(folder, 0);
  const int file = openat(folder, name.c_str(), O_WRONLY | O_CREAT, 0644);
  ASSERT_GE(file, 0);
  ASSERT_EQ(write(file, "\xFF\xD8\xFF", 3), 3);
  close(file);
  const FolderListing listing = Scan();
  EXPECT_EQ(listing.notes.bad_count(), 1);
  EXPECT_THAT(listing.notes.BadFiles(),
              HasSubstr("and the system opens paths of at most 4095"));
  EXPECT_THAT(Paths(listing.files), ElementsAre("0 cat/1.jpg", "1 dog/1.jpg"));
  unlinkat(folder, name.c_str(), 0);
  close(folder);
}

// File systems hold times that 64 bits of nanoseconds do not.
TEST_F(FolderScanTest, TimesOfAnyYear) {
  tree_.AddAll({"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"});
  for (const int64_t seconds : {int64_t{13'569'465'600},  // in the year 2400
                                int64_t{-2'000'000'000}}) {
    const struct timespec times[2] = {{0, UTIME_OMIT}, {seconds, 5}};
    ASSERT_EQ(utimensat(AT_FDCWD, (tree_ / "cat/1.jpg").c_str(), times, 0), 0);
    struct stat info;
    ASSERT_EQ(stat((tree_ / "cat/1.jpg").c_str(), &info), 0);
    EXPECT_EQ(Scan().files.modified_nanos(0), ModifiedNanos(info));
    EXPECT_NE(ModifiedNanos(info), 0);
  }
}

TEST_F(FolderScanTest, ClassesThatDifferOnlyInCaseAreDoubted) {
  tree_.AddAll({"Cat/1.jpg", "cat/1.jpg", "dog/1.jpg"});
  EXPECT_THAT(Scan().doubts,
              ElementsAre(HasSubstr("the class folders Cat and cat differ only "
                                    "in upper and lower case")));
}

TEST_F(FolderScanTest, OddNames) {
  tree_.AddAll(
      {"cat/a\nb.jpg", "cat/ .jpg", "cat/\xC3\xBC.jpg", "dog\n/1.jpg"});
  EXPECT_THAT(Paths(Scan().files),
              ElementsAre("0 cat/ .jpg", "0 cat/a\nb.jpg", "0 cat/\xC3\xBC.jpg",
                          "1 dog\n/1.jpg"));
  tree_.Add("cat/\xFF.jpg");
  EXPECT_EQ(Scan().notes.bad_count(), 1);
  EXPECT_THAT(Notes(), HasSubstr("is not UTF-8"));
  tree_.Add("eel/\xFF\xFE/1.jpg");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("the name of folder"),
                               HasSubstr("is not UTF-8; rename it")));
}

TEST_F(FolderScanTest, ImagesOfOtherFormatsAreBadAndEmptyClassesAreFound) {
  tree_.AddAll({"cat/1.jpg", "cat/2.gif", "dog/1.jpg", "eel/readme"});
  const FolderListing listing = Scan();
  EXPECT_THAT(listing.notes.BadFiles(),
              HasSubstr("cat/2.gif has the name of an image format that the "
                        "server does not read"));
  EXPECT_THAT(EmptyClasses("/in", listing.classes, listing.files),
              ElementsAre("/in/eel"));
}

TEST_F(FolderScanTest, FoldersThatAreNoClassesAreRefused) {
  EXPECT_THAT(Refusal(), HasSubstr("contains no folders"));
  tree_.AddAll({"1.jpg"});
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("contains no folders, but 1 image"),
                               HasSubstr("into a table (csv:PATH)")));
  tree_.AddAll(
      {"train/cat/1.jpg", "train/dog/1.jpg", "val/cat/1.jpg", "val/dog/1.jpg"});
  EXPECT_THAT(Refusal(), HasSubstr("parts of a dataset"));
}

TEST_F(FolderScanTest, FilesThatShareAStemAreNamed) {
  tree_.AddAll({"cat/1.jpg", "cat/1.png", "cat/b/1.jpg", "dog/1.jpg"});
  EXPECT_THAT(SharedStems("/in", Scan().files, "read"),
              AllOf(HasSubstr("2 files share the stem 1 in /in/cat: "),
                    HasSubstr("each file is read as a separate sample")));
  std::filesystem::remove(tree_ / "cat/1.png");
  EXPECT_EQ(SharedStems("/in", Scan().files, "read"), "");
}

// The count is that of the whole list all the same, for the advice.
TEST_F(FolderScanTest, AListThatDoesNotFitIsNotKept) {
  for (int i = 0; i < 50; ++i) tree_.Add(absl::StrCat("cat/", i, ".jpg"));
  tree_.Add("dog/1.jpg");
  const uint64_t all = Scan().memory_bytes;
  const FolderListing less =
      Scan({.use = FolderUse::kUri, .max_memory_bytes = all - 1});
  EXPECT_EQ(less.memory_bytes, all);
  EXPECT_EQ(less.files.size(), 0);
  EXPECT_EQ(less.folders.size(), 0);
  EXPECT_EQ(less.file_count, 51);
  EXPECT_EQ(
      Scan({.use = FolderUse::kUri, .max_memory_bytes = all}).files.size(), 51);
}

// Folders without images take memory, too: it was not counted.
TEST_F(FolderScanTest, FoldersAreCounted) {
  tree_.AddAll({"cat/1.jpg", "dog/1.jpg"});
  const uint64_t before = Scan().memory_bytes;
  for (int i = 0; i < 100; ++i) {
    std::filesystem::create_directories(tree_ / absl::StrCat("cat/empty", i));
  }
  const uint64_t after = Scan().memory_bytes;
  EXPECT_GE(after - before, 100 * sizeof(FolderState));
  const FolderListing less =
      Scan({.use = FolderUse::kUri, .max_memory_bytes = after - 1});
  EXPECT_EQ(less.memory_bytes, after);
  EXPECT_EQ(less.folder_count, 103);
}

// Three links on each level make 3^18 paths of 19 folders, none of them a loop.
// The listing went on until the process had no memory. (At 20 links in a path,
// Linux may say ELOOP: its limit is 40, and it counts twice those of a path
// that it walks twice.)
TEST_F(FolderScanTest, LinksThatMultiplyFoldersAreBoundedByTheBudget) {
  tree_.AddAll({"cat/1.jpg", "dog/1.jpg"});
  for (int level = 0; level < 18; ++level) {
    const std::string folder = tree_ / absl::StrCat("dog/level", level);
    std::filesystem::create_directories(folder);
    WriteFile(folder + "/1.jpg", "\xFF\xD8\xFF");
    for (const char* name : {"/a", "/b", "/c"}) {
      ASSERT_EQ(symlink(absl::StrCat("../level", level + 1).c_str(),
                        (folder + name).c_str()),
                0);
    }
  }
  std::filesystem::create_directories(tree_ / "dog/level18");
  for (const uint32_t threads : {1, 8}) {
    const auto listing =
        ScanImageFolder(tree_.path(), {.use = FolderUse::kUri,
                                       .max_memory_bytes = 1 << 20,
                                       .threads = threads});
    EXPECT_TRUE(absl::IsResourceExhausted(listing.status()))
        << listing.status();
    EXPECT_TRUE(IsUsageError(listing.status()));
    EXPECT_THAT(std::string(listing.status().message()),
                AllOf(HasSubstr("links in " + tree_.path() +
                                " lead to the same folders again"),
                      HasSubstr("such as " + tree_.path() + "/dog/level"),
                      HasSubstr(" files in "),
                      ContainsRegex(" folders, the list needs 1[.]?[0-9]* MiB"),
                      HasSubstr("the memory budget has 1 MiB for it"),
                      HasSubstr("remove such links")));
  }
}

}  // namespace
}  // namespace millrace::storage
