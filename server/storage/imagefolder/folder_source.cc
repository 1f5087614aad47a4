#include "server/storage/imagefolder/folder_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/file_error.h"
#include "common/status_macros.h"
#include "common/unique_fd.h"
#include "common/usage_error.h"
#include "server/storage/file_faults.h"
#include "server/storage/file_room.h"
#include "server/storage/imagefolder/folder_scan.h"
#include "server/storage/imagefolder/index_cache.h"
#include "server/storage/objects/checked_file.h"
#include "server/storage/objects/open_files.h"
#include "server/storage/read_error.h"
#include "server/storage/read_memory.h"
#include "server/storage/sample_files.h"

namespace millrace::storage {
namespace {

class FolderSource final : public RecordSource, public SampleFiles {
 public:
  FolderSource(FolderIndex index, ByteBudget::Reservation list,
               std::unique_ptr<ReadMemory> memory,
               const OpenSourceOptions& options, UniqueFd folder,
               std::string identity)
      : info_(DescribeFolder(index)),
        identity_(std::move(identity)),
        list_bytes_(ListingBytes(index.files, index.folders)),
        path_(std::move(index.folder)),
        indexed_(!index.content_sum.empty()),
        files_(std::move(index.files)),
        cache_dir_(options.cache_dir),
        keep_index_(indexed_ && options.keep_content_index),
        folder_(std::move(folder)),
        list_(std::move(list)),
        memory_(std::move(memory)) {}

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  ReadWait read_wait() const override { return ReadWait::kRead; }
  // The number is not bounded, but readers wait for each other's memory.
  uint32_t max_concurrent_reads() const override { return UINT32_MAX; }
  uint64_t metadata_bytes() const override {
    return list_bytes_ + memory_->largest_bytes();
  }
  uint64_t unused_bytes() const override { return memory_->unused_bytes(); }

  const SampleFiles* sample_files() const override { return this; }
  std::string FileOf(int64_t index) const override {
    return files_.PathOf(index);
  }
  uint64_t BytesOf(int64_t index,
                   const std::vector<bool>& used) const override {
    return UsesImage(used) ? files_.bytes(index) + sizeof(int64_t)
                           : sizeof(int64_t);
  }

  std::string FilesIdentity() const override { return identity_; }
  std::string index_file() const override {
    return FolderIndexFile(path_, cache_dir_);
  }

  static bool UsesImage(const std::vector<bool>& used) {
    return used.empty() || used[0];
  }
  const FolderFiles& files() const { return files_; }
  FileRoom& room() const { return memory_->room(); }

  // Reads file `i` to `data`. DataLoss: it has changed since the listing, or
  // may not be read. Unavailable: another attempt may succeed.
  absl::Status Load(int64_t i, uint8_t* data) const;

 private:
  absl::Status StatusOf(int64_t i, const FileFault& fault) const;

  const DatasetInfo info_;
  const std::string identity_;
  // Of the files, and of the folders, whose names the description holds.
  const uint64_t list_bytes_;
  const std::string path_;
  const bool indexed_;  // `millrace-data index` has read the content
  const FolderFiles files_;
  const std::string cache_dir_;
  const bool keep_index_;  // also when a file turns out to have changed
  const UniqueFd folder_;
  const ByteBudget::Reservation list_;  // of files
  const std::unique_ptr<ReadMemory> memory_;
  mutable FileFaults faults_;
};

absl::Status FolderSource::StatusOf(int64_t i, const FileFault& fault) const {
  const std::string path = absl::StrCat(path_, "/", files_.PathOf(i));
  if (fault.changed.empty()) return fault.ToStatus(path);
  const std::string sentence = absl::StrCat(
      path, " ", fault.changed,
      ": the file is not read; restore the file with its time of modification, "
      "or ",
      indexed_ ? absl::StrCat("run `millrace-data index --input=", path_,
                              "` again and ")
               : "",
      "restart the data server, the millrace-data command, or the program "
      "that started the server: the folder is then listed again");
  if (faults_.Add(i, sentence) && !keep_index_) {
    DropFolderIndex(path_, cache_dir_);
  }
  return absl::DataLossError(sentence);
}

absl::Status FolderSource::Load(int64_t i, uint8_t* data) const {
  const OpenFiles::Place place(OpenFiles::OfProcess());
  const UniqueFd file = OpenToRead(folder_.get(), files_.PathOf(i));
  if (!file.ok()) return StatusOf(i, OpenFault(errno));
  const std::optional<FileFault> fault =
      ReadChecked(file.get(),
                  {.bytes = files_.bytes(i),
                   .modified_nanos = files_.modified_nanos(i),
                   .strict = std::nullopt,
                   .since = "after the folder was listed"},
                  0, absl::MakeSpan(data, files_.bytes(i)));
  return fault.has_value() ? StatusOf(i, *fault) : absl::OkStatus();
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
    std::optional<FileRoom::Buffer> image;
    if (uses_image_) {
      const size_t bytes = files.bytes(index);
      // Before the file is opened: who waits for memory holds no descriptor.
      image.emplace(source_.room(), bytes);
      if (image->data() == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the system has no memory for the ",
                         FormatByteSize(bytes), " of ", files.PathOf(index)));
      }
      if (absl::Status status = source_.Load(index, image->data());
          !status.ok()) {
        return AtSample(std::move(status), files.PathOf(index), 0, index);
      }
      views[0] = {image->data(), bytes};
    }
    const int64_t label = files.LabelOf(index);
    views[1] = {reinterpret_cast<const uint8_t*>(&label), sizeof(label)};
    return visit({.fields = views, .shard = 0, .row = index});
  }

  absl::Status UseFields(const std::vector<bool>& used) override {
    uses_image_ = FolderSource::UsesImage(used);
    return absl::OkStatus();
  }

 private:
  const FolderSource& source_;
  bool uses_image_ = true;
};

absl::StatusOr<std::unique_ptr<RecordReader>> FolderSource::NewReader() const {
  return std::make_unique<FolderReader>(*this);
}

// How the files of the folder are read.
ReadUse UseOf(const FolderIndex& index) {
  const int64_t largest = index.files.LargestFile();
  return {.largest_bytes = index.files.bytes(largest),
          .largest = absl::StrCat(
              index.folder, "/", index.files.PathOf(largest), " has ",
              FormatExactByteSize(index.files.bytes(largest)),
              ", and the server holds a file as a whole while it reads it"),
          .largest_of = "the largest file of an image folder",
          .remedy =
              "pack the folder (`millrace-data pack "
              "--format=imagefolder`), or remove the file",
          .one_at_a_time = absl::StrCat(
              index.folder,
              ": its files are read one at a time, because other image "
              "folders have the memory for reading; raise --memory_budget, or "
              "pack the folder")};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> NewFolderSource(
    FolderIndex index, ByteBudget::Reservation room,
    const OpenSourceOptions& options) {
  UniqueFd folder(open(index.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat place;
  if (!folder.ok() || fstat(folder.get(), &place) != 0) {
    return FileError(errno, "read folder", index.folder);
  }
  // The folder stays open, so no other one gets its inode number meanwhile.
  std::string identity =
      absl::StrCat(place.st_dev, ":", place.st_ino, " ", index.listing_sum);
  MR_ASSIGN_OR_RETURN(std::unique_ptr<ReadMemory> memory,
                      ReadMemory::Reserve(UseOf(index), options, &room));
  return std::make_unique<FolderSource>(std::move(index), std::move(room),
                                        std::move(memory), options,
                                        std::move(folder), std::move(identity));
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
  return NewFolderSource(std::move(index), std::move(room), options);
}

}  // namespace millrace::storage
