// Samples come in order from any number of threads, failed ones in their place,
// and threads stop reading when enough samples wait.

#include "server/data_tool/ordered_reads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace millrace::data_tool {
namespace {

// Sample i is a text field of `bytes` to `bytes` + 2 bytes and the number i;
// one may be damaged.
class NumberSource final : public storage::RecordSource {
 public:
  NumberSource(int64_t samples, size_t bytes, int64_t damaged = -1)
      : bytes_(bytes), damaged_(damaged) {
    info_.set_samples(samples);
  }

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<storage::RecordReader>> NewReader()
      const override {
    return std::make_unique<Reader>(*this);
  }
  uint32_t max_concurrent_reads() const override { return max_reads; }

  // Blocks until `count` reads have ended.
  void AwaitReads(int64_t count) const {
    MutexLock lock(mu_);
    while (reads_ < count) read_.Wait(lock);
  }
  int64_t reads() const {
    MutexLock lock(mu_);
    return reads_;
  }
  int readers() const {
    MutexLock lock(mu_);
    return readers_;
  }
  std::string Text(int64_t index) const {
    return std::string(bytes_ + index % 3, static_cast<char>('a' + index % 26));
  }

  uint32_t max_reads = 0;

 private:
  class Reader final : public storage::RecordReader {
   public:
    explicit Reader(const NumberSource& source) : source_(source) {
      MutexLock lock(source_.mu_);
      ++source_.readers_;
    }
    absl::Status Read(
        int64_t index,
        absl::FunctionRef<absl::Status(const storage::EncodedSample&)> visit)
        override {
      absl::Status status;
      if (index == source_.damaged_) {
        status = absl::DataLossError("damaged");
      } else {
        std::string text = source_.Text(index);
        const absl::Span<const uint8_t> fields[] = {
            {reinterpret_cast<const uint8_t*>(text.data()), text.size()},
            {reinterpret_cast<const uint8_t*>(&index), sizeof(index)}};
        status = visit({.fields = fields});
        std::fill(text.begin(), text.end(), '?');
      }
      MutexLock lock(source_.mu_);
      ++source_.reads_;
      source_.read_.NotifyAll();
      return status;
    }

   private:
    const NumberSource& source_;
  };

  const size_t bytes_;
  const int64_t damaged_;
  DatasetInfo info_;
  mutable Mutex mu_;
  mutable CondVar read_;
  mutable int64_t reads_ MR_GUARDED_BY(mu_) = 0;
  mutable int readers_ MR_GUARDED_BY(mu_) = 0;
};

void ExpectAll(const NumberSource& source, OrderedReads& reads,
               int64_t damaged) {
  for (int64_t i = 0; i < source.info().samples(); ++i) {
    const OrderedReads::Sample& sample = reads.Next();
    ASSERT_EQ(sample.index, i);
    if (i == damaged) {
      EXPECT_EQ(sample.status, absl::DataLossError("damaged"));
      EXPECT_TRUE(sample.fields.empty());
      continue;
    }
    ASSERT_TRUE(sample.status.ok()) << sample.status;
    ASSERT_EQ(sample.fields.size(), 2u);
    EXPECT_EQ(std::string(sample.fields[0].begin(), sample.fields[0].end()),
              source.Text(i));
    EXPECT_EQ(*reinterpret_cast<const uint8_t*>(sample.fields[1].data()),
              static_cast<uint8_t>(i));
  }
}

TEST(OrderedReadsTest, SamplesComeInOrderFromAnyNumberOfThreads) {
  for (const uint32_t threads : {1u, 3u, 16u}) {
    const NumberSource source(500, 100, /*damaged=*/123);
    auto reads = OrderedReads::Start(source, {.threads = threads});
    ASSERT_TRUE(reads.ok());
    ExpectAll(source, **reads, 123);
    EXPECT_EQ(source.reads(), 500);
    EXPECT_EQ(source.readers(), static_cast<int>(threads));
  }
}

TEST(OrderedReadsTest, ASourceBoundsItsReaders) {
  NumberSource source(50, 10);
  source.max_reads = 2;
  auto reads = OrderedReads::Start(source, {.threads = 16});
  ASSERT_TRUE(reads.ok());
  EXPECT_EQ(source.readers(), 2);
  ExpectAll(source, **reads, -1);
}

TEST(OrderedReadsTest, ThreadsStopWhenEnoughBytesWait) {
  constexpr int64_t kThreads = 2, kAhead = 3;
  const NumberSource source(100, 100'000);
  auto reads = OrderedReads::Start(
      source, {.threads = kThreads, .max_bytes = kAhead * 100'000});
  ASSERT_TRUE(reads.ok());
  for (int64_t i = 0; i < source.info().samples(); ++i) {
    // The last sample counts until the next call.
    const int64_t given = std::max<int64_t>(i - 1, 0);
    source.AwaitReads(std::min<int64_t>(given + kAhead, 100));
    // One more sample for each thread, which could not know its size.
    EXPECT_LE(source.reads(), given + kAhead - 1 + kThreads);
    ASSERT_EQ((*reads)->Next().index, i);
  }
}

TEST(OrderedReadsTest, ASampleLargerThanTheBoundIsRead) {
  const NumberSource source(20, 1000);
  auto reads = OrderedReads::Start(source, {.threads = 4, .max_bytes = 1});
  ASSERT_TRUE(reads.ok());
  ExpectAll(source, **reads, -1);
}

TEST(OrderedReadsTest, ItEndsBeforeAllSamplesAreRead) {
  const NumberSource source(100'000, 10);
  {
    auto reads = OrderedReads::Start(source, {.threads = 4});
    ASSERT_TRUE(reads.ok());
    EXPECT_EQ((*reads)->Next().index, 0);
  }
  EXPECT_LT(source.reads(), 100);
}

}  // namespace
}  // namespace millrace::data_tool
