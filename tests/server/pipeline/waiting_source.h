// A source whose reads do what a test wants: wait, count, fail.
//
// Its readers may be on any threads, and so is the hook called.
//
//   auto slow = Waiting(Numbers(100), [&](int64_t) {
//     gate.Pass();
//     return absl::OkStatus();
//   });

#ifndef MILLRACE_TESTS_SERVER_PIPELINE_WAITING_SOURCE_H_
#define MILLRACE_TESTS_SERVER_PIPELINE_WAITING_SOURCE_H_

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/storage/record_source.h"

namespace millrace::pipeline {

inline std::string ThreadName() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

inline bool IsReader() { return ThreadName().starts_with("mr-reader"); }

// What reading another source is like: a test's hook comes before every read.
class WaitingSource final : public storage::RecordSource {
 public:
  using Hook = std::function<absl::Status(int64_t index)>;

  WaitingSource(std::shared_ptr<const storage::RecordSource> base,
                storage::ReadWait wait, Hook hook, uint32_t max_concurrent = 0)
      : base_(std::move(base)),
        wait_(wait),
        hook_(std::move(hook)),
        max_concurrent_(max_concurrent) {}
  const DatasetInfo& info() const override { return base_->info(); }
  storage::ReadWait read_wait() const override { return wait_; }
  uint32_t max_concurrent_reads() const override { return max_concurrent_; }
  absl::StatusOr<std::unique_ptr<storage::RecordReader>> NewReader()
      const override {
    auto reader = base_->NewReader();
    if (!reader.ok()) return reader.status();
    return std::make_unique<Reader>(*this, *std::move(reader));
  }

  mutable std::atomic<uint64_t> prefetches{0};

 private:
  class Reader final : public storage::RecordReader {
   public:
    Reader(const WaitingSource& source,
           std::unique_ptr<storage::RecordReader> base)
        : source_(source), base_(std::move(base)) {}
    absl::Status Read(
        int64_t index,
        absl::FunctionRef<absl::Status(const storage::EncodedSample&)> visit)
        override {
      if (absl::Status status = source_.hook_(index); !status.ok()) {
        return status;
      }
      return base_->Read(index, visit);
    }
    void Prefetch(int64_t) override {
      EXPECT_TRUE(IsReader());
      source_.prefetches.fetch_add(1);
    }

   private:
    const WaitingSource& source_;
    const std::unique_ptr<storage::RecordReader> base_;
  };

  const std::shared_ptr<const storage::RecordSource> base_;
  const storage::ReadWait wait_;
  const Hook hook_;
  const uint32_t max_concurrent_;
};

inline std::shared_ptr<const WaitingSource> Waiting(
    std::shared_ptr<const storage::RecordSource> base, WaitingSource::Hook hook,
    storage::ReadWait wait = storage::ReadWait::kRead,
    uint32_t max_concurrent = 0) {
  return std::make_shared<WaitingSource>(std::move(base), wait, std::move(hook),
                                         max_concurrent);
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_SERVER_PIPELINE_WAITING_SOURCE_H_
