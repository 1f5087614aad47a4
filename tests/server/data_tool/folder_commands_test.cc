// millrace-data over a folder that is served without packing: index, inspect,
// verify and check; and that it has the samples that `pack` takes of it.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "absl/strings/str_cat.h"
#include "server/storage/open.h"
#include "tests/server/data_tool/call_tool.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::data_tool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class FolderCommandsTest : public ::testing::Test {
 public:
  FolderCommandsTest() {
    Add("cat/1.jpg");
    Add("cat/b/2.jpg");
    Add("dog/1.jpg");
  }

  void Add(const std::string& name) {
    const std::filesystem::path file = Images() + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    storage::WriteFile(file, Jpeg(++seed_));
  }

  std::string Images() const { return folder_ / "images"; }
  std::string Uri() const { return "imagefolder:" + Images(); }
  std::string Cache() const { return "--cache_dir=" + folder_ / "cache"; }

  Result Pack(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"pack", "--format=imagefolder",
                                     "--input=" + Images(), "--overwrite",
                                     "--output=lmdb:" + folder_ / "packed"};
    args.insert(args.end(), more.begin(), more.end());
    return Call(args);
  }

  storage::TempFolder folder_;
  uint64_t seed_ = 0;
};

TEST_F(FolderCommandsTest, IndexMakesTheFingerprintOfThePackedDataset) {
  ASSERT_EQ(Pack().code, 0);
  const auto packed =
      storage::OpenRecordSource("lmdb:" + folder_ / "packed", {});
  ASSERT_TRUE(packed.ok()) << packed.status();
  const std::string fingerprint = (*packed)->info().fingerprint();

  const Result before = Call({"inspect", Uri(), Cache()});
  EXPECT_EQ(before.code, 0) << before.err;
  EXPECT_THAT(
      before.out,
      AllOf(HasSubstr("format       imagefolder"), HasSubstr("samples      3"),
            HasSubstr("label: tensor int64 [], 2 classes: cat, dog"),
            HasSubstr("(of names, sizes and times; `millrace-data index " +
                      Uri() + "` makes that of the content)"),
            Not(HasSubstr(fingerprint))));
  const Result indexed = Call({"index", "--input=" + Images(), Cache()});
  EXPECT_EQ(indexed.code, 0) << indexed.err;
  EXPECT_THAT(indexed.out,
              AllOf(HasSubstr("indexed 3 samples"), HasSubstr("in 2 classes"),
                    HasSubstr("fingerprint " + fingerprint),
                    HasSubstr(folder_ / "cache/imagefolder-")));
  const Result after = Call({"inspect", Uri(), Cache()});
  EXPECT_THAT(after.out, AllOf(HasSubstr(fingerprint + "\n"),
                               Not(HasSubstr("of names, sizes"))));
  // Of another cache folder, or of none.
  EXPECT_THAT(Call({"inspect", Uri(), "--cache_dir=off"}).out,
              Not(HasSubstr(fingerprint)));
}

TEST_F(FolderCommandsTest, MistakesOfIndexAreNamed) {
  const Result none = Call({"index"});
  EXPECT_EQ(none.code, program::kExitUsage);
  EXPECT_THAT(none.err, HasSubstr("URI is missing"));
  const Result empty = Call({"index", "--input="});
  EXPECT_EQ(empty.code, program::kExitUsage);
  EXPECT_THAT(empty.err, HasSubstr("--input=: expected a value"));
  const Result off = Call({"index", "--input=" + Images(), "--cache_dir=off"});
  EXPECT_EQ(off.code, program::kExitUsage);
  EXPECT_THAT(off.err, HasSubstr("--cache_dir=off leaves no folder"));
  const Result gone = Call({"index", "--input=" + Images() + "x", Cache()});
  EXPECT_EQ(gone.code, program::kExitFailed);
  EXPECT_THAT(gone.err, HasSubstr("there is no folder " + Images() + "x"));
  storage::WriteFile(Images() + "/cat/3.jpg", "text");
  const Result text = Call({"index", "--input=" + Uri(), Cache()});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.err, AllOf(HasSubstr("warning: 1 file is not a JPEG"),
                              HasSubstr(Images() + "/cat/3.jpg")));
}

TEST_F(FolderCommandsTest, VerifyReadsEveryFile) {
  Result verified = Call({"verify", Uri(), Cache()});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_THAT(verified.out, AllOf(HasSubstr("3 samples"),
                                  HasSubstr("no content hash to compare"),
                                  HasSubstr("all 3 images decode")));
  ASSERT_EQ(Call({"index", "--input=" + Images(), Cache()}).code, 0);
  verified = Call({"verify", Uri(), Cache()});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("and as they were indexed"));

  // Damaged with size and time kept: only the content tells.
  const std::string file = Images() + "/dog/1.jpg";
  struct stat info;
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  storage::WriteFile(file, "\xFF\xD8\xFF" + std::string(info.st_size - 3, 'x'));
  const struct timespec times[2] = {info.st_atim, info.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  verified = Call({"verify", Uri(), Cache()});
  EXPECT_EQ(verified.code, program::kExitFailed);
  EXPECT_THAT(verified.err,
              AllOf(HasSubstr("dog/1.jpg (sample 2, field image)"),
                    HasSubstr("is not what `millrace-data index` has read")));

  // The first `verify` replaced the index with the hash, so that the second one
  // found nothing to compare.
  storage::WriteFile(file, Jpeg(77));
  for (int i = 0; i < 2; ++i) {
    verified = Call({"verify", Uri(), Cache()});
    EXPECT_EQ(verified.code, program::kExitFailed);
    EXPECT_THAT(verified.err,
                HasSubstr("is not what `millrace-data index` has read"));
  }
}

