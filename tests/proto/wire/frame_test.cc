// Frames as they are written and read: both against protobuf's own encoding,
// in any slicing, whole and damaged.

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/frame_encoder.h"
#include "proto/wire/frame_view.h"
#include "proto/wire/version.h"
#include "tests/testing/wire_samples.h"

namespace millrace::wire {
namespace {

using ::testing::HasSubstr;

std::string Bytes(const std::vector<uint8_t>& v) {
  return std::string(v.begin(), v.end());
}

std::string FirstFrame() {
  const std::string payload = Bytes(testing::SamplePayload());
  return EncodeFirstFramePrefix(testing::SampleHeader(), payload.size()) +
         payload;
}

std::string LaterFrame(uint64_t step, uint64_t offset,
                       const std::string& data) {
  char buffer[kMaxFramePrefixBytes];
  const size_t n = EncodeFramePrefix(step, offset, data.size(), buffer);
  return std::string(buffer, n) + data;
}

absl::Status Parse(const std::string& bytes, FrameView* frame) {
  return ParseFrame({absl::string_view(bytes)}, frame);
}

std::string Joined(const FrameView& frame) {
  std::string all;
  for (absl::string_view piece : frame.data) {
    all.append(piece.data(), piece.size());
  }
  return all;
}

// Cuts at `cuts` random places, with empty slices among them.
std::vector<absl::string_view> Slices(const std::string& bytes,
                                      std::mt19937_64& random, int cuts) {
  std::vector<size_t> at = {0, bytes.size()};
  for (int i = 0; i < cuts; ++i) at.push_back(random() % (bytes.size() + 1));
  std::sort(at.begin(), at.end());
  std::vector<absl::string_view> slices;
  for (size_t i = 1; i < at.size(); ++i) {
    slices.push_back(
        absl::string_view(bytes).substr(at[i - 1], at[i] - at[i - 1]));
  }
  return slices;
}

TEST(FrameEncoderTest, WritesWhatProtobufReads) {
  Frame frame;
  ASSERT_TRUE(frame.ParseFromString(FirstFrame()));
  EXPECT_EQ(frame.header().SerializeAsString(),
            testing::SampleHeader().SerializeAsString());
  EXPECT_EQ(frame.step(), 17);
  EXPECT_EQ(frame.offset(), 0);
  EXPECT_EQ(frame.data(), Bytes(testing::SamplePayload()));
}

TEST(FrameEncoderTest, WritesEveryRangeOfNumbers) {
  const std::string data(300, 'x');
  for (uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{127},
                          uint64_t{128}, uint64_t{1} << 35, UINT64_MAX}) {
    const std::string bytes = LaterFrame(number, number, data);
    Frame frame;
    ASSERT_TRUE(frame.ParseFromString(bytes));
    EXPECT_FALSE(frame.has_header());
    EXPECT_EQ(frame.step(), number);
    EXPECT_EQ(frame.offset(), number);
    EXPECT_EQ(frame.data(), data);
    // The same bytes as protobuf's own encoder, so nothing depends on ours.
    EXPECT_EQ(frame.SerializeAsString(), bytes);
  }
}

TEST(FrameEncoderTest, LongestPrefixFits) {
  char buffer[kMaxFramePrefixBytes];
  EXPECT_EQ(EncodeFramePrefix(UINT64_MAX, UINT64_MAX, UINT64_MAX, buffer,
                              {COMPRESSION_ZSTD, UINT64_MAX, UINT32_MAX}),
            kMaxFramePrefixBytes);
}

TEST(FrameViewTest, ReadsAnySlicingAndReusesTheView) {
  std::mt19937_64 random(1);
  const std::string first = FirstFrame();
  const std::string later = LaterFrame(9, 4096, std::string(500, 'y'));
  FrameView frame;
  for (int round = 0; round < 500; ++round) {
    const auto slices = Slices(first, random, round % 60);
    ASSERT_TRUE(ParseFrame(slices, &frame).ok());
    ASSERT_TRUE(frame.has_header);
    ASSERT_EQ(frame.header.SerializeAsString(),
              testing::SampleHeader().SerializeAsString());
    ASSERT_EQ(frame.step, 17);
    ASSERT_EQ(Joined(frame), Bytes(testing::SamplePayload()));

    const auto more = Slices(later, random, round % 60);
    ASSERT_TRUE(ParseFrame(more, &frame).ok());
    ASSERT_FALSE(frame.has_header);
    ASSERT_EQ(frame.header.tensors_size(), 0);
    ASSERT_EQ(frame.step, 9);
    ASSERT_EQ(frame.offset, 4096);
    ASSERT_EQ(frame.data_bytes, 500);
    ASSERT_EQ(Joined(frame), std::string(500, 'y'));
  }
}

TEST(FrameViewTest, DataIsSeenInPlace) {
  const std::string bytes = LaterFrame(1, 2, "payload");
  FrameView frame;
  ASSERT_TRUE(Parse(bytes, &frame).ok());
  ASSERT_EQ(frame.data.size(), 1);
  EXPECT_EQ(frame.data[0].data(), bytes.data() + bytes.size() - 7);
}

TEST(FrameViewTest, EmptyMessageIsAnEmptyFrame) {
  FrameView frame;
  ASSERT_TRUE(ParseFrame({}, &frame).ok());
  EXPECT_FALSE(frame.has_header);
  EXPECT_EQ(frame.data_bytes, 0);
}

TEST(FrameViewTest, TakesAnyOrderOfFieldsAndTheLastOfTwo) {
  Frame a, b;
  a.set_data("first");
  a.set_step(1);
  b.set_data("second");
  b.set_offset(8);
  b.set_step(2);
  // data before step, and each of them twice
  const std::string bytes = a.SerializeAsString() + b.SerializeAsString();
  FrameView frame;
  ASSERT_TRUE(Parse(bytes, &frame).ok());
  EXPECT_EQ(frame.step, 2);
  EXPECT_EQ(frame.offset, 8);
  EXPECT_EQ(Joined(frame), "second");
  EXPECT_EQ(frame.data_bytes, 6);
}

TEST(FrameViewTest, TakesUnknownFieldsOfEveryType) {
  const std::string unknown =
      std::string("\x28\x96\x01", 3) +           // 5: varint
      std::string("\x31\1\2\3\4\5\6\7\10", 9) +  // 6: fixed64
      std::string(
          "\x3a\x03"
          "abc",
          5) +                                              // 7: bytes
      std::string("\x45\1\2\3\4", 5) +                      // 8: fixed32
      std::string("\x4b\x53\x08\x01\x54\x0a\x01z\x4c", 9);  // 9: group
  const std::string known = LaterFrame(3, 0, "zz");
  std::mt19937_64 random(2);
  FrameView frame;
  for (const std::string& bytes : {unknown + known, known + unknown}) {
    for (int round = 0; round < 50; ++round) {
      const absl::Status status =
          ParseFrame(Slices(bytes, random, round), &frame);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(frame.step, 3);
      ASSERT_EQ(Joined(frame), "zz");
    }
  }
}

struct Damage {
  const char* name;
  std::string bytes;
  const char* says;
};

TEST(FrameViewTest, RefusesDamage) {
  const std::string ten(10, '\xff');
  const std::vector<Damage> cases = {
      {"tag alone", "\x10", "ends inside a number"},
      {"number without end", "\x10" + ten, "over 64 bits"},
      {"number of 65 bits", "\x10" + std::string(9, '\xff') + "\x02",
       "over 64 bits"},
      {"field number 0", std::string("\x02\x00", 2), "field number"},
      {"tag over 32 bits", "\xfa\xff\xff\xff\x7f", "field number"},
      {"step as bytes", std::string("\x12\x00", 2), "`step`"},
      {"offset as fixed64", std::string("\x19") + std::string(8, '\0'),
       "`offset`"},
      {"data as number", std::string("\x20\x00", 2), "`data`"},
      {"header as number", std::string("\x08\x00", 2), "`header`"},
      {"data past the end",
       "\x22\x05"
       "abcd",
       "5 bytes where 4 are left"},
      {"data of 2^32 - 1", "\x22" + std::string(4, '\xff') + "\x0f",
       "4294967295 bytes where 0 are left"},
      {"data of 2^64 - 1", "\x22" + std::string(9, '\xff') + "\x01",
       "over 35 bits"},
      {"tag of six bytes", "\x90" + std::string(4, '\x80') + "\x01",
       "over 35 bits"},
      {"header past the end", "\x0a\x7f", "127 bytes where 0 are left"},
      {"header that is none", std::string("\x0a\x02\x08", 3) + "\xff",
       "does not parse"},
      {"name that is no UTF-8", "\x0a\x05\x52\x03\x0a\x01\xff",
       "does not parse"},
      {"unknown fixed64 cut", std::string("\x31\1\2", 3), "inside a field"},
      {"end of no group", "\x4c", "unknown type"},
      {"group without end", "\x4b", "ends inside a number"},
      {"group ending as another", "\x4b\x54",
       "ends with the number of another"},
      {"groups without bottom", std::string(100, '\x4b'), "too deep"},
      {"wire type 7", "\x2f", "unknown type"},
  };
  FrameView frame;
  for (const Damage& damage : cases) {
    const absl::Status status = Parse(damage.bytes, &frame);
    EXPECT_TRUE(absl::IsDataLoss(status)) << damage.name << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(damage.says))
        << damage.name;
  }
}

