#include "server/storage/tfrecord/tfrecord_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/storage/tfrecord/tfrecord_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// "OFFSET+BYTES" of each record.
absl::StatusOr<std::vector<std::string>> Scan(OwnedWindow& window) {
  TfrecordScanner scanner(&window);
  std::vector<std::string> records;
  while (true) {
    const auto record = scanner.Next();
    if (!record.ok()) return record.status();
    if (!record->has_value()) return records;
    records.push_back(absl::StrCat((*record)->offset, "+", (*record)->bytes));
  }
}

absl::Status ErrorOf(const std::string& file) {
  OwnedWindow window(file);
  return Scan(window).status();
}

using Records = std::vector<std::string>;

TEST(TfrecordScanner, FindsPayloadsWithTheirChecksums) {
  OwnedWindow window(RecordFile({"abc", "", "defgh"}));
  const auto records = Scan(window);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, Records({"12+7", "31+4", "47+9"}));
}

TEST(TfrecordScanner, ReadsHeadersOnly) {
  OwnedWindow window(
      RecordFile(std::vector<std::string>(5, std::string(1000, 'x'))));
  ASSERT_TRUE(Scan(window).ok());
  EXPECT_EQ(window.asked(), 5 * 12);
}

TEST(TfrecordScanner, AnEmptyFileHasNoRecords) {
  OwnedWindow window("");
  EXPECT_EQ(*Scan(window), Records());
}

TEST(TfrecordScanner, ADamagedPayloadIsNotItsMatter) {
  std::string file = RecordFile({"abc", "def"});
  file[13] ^= 1;
  OwnedWindow window(file);
  EXPECT_EQ(*Scan(window), Records({"12+7", "31+7"}));
}

TEST(TfrecordScanner, NamesTheByteOfADamagedLength) {
  const std::string good = RecordFile({"abc", "def"});
  for (size_t at = 19; at < 19 + 12; ++at) {
    std::string file = good;
    file[at] ^= 0x40;
    const absl::Status error = ErrorOf(file);
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss) << at;
    EXPECT_THAT(std::string(error.message()),
                StartsWith("byte 19: the length of a record "
                           "does not match its checksum"));
  }
}

TEST(TfrecordScanner, NamesTheByteWhereAFileIsCutOff) {
  const std::string file = RecordFile({"abc", "def"});
  for (size_t bytes = 20; bytes < file.size(); ++bytes) {
    const absl::Status error = ErrorOf(file.substr(0, bytes));
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss) << bytes;
    EXPECT_THAT(std::string(error.message()), StartsWith("byte 19: ")) << bytes;
    EXPECT_THAT(error.message(), HasSubstr("cut off; copy it again")) << bytes;
  }
  EXPECT_TRUE(ErrorOf(file.substr(0, 19)).ok()) << "a whole number of records";
}

// A length is compared with the file before anything is made of it.
TEST(TfrecordScanner, RefusesLengthsBeyondTheFile) {
  for (const uint64_t length :
       {uint64_t{4}, uint64_t{1} << 32, uint64_t{1} << 62, ~uint64_t{0},
        ~uint64_t{0} - 3, ~uint64_t{0} - 15}) {
    OwnedWindow window(HeaderOf(length) + "abc1234");
    const absl::Status error = Scan(window).status();
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(error.message(),
              absl::StrCat("byte 0: a record of ", length,
                           " bytes does not fit into the 7 bytes behind its "
                           "header: the file is cut off; copy it again"));
    EXPECT_EQ(window.asked(), 12);
  }
}

// A file whose size alone is large.
class LargeWindow : public ObjectWindow {
 public:
  explicit LargeWindow(uint64_t length) : header_(HeaderOf(length)) {}
  uint64_t size() const override { return uint64_t{1} << 40; }
  absl::StatusOr<absl::Span<const uint8_t>> At(uint64_t offset,
                                               uint64_t) override {
    EXPECT_EQ(offset, 0);
    return AsBytes(header_);
  }

 private:
  const std::string header_;
};

TEST(TfrecordScanner, ARecordHasLessThan4GiB) {
  constexpr uint64_t kMax = (uint64_t{1} << 32) - 1 - 4;
  LargeWindow largest(kMax);
  const auto record = TfrecordScanner(&largest).Next();
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ((*record)->bytes, (uint64_t{1} << 32) - 1);
  LargeWindow larger(kMax + 1);
  const absl::Status error = TfrecordScanner(&larger).Next().status();
  EXPECT_EQ(error.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(error.message()),
              StartsWith("byte 0: a record has 4294967292 "
                         "bytes, and the maximum is "));
}

TEST(TfrecordScanner, RefusesCompressedFilesWithAWayOut) {
  const absl::Status gzip = ErrorOf("\x1F\x8B\x08 and much more");
  EXPECT_EQ(gzip.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(gzip.message()),
              StartsWith("byte 0: the file is compressed with gzip"));
  EXPECT_THAT(gzip.message(), HasSubstr("gzip -d"));
  // Also one that is shorter than a header.
  EXPECT_EQ(ErrorOf("\x1F\x8B\x08").code(), absl::StatusCode::kUnimplemented);
  for (const char* start : {"\x78\x01", "\x78\x5E", "\x78\x9C", "\x78\xDA"}) {
    const absl::Status zlib = ErrorOf(absl::StrCat(start, " and much more"));
    EXPECT_EQ(zlib.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(zlib.message(), HasSubstr("compressed with zlib"));
  }
}

// 0x8B1F = 35615, 0x9C78 = 40056: lengths that look like compressed files.
TEST(TfrecordScanner, TakesLengthsThatLookLikeCompressedFiles) {
  for (const int length : {35615, 40056}) {
    OwnedWindow window(RecordFile({std::string(length, 'x')}));
    EXPECT_EQ(*Scan(window), Records({absl::StrCat("12+", length + 4)}));
  }
}

TEST(TfrecordScanner, SaysWhatIsNoTfrecordFile) {
  for (const std::string file : {"PAR1 and much more text", "short"}) {
    const absl::Status error = ErrorOf(file);
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(error.message(), HasSubstr("it is no TFRecord file"));
  }
}

TEST(CheckPayload, ComparesTheChecksum) {
  const std::string extent = ExtentOf("payload");
  const auto payload = CheckPayload(AsBytes(extent));
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(AsText(*payload), "payload");
  for (size_t at = 0; at < extent.size(); ++at) {
    std::string damaged = extent;
    damaged[at] ^= 0x10;
    const absl::Status error = CheckPayload(AsBytes(damaged)).status();
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(error.message(),
              "the 7 bytes of the record do not match their checksum: the "
              "file is damaged; copy or write it again");
  }
  EXPECT_EQ(CheckPayload(AsBytes("abc")).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace::storage
