#include "server/storage/imagefolder/content_index.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/first_of.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/thread.h"
#include "server/storage/cache_folder.h"
#include "server/storage/content_hash.h"
#include "server/storage/imagefolder/folder_source.h"
#include "server/storage/imagefolder/image_names.h"
#include "server/storage/imagefolder/index_cache.h"
#include "server/storage/imagefolder/operators_image.h"

namespace millrace::storage {
namespace {

// Reads all samples of an image folder and sums their hashes.
class ContentRead {
 public:
  ContentRead(const RecordSource& source, const FolderFiles& files,
              const operators::Operators* operators)
      : source_(source), files_(files), operators_(operators) {}

  absl::Status Run(uint32_t threads, const IndexProgress& progress) {
    if (!Continues(progress)) return Stopped();
    {
      std::vector<NamedThread> others;
      const int64_t count = std::min<int64_t>(threads, files_.size());
      for (int64_t i = 1; i < count; ++i) {
        others.emplace_back("mr-hash", [this] { Work(nullptr); });
      }
      Work(&progress);
    }
    MutexLock lock(mu_);
    return failed_;
  }

  Hash128 sum() {
    MutexLock lock(mu_);
    return sum_.value();
  }

  // The numbers of the files that are no images, in their order.
  std::vector<int64_t> TakeBad() {
    MutexLock lock(mu_);
    std::sort(bad_.begin(), bad_.end());
    return std::move(bad_);
  }

 private:
  // `progress`: of the calling thread.
  void Work(const IndexProgress* progress) {
    ContentSum sum;
    std::vector<int64_t> bad;
    absl::Status status = ReadShare(progress, &sum, &bad);
    if (!status.ok()) stopped_ = true;
    MutexLock lock(mu_);
    sum_.Add(sum.value());
    bad_.insert(bad_.end(), bad.begin(), bad.end());
    failed_.Update(status);
  }

  absl::Status ReadShare(const IndexProgress* progress, ContentSum* sum,
                         std::vector<int64_t>* bad) {
    MR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordReader> reader,
                        source_.NewReader());
    while (!stopped_) {
      const int64_t i = next_++;
      if (i >= files_.size()) break;
      MR_RETURN_IF_ERROR(reader->Read(i, [&](const EncodedSample& sample) {
        sum->Add(i, sample.fields);
        const absl::string_view start(
            reinterpret_cast<const char*>(sample.fields[0].data()),
            std::min(kImageStartBytes, sample.fields[0].size()));
        if (!WhyNoImage(start).empty() &&
            !IsOperatorsImage(operators_, start)) {
          bad->push_back(i);
        }
        return absl::OkStatus();
      }));
      bytes_ += files_.bytes(i);
      ++done_;
      if (progress != nullptr && !Continues(*progress)) return Stopped();
    }
    return absl::OkStatus();
  }

  bool Continues(const IndexProgress& progress) const {
    return !progress || progress(done_, files_.size(), bytes_);
  }

  static absl::Status Stopped() {
    return absl::CancelledError(
        "interrupted; the index has no hash of the content");
  }

  const RecordSource& source_;
  const FolderFiles& files_;
  const operators::Operators* const operators_;
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> done_{0};
  std::atomic<int64_t> bytes_{0};
  std::atomic<bool> stopped_{false};
  Mutex mu_;
  ContentSum sum_ MR_GUARDED_BY(mu_);
  std::vector<int64_t> bad_ MR_GUARDED_BY(mu_);
  absl::Status failed_ MR_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<IndexedFolder> IndexImageFolder(const std::string& path,
                                               const OpenSourceOptions& options,
                                               uint32_t threads,
                                               const IndexProgress& progress) {
  MR_ASSIGN_OR_RETURN(const std::string folder, RealFolder(path));
  // Before the files are read, which takes long.
  MR_RETURN_IF_ERROR(MakeCacheFolder(options.cache_dir).status());
  ByteBudget::Reservation room;
  MR_ASSIGN_OR_RETURN(
      FolderIndex index,
      FindFolderIndex(folder, options, IndexUse::kFresh, &room));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> source,
                      NewFolderSource(index, std::move(room), options));
  ContentRead read(*source, index.files, options.operators);
  MR_RETURN_IF_ERROR(read.Run(threads, progress));
  IndexedFolder done;
  index.content_sum = HashToHex(read.sum());
  MR_ASSIGN_OR_RETURN(done.file, SaveFolderIndex(index, options.cache_dir));
  done.info = DescribeFolder(index);
  const std::vector<int64_t> bad = read.TakeBad();
  done.bad_count = static_cast<int64_t>(bad.size());
  for (size_t i = 0; i < bad.size() && i < kMaxListed; ++i) {
    done.bad.push_back(absl::StrCat(folder, "/", index.files.PathOf(bad[i])));
  }
  return done;
}

}  // namespace millrace::storage