TEST(FrameViewTest, RefusesAHeaderThatIsTooLarge) {
  BatchHeader header;
  while (header.ByteSizeLong() <= kMaxBatchHeaderBytes) {
    header.add_tensors()->set_name(std::string(60000, 'n'));
  }
  FrameView frame;
  const absl::Status status = Parse(EncodeFirstFramePrefix(header, 0), &frame);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("batch header of"));
}

TEST(FrameViewTest, RefusesEveryTruncationInsideAField) {
  const std::string whole = FirstFrame();
  FrameView frame;
  Frame protobuf;
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::string cut = whole.substr(0, n);
    // Only a cut between two fields is a message; protobuf agrees where.
    EXPECT_EQ(Parse(cut, &frame).ok(), protobuf.ParseFromString(cut)) << n;
  }
}

TEST(CopyFrameDataTest, CopiesThePiecesToTheirPlace) {
  std::mt19937_64 random(3);
  const std::string bytes = LaterFrame(0, 3, "abcdefgh");
  FrameView frame;
  for (int round = 0; round < 20; ++round) {
    const auto slices = Slices(bytes, random, round);
    ASSERT_TRUE(ParseFrame(slices, &frame).ok());
    std::vector<uint8_t> payload(12, '.');
    ASSERT_TRUE(CopyFrameData(frame, absl::MakeSpan(payload)).ok());
    EXPECT_EQ(Bytes(payload), "...abcdefgh.");
  }
}

