#include "server/storage/foreign_lmdb/index_foreign.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/thread.h"
#include "server/storage/cache_folder.h"
#include "server/storage/content_hash.h"
#include "server/storage/foreign_lmdb/content_record.h"
#include "server/storage/foreign_lmdb/foreign_source.h"
#include "server/storage/record_source.h"

namespace millrace::storage {
namespace {

constexpr int64_t kBlock = 256;  // samples that a thread takes at once

// Hashes all samples. Threads share `next_`; the rest is guarded by mu_.
class Hasher {
 public:
  Hasher(const RecordSource& source, const IndexProgress& progress)
      : source_(source),
        progress_(progress),
        sums_(source.info().shards_size()) {}

  absl::StatusOr<std::vector<Hash128>> Run(uint32_t threads) {
    if (progress_ && !progress_(0, source_.info().samples(), 0)) {
      return absl::CancelledError("stopped");
    }
    {
      std::vector<NamedThread> others;
      for (uint32_t i = 1; i < threads; ++i) {
        others.emplace_back("mr-index", [this] { Work(false); });
      }
      Work(true);
    }
    MutexLock lock(mu_);
    MR_RETURN_IF_ERROR(status_);
    std::vector<Hash128> sums;
    for (const ContentSum& sum : sums_) sums.push_back(sum.value());
    return sums;
  }

 private:
  void Work(bool reports) {
    auto reader = source_.NewReader();
    if (!reader.ok()) return Stop(reader.status());
    std::vector<ContentSum> sums(source_.info().shards_size());
    const int64_t all = source_.info().samples();
    while (!stopped_) {
      const int64_t begin = next_.fetch_add(kBlock);
      if (begin >= all) break;
      const int64_t end = std::min(begin + kBlock, all);
      for (int64_t i = begin; i < end; ++i) {
        const absl::Status status =
            (*reader)->Read(i, [&](const EncodedSample& sample) {
              sums[sample.shard].Add(i, sample.fields);
              return absl::OkStatus();
            });
        if (!status.ok()) return Stop(status);
      }
      done_ += end - begin;
      if (reports && progress_ && !progress_(done_, all, 0)) {
        return Stop(absl::CancelledError("stopped"));
      }
    }
    MutexLock lock(mu_);
    for (size_t i = 0; i < sums.size(); ++i) sums_[i].Add(sums[i].value());
  }

  void Stop(const absl::Status& status) {
    stopped_ = true;
    MutexLock lock(mu_);
    if (status_.ok()) status_ = status;
  }

  const RecordSource& source_;
  const IndexProgress& progress_;
  std::atomic<int64_t> next_ = 0;
  std::atomic<int64_t> done_ = 0;
  std::atomic<bool> stopped_ = false;
  Mutex mu_;
  absl::Status status_ MR_GUARDED_BY(mu_);
  std::vector<ContentSum> sums_ MR_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::optional<IndexedForeign>> IndexForeignLmdb(
    absl::string_view rest, const OpenSourceOptions& options, uint32_t threads,
    const IndexProgress& progress) {
  ForeignLmdb opened;
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> source,
                      OpenForeignLmdb(rest, options, &opened));
  if (source == nullptr) return std::nullopt;
  // Before the samples are read, which takes long.
  MR_RETURN_IF_ERROR(MakeCacheFolder(options.cache_dir).status());
  MR_ASSIGN_OR_RETURN(opened.content.sums,
                      Hasher(*source, progress).Run(threads));
  MR_RETURN_IF_ERROR(source->CheckFiles());
  IndexedForeign indexed;
  MR_ASSIGN_OR_RETURN(
      indexed.file,
      SaveContentRecord(opened.uri, opened.content, options.cache_dir));
  indexed.info = source->info();
  SetContent(opened.content.sums, &indexed.info);
  return indexed;
}

}  // namespace millrace::storage
