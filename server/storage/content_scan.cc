#include "server/storage/content_scan.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/thread.h"

namespace millrace::storage {
namespace {

// Samples that a thread takes at a time. They follow each other, so that the
// same parts of a file are read by one thread.
constexpr int64_t kBlock = 256;

class Scan {
 public:
  Scan(const RecordSource& source, const IndexProgress& progress)
      : source_(source),
        progress_(progress),
        samples_(source.info().samples()),
        shards_(static_cast<size_t>(source.info().shards_size())),
        sums_(shards_) {}

  absl::StatusOr<std::vector<Hash128>> Run(uint32_t threads) {
    if (progress_ && !progress_(0, samples_, 0)) Fail(0, Stopped());
    {
      std::vector<NamedThread> others;
      for (uint32_t i = 1; i < threads; ++i) {
        others.emplace_back("mr-content", [this] { Work(/*tells=*/false); });
      }
      Work(/*tells=*/true);
    }
    MutexLock lock(mu_);
    MR_RETURN_IF_ERROR(failed_);
    MR_RETURN_IF_ERROR(source_.CheckFiles());
    std::vector<Hash128> sums;
    for (const ContentSum& sum : sums_) sums.push_back(sum.value());
    return sums;
  }

 private:
  static absl::Status Stopped() { return absl::CancelledError("stopped"); }

  // The error of the first sample counts.
  void Fail(int64_t sample, absl::Status status) MR_EXCLUDES(mu_) {
    stop_ = true;
    MutexLock lock(mu_);
    if (!failed_.ok() && failed_sample_ <= sample) return;
    failed_ = std::move(status);
    failed_sample_ = sample;
  }

  void Work(bool tells) MR_EXCLUDES(mu_) {
    auto reader = source_.NewReader();
    if (!reader.ok()) return Fail(0, reader.status());
    std::vector<ContentSum> sums(shards_);
    while (!stop_) {
      const int64_t begin = next_.fetch_add(kBlock);
      if (begin >= samples_) break;
      const int64_t end = std::min(begin + kBlock, samples_);
      for (int64_t i = begin; i < end; ++i) {
        const absl::Status read =
            (*reader)->Read(i, [&](const EncodedSample& sample) {
              sums[static_cast<size_t>(sample.shard)].Add(i, sample.fields);
              for (const auto& field : sample.fields) bytes_ += field.size();
              return absl::OkStatus();
            });
        if (!read.ok()) return Fail(i, read);
      }
      const int64_t done = done_ += end - begin;
      if (tells && progress_ && !progress_(done, samples_, bytes_)) {
        return Fail(0, Stopped());
      }
    }
    MutexLock lock(mu_);
    for (size_t i = 0; i < sums.size(); ++i) sums_[i].Add(sums[i].value());
  }

  const RecordSource& source_;
  const IndexProgress& progress_;
  const int64_t samples_;
  const size_t shards_;
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> done_{0};
  std::atomic<int64_t> bytes_{0};
  std::atomic<bool> stop_{false};
  Mutex mu_;
  std::vector<ContentSum> sums_ MR_GUARDED_BY(mu_);
  absl::Status failed_ MR_GUARDED_BY(mu_);
  int64_t failed_sample_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace

absl::StatusOr<std::vector<Hash128>> ScanContent(
    const RecordSource& source, uint32_t threads,
    const IndexProgress& progress) {
  return Scan(source, progress).Run(std::max<uint32_t>(1, threads));
}

}  // namespace millrace::storage
