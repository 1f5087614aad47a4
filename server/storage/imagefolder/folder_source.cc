#include "server/storage/imagefolder/folder_source.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <semaphore>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/aligned_buffer.h"
#include "common/file_error.h"
#include "common/status_macros.h"
#include "common/unique_fd.h"
#include "common/usage_error.h"
#include "server/storage/imagefolder/folder_faults.h"
#include "server/storage/imagefolder/index_cache.h"
#include "server/storage/read_error.h"
#include "server/storage/sample_files.h"

namespace millrace::storage {
namespace {

// Max bytes that a reader keeps for its next sample.
constexpr size_t kKeptBytes = 1 << 20;

// Upper bound of the files that are open at the same time, for any limit of
// open files.
constexpr int kMaxOpenFiles = 512;
constexpr int kMinOpenFiles = 16;

// A sixteenth of the limit of open files: half of the descriptors that a server
// reserves for files of datasets.
int MaxOpenFiles() {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMinOpenFiles;
  return static_cast<int>(
      std::clamp<rlim_t>(limit.rlim_cur / 16, kMinOpenFiles, kMaxOpenFiles));
}

class FolderSource final : public RecordSource, public SampleFiles {
 public:
  FolderSource(FolderIndex index, ByteBudget::Reservation room,
               std::string cache_dir, UniqueFd folder)
      : info_(DescribeFolder(index)),
        path_(std::move(index.folder)),
        files_(std::move(index.files)),
        cache_dir_(std::move(cache_dir)),
        folder_(std::move(folder)),
        room_(std::move(room)),
        open_files_(MaxOpenFiles()) {}

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  ReadWait read_wait() const override { return ReadWait::kRead; }
  absl::Status CheckFiles() const override {
    return faults_.Check([this](int64_t i) {
      struct stat now;
      return fstatat(folder_.get(), files_.PathOf(i).c_str(), &now, 0) == 0
                 ? WhyChanged(i, now)
                 : std::string("is no longer there");
    });
  }
  // Each read has compared its file before and after, and has copied it.
  absl::Status CheckFilesOf(absl::Span<const int64_t> samples) const override {
    return absl::OkStatus();
  }
  uint64_t metadata_bytes() const override { return files_.memory_bytes(); }

  std::string FileOf(int64_t index) const override {
    return files_.PathOf(index);
  }

  const FolderFiles& files() const { return files_; }

  // Reads file `i` to `buffer`. Unavailable: it has changed since the listing,
  // or cannot be read.
  absl::Status Load(int64_t i, AlignedBuffer* buffer) const;

 private:
  // Why the file is not as it was listed, after its path; empty: it is.
  std::string WhyChanged(int64_t i, const struct stat& now) const;
  absl::Status Changed(int64_t i, const std::string& why) const;
  absl::Status Failed(int64_t i, const std::string& how, int error) const;