// A job has a policy for damaged samples. A packed dataset has none of them.
TEST_F(FolderCommandsTest, AnEmptyFileIsRefusedByPackAndNamedByVerify) {
  storage::WriteFile(Images() + "/cat/3.png", "");
  const Result packed = Pack();
  EXPECT_NE(packed.code, 0);
  EXPECT_THAT(packed.err, HasSubstr(Images() + "/cat/3.png is empty"));
  const Result skipped = Pack({"--skip_bad"});
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr("cat/3.png is empty"));
  const Result verified = Call({"verify", Uri(), Cache()});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.err,
              HasSubstr("cat/3.png (sample 1, field image): the image is "
                        "empty"));
  const Result indexed = Call({"index", "--input=" + Images(), Cache()});
  EXPECT_THAT(indexed.out + indexed.err, HasSubstr("cat/3.png"));
}

TEST_F(FolderCommandsTest, CheckFitsAPipelineToTheFolder) {
  storage::WriteFile(folder_ / "p.textproto",
                     "preset: 'imagenet_eval' batch_size: 2");
  const Result checked =
      Call({"check", "--dataset=" + Uri(), Cache(), folder_ / "p.textproto"});
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("the pipeline fits " + Uri()));
}

// Whatever is in the folder: it opens exactly if `pack` takes it, and then it
// has the same samples.
TEST_F(FolderCommandsTest, PackAndServerDecideAlike) {
  using Make = std::function<void(FolderCommandsTest&)>;
  const std::vector<std::pair<std::string, Make>> changes = {
      {"nothing", [](FolderCommandsTest&) {}},
      {"hidden files", [](FolderCommandsTest& t) { t.Add("cat/.3.jpg"); }},
      {"a file above the classes",
       [](FolderCommandsTest& t) { t.Add("9.jpg"); }},
      {"other files",
       [](FolderCommandsTest& t) {
         storage::WriteFile(t.Images() + "/cat/notes.txt", "x");
       }},
      {"a linked folder",
       [](FolderCommandsTest& t) {
         ASSERT_EQ(symlink("cat", (t.Images() + "/eel").c_str()), 0);
       }},
      {"odd names",
       [](FolderCommandsTest& t) { t.Add("cat/a\n \xC3\xBC.JPG"); }},
      {"a name that is not UTF-8",
       [](FolderCommandsTest& t) { t.Add("cat/\xFF.jpg"); }},
      {"a folder that is not UTF-8",
       [](FolderCommandsTest& t) { t.Add("\xFF/1.jpg"); }},
      {"a broken link",
       [](FolderCommandsTest& t) {
         ASSERT_EQ(symlink("gone", (t.Images() + "/cat/3.jpg").c_str()), 0);
       }},
      {"a FIFO",
       [](FolderCommandsTest& t) {
         ASSERT_EQ(mkfifo((t.Images() + "/cat/3.jpg").c_str(), 0600), 0);
       }},
      {"another format",
       [](FolderCommandsTest& t) {
         storage::WriteFile(t.Images() + "/cat/3.gif", "GIF89a");
       }},
      {"an empty class",
       [](FolderCommandsTest& t) {
         std::filesystem::create_directory(t.Images() + "/eel");
       }},
      {"a loop of links",
       [](FolderCommandsTest& t) {
         ASSERT_EQ(symlink("..", (t.Images() + "/cat/up").c_str()), 0);
       }},
      {"parts",
       [](FolderCommandsTest& t) {
         for (const char* name : {"train/cat/1.jpg", "train/dog/1.jpg",
                                  "val/cat/1.jpg", "val/dog/1.jpg"}) {
           t.Add(name);
         }
       }},
      {"masks", [](FolderCommandsTest& t) {
         for (const char* name :
              {"cat/1_mask.jpg", "cat/b/2_mask.jpg", "dog/1_mask.jpg"}) {
           t.Add(name);
         }
       }}};
  int taken = 0, refused = 0;
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    std::filesystem::remove_all(Images());
    for (const char* file : {"cat/1.jpg", "cat/b/2.jpg", "dog/1.jpg"})
      Add(file);
    change(*this);
    if (HasFatalFailure()) return;
    const Result packed = Pack();
    const auto source = storage::OpenRecordSource(Uri(), {.cache_dir = "off"});
    EXPECT_EQ(packed.code == 0, source.ok())
        << packed.err << source.status().message();
    if (packed.code != 0 || !source.ok()) {
      ++refused;
      continue;
    }
    ++taken;
    const auto of_pack =
        storage::OpenRecordSource("lmdb:" + folder_ / "packed", {});
    ASSERT_TRUE(of_pack.ok()) << of_pack.status();
    EXPECT_EQ(*storage::ReadAll(**of_pack), *storage::ReadAll(**source));
    EXPECT_EQ((*of_pack)->info().schema().SerializeAsString(),
              (*source)->info().schema().SerializeAsString());
  }
  EXPECT_GE(taken, 5);
  EXPECT_GE(refused, 8);
}

}  // namespace
}  // namespace millrace::data_tool
