// Decompressed copies: made once, shared, never stale or damaged, and nothing
// left after an error.

#include "server/storage/unpack/unpacked_objects.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/thread.h"
#include "common/usage_error.h"
#include "server/storage/unpack/codec_unpacker.h"
#include "server/storage/unpack/decompressor.h"
#include "server/storage/unpack/unpacked_copies.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/unpack/unpack_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

namespace fs = std::filesystem;

// Passes what a codec gives on, and counts.
class CountingUnpacker final : public Unpacker {
 public:
  absl::string_view name() const override { return "zstd"; }
  absl::Status Unpack(PackedFile& file, RawSink& sink) const override {
    ++calls;
    return CodecUnpacker(Codec::kZstd).Unpack(file, sink);
  }
  mutable std::atomic<int> calls = 0;
};

class UnpackedObjectsTest : public ::testing::Test {
 protected:
  UnpackedObjectsTest() : text_(LongText(20'000)) {
    Write(name_, text_);
    Write(other_, "other");
  }
  static void Write(const std::string& name, const std::string& text) {
    WriteFile(name, Compress(Codec::kZstd, text));
  }
  PackedObjects Packed(std::vector<std::vector<uint64_t>> sizes) const {
    PackedObjects packed;
    for (auto& some : sizes) packed.objects.push_back({&unpacker_, some});
    return packed;
  }
  absl::Status Prepare(UnpackedObjects& objects) const {
    return objects.Prepare({name_, other_}, Packed({{text_.size()}, {5, 9}}));
  }
  static std::string ReadAll(UnpackedObjects& objects,
                             const std::string& name) {
    const auto identity = objects.Stat(name);
    if (!identity.ok()) return std::string(identity.status().message());
    std::string text(identity->bytes, '\0');
    const absl::Status status = objects.Read(
        name, *identity, 0,
        absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), text.size()));
    return status.ok() ? text : std::string(status.message());
  }
  // Files of the cache that are copies.
  std::vector<std::string> Copies() const {
    std::vector<std::string> found;
    if (!fs::exists(cache_ + "/unpacked")) return found;
    for (const auto& entry :
         fs::recursive_directory_iterator(cache_ + "/unpacked")) {
      const std::string name = entry.path().filename();
      if (entry.is_regular_file() && name != "lock" && name != "copy") {
        found.push_back(entry.path());
      }
    }
    return found;
  }
  std::vector<std::string> Everything() const {
    std::vector<std::string> found;
    if (!fs::exists(cache_ + "/unpacked")) return found;
    for (const auto& entry :
         fs::recursive_directory_iterator(cache_ + "/unpacked")) {
      found.push_back(entry.path());
    }
    return found;
  }

  TempFolder folder_;
  const std::string cache_ = folder_ / "cache";
  const std::string name_ = folder_ / "a.zst";
  const std::string other_ = folder_ / "b.zst";
  const std::string text_;
  CountingUnpacker unpacker_;
};

TEST_F(UnpackedObjectsTest, ReadsTheRawBytesOfCompressedFiles) {
  WriteFile(folder_ / "plain", "as it is");
  UnpackedObjects objects(cache_);
  PackedObjects packed = Packed({{text_.size()}, {5}});
  packed.objects.emplace_back();
  ASSERT_TRUE(objects.Prepare({name_, other_, folder_ / "plain"}, packed).ok());
  EXPECT_TRUE(ReadAll(objects, name_) == text_);
  EXPECT_EQ(ReadAll(objects, other_), "other");
  EXPECT_EQ(ReadAll(objects, folder_ / "plain"), "as it is");
  const ObjectIdentity identity = *objects.Stat(name_);
  EXPECT_EQ(identity.bytes, text_.size());
  EXPECT_EQ(identity.tag, absl::StrCat("zstd ", fs::file_size(name_)));
  uint8_t byte = 0;
  EXPECT_TRUE(absl::IsDataLoss(
      objects.Read(name_, identity, text_.size(), absl::MakeSpan(&byte, 1))));
}

