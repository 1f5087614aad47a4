#include "client/torch/page_locked_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace millrace::device {
namespace {

using ::testing::HasSubstr;

struct Locked {
  std::map<uint8_t*, uint64_t> now;
  uint64_t most = std::numeric_limits<uint64_t>::max();  // bytes, in all
};

class FakeLock final : public PageLock {
 public:
  explicit FakeLock(Locked& locked) : locked_(locked) {}
  absl::Status Lock(uint8_t* data, uint64_t bytes) override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 4096, 0u);
    EXPECT_EQ(bytes % 4096, 0u);
    uint64_t sum = bytes;
    for (const auto& [unused, size] : locked_.now) sum += size;
    if (sum > locked_.most) return absl::ResourceExhaustedError("error 2");
    EXPECT_TRUE(locked_.now.emplace(data, bytes).second) << "locked twice";
    return absl::OkStatus();
  }
  void Unlock(uint8_t* data) override {
    EXPECT_EQ(locked_.now.erase(data), 1u) << "not locked";
  }

 private:
  Locked& locked_;
};

class PageLockedMemoryTest : public ::testing::Test {
 protected:
  Locked locked_;
  const std::shared_ptr<std::atomic<uint64_t>> bytes_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  std::unique_ptr<PageLockedMemory> memory_ =
      std::make_unique<PageLockedMemory>(std::make_unique<FakeLock>(locked_),
                                         bytes_);
  absl::Status why_;
};

// 38.5 MB are 64 MiB to an allocator that rounds to powers of two.
TEST_F(PageLockedMemoryTest, TakesWhatIsNeededRoundedToPages) {
  constexpr uint64_t kBatch = 256 * 3 * 224 * 224 + 17;
  uint8_t* const data = memory_->Allocate(kBatch, &why_);
  ASSERT_NE(data, nullptr) << why_;
  std::memset(data, 1, kBatch);
  EXPECT_LT(*bytes_, kBatch + 4096);
  EXPECT_EQ(locked_.now.at(data), *bytes_);
  uint8_t* const empty = memory_->Allocate(0, &why_);
  ASSERT_NE(empty, nullptr);
  EXPECT_EQ(locked_.now.at(empty), 4096u);
}

TEST_F(PageLockedMemoryTest, KeepsWhatIsFreedForTheNextOfThatSize) {
  uint8_t* const first = memory_->Allocate(5000, &why_);
  uint8_t* const second = memory_->Allocate(5000, &why_);
  ASSERT_NE(first, second);
  memory_->Free(first, 5000);
  EXPECT_EQ(locked_.now.count(first), 1u);           // not unlocked
  EXPECT_EQ(memory_->Allocate(8192, &why_), first);  // the same pages
  EXPECT_NE(memory_->Allocate(5000, &why_), second);
  EXPECT_EQ(*bytes_, 3 * 8192u);
}

TEST_F(PageLockedMemoryTest, UnlocksEverythingAtTheEnd) {
  for (int i = 0; i < 5; ++i) {
    uint8_t* const data = memory_->Allocate(1 + 3000 * i, &why_);
    ASSERT_NE(data, nullptr);
    if (i % 2 == 0) memory_->Free(data, 1 + 3000 * i);
  }
  memory_.reset();
  EXPECT_TRUE(locked_.now.empty());
  EXPECT_EQ(*bytes_, 0u);
}

TEST_F(PageLockedMemoryTest, SaysWhyThereIsNone) {
  locked_.most = 8192;
  ASSERT_NE(memory_->Allocate(8000, &why_), nullptr);
  EXPECT_EQ(memory_->Allocate(1, &why_), nullptr);
  EXPECT_THAT(std::string(why_.message()), HasSubstr("cannot lock 4 KiB of memory"));
  EXPECT_THAT(std::string(why_.message()), HasSubstr("error 2"));
  EXPECT_EQ(memory_->Allocate(std::numeric_limits<uint64_t>::max(), &why_),
            nullptr);
  EXPECT_THAT(std::string(why_.message()),
              HasSubstr("more than any machine has"));
  EXPECT_EQ(*bytes_, 8192u);
}

}  // namespace
}  // namespace millrace::device
