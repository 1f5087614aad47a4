#include "server/storage/extents/reader_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

// An object in memory, which notes what is read of it.
class MemoryObject final : public ObjectReader {
 public:
  explicit MemoryObject(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::StatusOr<ObjectIdentity> Stat(const std::string&) override {
    return ObjectIdentity{.bytes = bytes_.size()};
  }
  absl::Status Read(const std::string&, const ObjectIdentity&, uint64_t,
                    absl::Span<uint8_t>) override {
    return absl::InternalError("a scan compares once, behind its reads");
  }
  absl::Status CheckIdentity(const std::string& name,
                             const ObjectIdentity&) override {
    EXPECT_EQ(name, "object");
    return changed_ ? absl::DataLossError("it is another one")
                    : absl::OkStatus();
  }
  absl::Status ReadUnchecked(const std::string& name, const ObjectIdentity&,
                             uint64_t offset,
                             absl::Span<uint8_t> data) override {
    EXPECT_EQ(name, "object");
    if (fails_) return absl::UnavailableError("the disk is slow");
    EXPECT_LE(offset + data.size(), bytes_.size());
    std::copy_n(bytes_.begin() + static_cast<int64_t>(offset), data.size(),
                data.begin());
    reads_.emplace_back(offset, data.size());
    read_bytes_ += data.size();
    return absl::OkStatus();
  }
  std::string bytes_;
  std::vector<std::pair<uint64_t, uint64_t>> reads_;
  uint64_t read_bytes_ = 0;
  bool fails_ = false;
  bool changed_ = false;
};

class ReaderWindowTest : public ::testing::Test {
 protected:
  ReaderWindowTest() : object_(Bytes()) {}
  static std::string Bytes() {
    std::string bytes(3 << 20, '\0');
    std::minstd_rand random(1);
    for (char& c : bytes) c = static_cast<char>(random());
    return bytes;
  }
  void Expect(uint64_t offset, uint64_t bytes) {
    const auto found = window_.At(offset, bytes);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(std::string(found->begin(), found->end()),
              object_.bytes_.substr(offset, bytes))
        << offset;
  }
  MemoryObject object_;
  ReaderWindow window_{&object_, "object", {.bytes = 3 << 20}};
};

TEST_F(ReaderWindowTest, EveryByteInOrderIsReadOnce) {
  uint64_t at = 0;
  for (uint64_t bytes = 1; at + bytes <= window_.size(); ++bytes) {
    Expect(at, bytes);
    at += bytes;
  }
  EXPECT_LE(object_.read_bytes_, window_.size());
  EXPECT_LT(object_.reads_.size(), 30);
}

TEST_F(ReaderWindowTest, FarJumpsReadWhatIsUsed) {
  for (uint64_t at = 0; at + 12 <= window_.size(); at += 100'000) {
    Expect(at, 12);
  }
  // The first reads do not know it yet.
  for (size_t i = 2; i < object_.reads_.size(); ++i) {
    EXPECT_EQ(object_.reads_[i].second, 12);
  }
}

TEST_F(ReaderWindowTest, HeadersBehindOneFarJumpAreOneRead) {
  size_t samples = 0;
  for (uint64_t at = 0; at + 1536 <= window_.size(); at += 100'000) {
    Expect(at, 512);
    Expect(at + 1024, 512);
    ++samples;
  }
  EXPECT_LE(object_.reads_.size(), samples + 1);
  EXPECT_LE(object_.read_bytes_, samples * 1536 + 2 * ReaderWindow::kJumpBytes);
}

TEST_F(ReaderWindowTest, HeadersThatAreNearShareReads) {
  int headers = 0;
  for (uint64_t at = 0; at + 12 <= window_.size(); at += 700) {
    Expect(at, 12);
    ++headers;
  }
  EXPECT_LT(object_.reads_.size(), headers / 5);
}

TEST_F(ReaderWindowTest, AnyOrder) {
  std::minstd_rand random(2);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t at = random() % window_.size();
    const uint64_t most = std::min<uint64_t>(window_.size() - at, 5000);
    Expect(at, random() % (most + 1));
    if (i % 3 == 0) Expect(at, most);
  }
  Expect(0, window_.size());
  Expect(window_.size(), 0);
}

TEST_F(ReaderWindowTest, WhatIsNotThere) {
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {3 << 20, 1}, {UINT64_MAX, 2}, {1, UINT64_MAX}, {5, 3 << 20}}) {
    const auto found = window_.At(offset, bytes);
    EXPECT_TRUE(absl::IsDataLoss(found.status()));
    EXPECT_THAT(std::string(found.status().message()),
                HasSubstr("the object ends at byte 3145728"));
  }
  EXPECT_TRUE(object_.reads_.empty());
  ReaderWindow huge(&object_, "object", {.bytes = uint64_t{1} << 40});
  EXPECT_TRUE(
      absl::IsResourceExhausted(huge.At(0, uint64_t{1} << 32).status()));
}

TEST_F(ReaderWindowTest, AnErrorLeavesNothingBehind) {
  Expect(0, 100);
  object_.fails_ = true;
  EXPECT_TRUE(absl::IsUnavailable(window_.At(90, 5000).status()));
  EXPECT_TRUE(absl::IsUnavailable(window_.At(0, 100).status()));
  object_.fails_ = false;
  Expect(0, 100);
}

TEST_F(ReaderWindowTest, TellsAnotherVersionAtTheEnd) {
  Expect(0, 100);
  EXPECT_TRUE(window_.CheckIdentity().ok());
  object_.changed_ = true;
  EXPECT_TRUE(absl::IsDataLoss(window_.CheckIdentity()));
}

}  // namespace
}  // namespace millrace::storage