TEST_F(UnpackedObjectsTest, ACopyIsMadeOnceAndSharedByProcesses) {
  for (int i = 0; i < 2; ++i) {
    UnpackedObjects objects(cache_);
    ASSERT_TRUE(Prepare(objects).ok());
    EXPECT_EQ(unpacker_.calls, 2);
  }
  const pid_t child = fork();
  if (child == 0) {
    UnpackedObjects objects(cache_);
    const bool good = Prepare(objects).ok() && ReadAll(objects, name_) == text_;
    _exit(good && unpacker_.calls == 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(UnpackedObjectsTest, ThreadsThatNeedOneCopyMakeIt) {
  {
    std::vector<NamedThread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back("mr-test", [&] {
        UnpackedObjects objects(cache_);
        EXPECT_TRUE(Prepare(objects).ok());
        EXPECT_TRUE(ReadAll(objects, name_) == text_);
      });
    }
  }
  EXPECT_EQ(unpacker_.calls, 2);
  EXPECT_THAT(Copies(), SizeIs(2));
}

TEST_F(UnpackedObjectsTest, WithoutANamedFolderTheFilesAreRefused) {
  for (const std::string cache : {"", "off"}) {
    UnpackedObjects objects(cache);
    PackedObjects packed = Packed({{text_.size()}, {5}});
    packed.instead = "write them again";
    const absl::Status refused = objects.Prepare({name_, other_}, packed);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused));
    EXPECT_TRUE(IsUsageError(refused));
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(name_ + " is compressed (zstd)"),
                      HasSubstr("--cache_dir=DIR (2 compressed files of the "
                                "dataset need "),
                      HasSubstr(absl::StrCat("(", text_.size() + 5, " bytes)")),
                      HasSubstr(", or write them again")));
  }
  EXPECT_EQ(unpacker_.calls, 0);
}

// Another size than the description has: less, more (a bomb stops there).
TEST_F(UnpackedObjectsTest, AWrongSizeIsDamageAndLeavesNothing) {
  UnpackedObjects objects(cache_);
  const absl::Status more = objects.Prepare({name_}, Packed({{1000}}));
  EXPECT_TRUE(absl::IsDataLoss(more)) << more;
  EXPECT_THAT(std::string(more.message()),
              HasSubstr(name_ + " is damaged: the zstd file has more than the "
                                "1000 raw bytes"));
  EXPECT_THAT(Everything(), IsEmpty());
  const absl::Status less = objects.Prepare({other_}, Packed({{6, 7}}));
  EXPECT_TRUE(absl::IsDataLoss(less)) << less;
  EXPECT_THAT(std::string(less.message()),
              HasSubstr("has 5 raw bytes, and its description has 6"));
  EXPECT_THAT(Everything(), IsEmpty());
  fs::resize_file(name_, 100);
  const absl::Status cut = objects.Prepare({name_}, Packed({{text_.size()}}));
  EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
  EXPECT_THAT(std::string(cut.message()), HasSubstr(name_ + ": byte 100: "));
  EXPECT_THAT(Everything(), IsEmpty());
}

TEST_F(UnpackedObjectsTest, ADiskThatIsTooSmallIsNamedBeforeAnythingIsWritten) {
  UnpackedObjects objects(cache_);
  const absl::Status full =
      objects.Prepare({name_, other_}, Packed({{uint64_t{1} << 60}, {5}}));
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_TRUE(IsUsageError(full));
  EXPECT_THAT(std::string(full.message()),
              AllOf(HasSubstr("2 compressed files of " + folder_.path()),
                    HasSubstr("1 EiB (1152921504606846981 bytes)"),
                    HasSubstr("--cache_dir=DIR")));
  EXPECT_EQ(unpacker_.calls, 0);
  EXPECT_THAT(Everything(), IsEmpty());
}

TEST_F(UnpackedObjectsTest, AChangedFileIsDecompressedAgain) {
  {
    UnpackedObjects objects(cache_);
    ASSERT_TRUE(Prepare(objects).ok());
    const ObjectIdentity before = *objects.Stat(other_);
    // Of the same size, under the same name.
    Write(folder_ / "new", "OTHER");
    ASSERT_EQ(fs::file_size(folder_ / "new"), fs::file_size(other_));
    fs::rename(folder_ / "new", other_);
    EXPECT_FALSE(*objects.Stat(other_) == before);
    // The open dataset goes on with neither version.
    uint8_t byte = 0;
    const absl::Status changed =
        objects.Read(other_, before, 0, absl::MakeSpan(&byte, 1));
    EXPECT_TRUE(absl::IsDataLoss(changed));
    EXPECT_THAT(std::string(changed.message()),
                HasSubstr(other_ + " was changed, replaced or removed"));
  }
  UnpackedObjects objects(cache_);
  ASSERT_TRUE(Prepare(objects).ok());
  EXPECT_EQ(ReadAll(objects, other_), "OTHER");
  EXPECT_EQ(unpacker_.calls, 3);
  EXPECT_THAT(Copies(), SizeIs(2));
}