TEST(CopyFrameDataTest, RefusesDataOutsideThePayload) {
  FrameView frame;
  std::vector<uint8_t> payload(10, '.');
  for (uint64_t offset :
       {uint64_t{7}, uint64_t{10}, uint64_t{11}, UINT64_MAX, UINT64_MAX - 2}) {
    const std::string bytes = LaterFrame(0, offset, "abcd");
    ASSERT_TRUE(Parse(bytes, &frame).ok());
    EXPECT_TRUE(absl::IsDataLoss(CopyFrameData(frame, absl::MakeSpan(payload))))
        << offset;
  }
  EXPECT_EQ(Bytes(payload), "..........");
}

// Frames of version 1 as they were written when it was new. A later version
// must still write and read these bytes (MILLRACE_UPDATE_GOLDEN=FOLDER writes
// them anew; do that only for a new version, under a new name).
TEST(GoldenFrameTest, Version1IsUnchanged) {
  const std::vector<std::pair<std::string, std::string>> golden = {
      {"frame_v1_first.bin", FirstFrame()},
      {"frame_v1_later.bin", LaterFrame(17, 262144, std::string(200, '\x5a'))},
      {"frame_v1_empty.bin", LaterFrame(0, 0, "")},
  };
  for (const auto& [name, bytes] : golden) {
    if (const char* folder = std::getenv("MILLRACE_UPDATE_GOLDEN")) {
      std::ofstream(std::string(folder) + "/" + name, std::ios::binary)
          << bytes;
    }
    std::ifstream file("tests/testdata/wire/" + name, std::ios::binary);
    ASSERT_TRUE(file) << name;
    const std::string stored{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(stored, bytes) << name;
    FrameView frame;
    EXPECT_TRUE(Parse(stored, &frame).ok()) << name;
  }
}

}  // namespace
}  // namespace millrace::wire