  const DatasetInfo info_;
  const std::string path_;
  const FolderFiles files_;
  const std::string cache_dir_;
  const UniqueFd folder_;
  const ByteBudget::Reservation room_;  // of files_
  mutable std::counting_semaphore<kMaxOpenFiles> open_files_;
  mutable FolderFaults faults_;
};

std::string FolderSource::WhyChanged(int64_t i, const struct stat& now) const {
  if (!S_ISREG(now.st_mode)) return "is no longer a regular file";
  const auto bytes = static_cast<uint64_t>(now.st_size);
  if (bytes != files_.bytes(i)) {
    return absl::StrCat(bytes < files_.bytes(i) ? "was truncated" : "grew",
                        " from ", files_.bytes(i), " to ", bytes,
                        " bytes after the folder was listed");
  }
  if (ModifiedNanos(now) != files_.modified_nanos(i)) {
    return "was overwritten after the folder was listed";
  }
  return "";
}

absl::Status FolderSource::Changed(int64_t i, const std::string& why) const {
  const std::string sentence = absl::StrCat(
      path_, "/", files_.PathOf(i), " ", why,
      ": it is not read; restore the file with its time of modification, or "
      "restart the data server, or the millrace-data command, which then lists "
      "the folder again");
  if (faults_.Add(i, sentence)) DropFolderIndex(path_, cache_dir_);
  return absl::UnavailableError(sentence);
}

absl::Status FolderSource::Failed(int64_t i, const std::string& how,
                                  int error) const {
  const std::string path = absl::StrCat(path_, "/", files_.PathOf(i));
  return absl::UnavailableError(FileError(error, how, path).message());
}

absl::Status FolderSource::Load(int64_t i, AlignedBuffer* buffer) const {
  // Held while the file is open, and never while anything else is waited for.
  struct Slot {
    explicit Slot(std::counting_semaphore<kMaxOpenFiles>& all) : slots(all) {
      slots.acquire();
    }
    ~Slot() { slots.release(); }
    std::counting_semaphore<kMaxOpenFiles>& slots;
  };
  const Slot slot(open_files_);
  const std::string path = files_.PathOf(i);
  // Without O_NONBLOCK the open() of a FIFO waits for a writer.
  const UniqueFd file(openat(folder_.get(), path.c_str(),
                             O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.ok()) {
    switch (errno) {
      case ENOENT:
      case ENOTDIR:
      case ELOOP:
        return Changed(i, "is no longer there");
      case ENXIO:  // a socket, or a device without a driver
        return Changed(i, "is no longer a regular file");
      default:
        return Failed(i, "open", errno);
    }
  }
  const auto check = [&]() -> absl::Status {
    struct stat now;
    if (fstat(file.get(), &now) != 0) return Failed(i, "read", errno);
    const std::string why = WhyChanged(i, now);
    return why.empty() ? absl::OkStatus() : Changed(i, why);
  };
  MR_RETURN_IF_ERROR(check());
  const size_t bytes = files_.bytes(i);
  uint8_t* const data = buffer->Reserve(bytes);
  if (data == nullptr) return Failed(i, "read", ENOMEM);
  for (size_t at = 0; at < bytes;) {
    const ssize_t got =
        pread(file.get(), data + at, bytes - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed(i, absl::StrCat("read byte ", at, " of"), errno);
    if (got == 0) {
      MR_RETURN_IF_ERROR(check());
      return Failed(i, absl::StrCat("read byte ", at, " of"), EIO);
    }
    at += static_cast<size_t>(got);
  }
  return check();
}

class FolderReader final : public RecordReader {
 public:
  explicit FolderReader(const FolderSource& source) : source_(source) {}

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    const FolderFiles& files = source_.files();
    if (index < 0 || index >= files.size()) {
      return NoSuchSample(index, files.size());
    }
    absl::Span<const uint8_t> views[2];
    if (uses_image_) {
      if (absl::Status status = source_.Load(index, &image_); !status.ok()) {
        return AtSample(std::move(status), files.PathOf(index), 0, index);
      }
      views[0] = {image_.Reserve(0), files.bytes(index)};
    }
    const int64_t label = files.LabelOf(index);
    views[1] = {reinterpret_cast<const uint8_t*>(&label), sizeof(label)};
    absl::Status status = visit({.fields = views, .shard = 0, .row = index});
    image_.ReleaseAbove(kKeptBytes);
    return status;
  }

  absl::Status UseFields(const std::vector<bool>& used) override {
    uses_image_ = used.empty() || used[0];
    return absl::OkStatus();
  }

  void Release() override { image_.ReleaseAbove(0); }

 private:
  const FolderSource& source_;
  bool uses_image_ = true;
  AlignedBuffer image_;
};

absl::StatusOr<std::unique_ptr<RecordReader>> FolderSource::NewReader() const {
  return std::make_unique<FolderReader>(*this);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> NewFolderSource(
    FolderIndex index, ByteBudget::Reservation room,
    const std::string& cache_dir) {
  UniqueFd folder(open(index.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.ok()) return FileError(errno, "read folder", index.folder);
  return std::make_unique<FolderSource>(std::move(index), std::move(room),
                                        cache_dir, std::move(folder));
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenFolderSource(
    const std::string& path, const OpenSourceOptions& options) {
  if (path.empty()) {
    return UsageError(absl::InvalidArgumentError(
        "the path is empty; write imagefolder:PATH"));
  }
  MR_ASSIGN_OR_RETURN(const std::string folder, RealFolder(path));
  ByteBudget::Reservation room;
  MR_ASSIGN_OR_RETURN(
      FolderIndex index,
      FindFolderIndex(folder, options, IndexUse::kCached, &room));
  return NewFolderSource(std::move(index), std::move(room), options.cache_dir);
}

}  // namespace millrace::storage