// Whatever happens to a copy: it is made again.
TEST_F(UnpackedObjectsTest, ADamagedCopyIsNeverServed) {
  const auto change = [&](int how) {
    for (const std::string& copy : Copies()) {
      if (how == 0) fs::remove(copy);
      if (how == 1) fs::resize_file(copy, 3);
      if (how == 2) {
        const int fd = open(copy.c_str(), O_WRONLY);
        EXPECT_EQ(pwrite(fd, "?", 1, 0), 1);
        close(fd);
      }
      const std::string description = fs::path(copy).parent_path() / "copy";
      if (how == 3) fs::remove(description);
      if (how == 4) {
        std::string text = ReadFile(description);
        text[text.size() / 2] ^= 1;
        WriteFile(description, text);
      }
      if (how == 5) WriteFile(description, "MRUNPACK");
    }
  };
  {
    UnpackedObjects objects(cache_);
    ASSERT_TRUE(Prepare(objects).ok());
  }
  for (int how = 0; how < 6; ++how) {
    const int before = unpacker_.calls;
    change(how);
    UnpackedObjects objects(cache_);
    ASSERT_TRUE(Prepare(objects).ok());
    EXPECT_EQ(unpacker_.calls, before + 2) << how;
    EXPECT_TRUE(ReadAll(objects, name_) == text_) << how;
    EXPECT_THAT(Copies(), SizeIs(2)) << how;
  }
  // Also while it is in use.
  UnpackedObjects objects(cache_);
  ASSERT_TRUE(Prepare(objects).ok());
  for (int how = 0; how < 3; ++how) {
    EXPECT_TRUE(ReadAll(objects, name_) == text_) << how;
    change(how);
    EXPECT_TRUE(ReadAll(objects, name_) == text_) << how;
    EXPECT_EQ(ReadAll(objects, other_), "other") << how;
  }
}

// As `rm -r CACHE/unpacked`, and `rm -r CACHE`, while a server reads the
// copies.
TEST_F(UnpackedObjectsTest, AFolderThatIsRemovedIsMadeAgain) {
  UnpackedObjects objects(cache_);
  ASSERT_TRUE(Prepare(objects).ok());
  for (const std::string& folder : {cache_ + "/unpacked", cache_}) {
    EXPECT_TRUE(ReadAll(objects, name_) == text_) << folder;
    fs::remove_all(folder);
    EXPECT_TRUE(ReadAll(objects, name_) == text_) << folder;
    EXPECT_EQ(ReadAll(objects, other_), "other") << folder;
    EXPECT_THAT(Copies(), SizeIs(2)) << folder;
  }
  EXPECT_EQ(unpacker_.calls, 6);
}

// What a killed process has left: bytes without a description, and no lock.
TEST_F(UnpackedObjectsTest, AnInterruptedCopyIsReplaced) {
  {
    UnpackedObjects objects(cache_);
    ASSERT_TRUE(Prepare(objects).ok());
  }
  const std::string copy = Copies().front();
  fs::remove(fs::path(copy).parent_path() / "copy");
  WriteFile(fs::path(copy).parent_path() / "0123456789abcdef", "half");
  UnpackedObjects objects(cache_);
  ASSERT_TRUE(Prepare(objects).ok());
  EXPECT_TRUE(ReadAll(objects, name_) == text_);
  EXPECT_EQ(ReadAll(objects, other_), "other");
  EXPECT_THAT(Copies(), SizeIs(2));
}

TEST_F(UnpackedObjectsTest, AFileThatCannotBeReadIsNamed) {
  UnpackedObjects objects(cache_);
  const absl::Status missing =
      objects.Prepare({folder_ / "none.zst"}, Packed({{1}}));
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("none.zst"));
  // A folder that is a file.
  WriteFile(folder_ / "file", "");
  UnpackedObjects no_folder(folder_ / "file");
  EXPECT_THAT(std::string(Prepare(no_folder).message()),
              HasSubstr(folder_ / "file"));
  EXPECT_THAT(unpacker_.calls.load(), 0);
}

}  // namespace
}  // namespace millrace::storage
