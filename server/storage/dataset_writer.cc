#include "server/storage/dataset_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/storage/file_error.h"
#include "server/storage/packed_set.h"

namespace millrace {
namespace {

constexpr absl::string_view kOverwriteHint =
    "name another output, or pass --overwrite to replace it";

std::string Join(const std::string& folder, absl::string_view name) {
  return absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/", name);
}

// Hidden and with another suffix, so that nobody takes it for a shard; with
// the process in it, so that two packings do not write into one file.
std::string TemporaryPath(const std::string& path) {
  return Join(FolderOf(path),
              absl::StrCat(".", FileName(path), ".", getpid(), ".tmp"));
}

bool IsTemporaryName(absl::string_view name) {
  return absl::StartsWith(name, ".") && absl::EndsWith(name, ".tmp");
}

std::string RandomSetId() {
  std::random_device device;
  const auto word = [&device] {
    return static_cast<uint64_t>(device()) << 32 | device();
  };
  const uint64_t low = word();
  return HashToHex({.low = low, .high = word()});
}

// True when the file begins like one that a packer writes, or is empty.
bool BeginsLikeShard(const std::string& path) {
  char start[20] = {};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = pread(fd, start, sizeof(start), 0);
  close(fd);
  if (got == 0) return true;
  static constexpr char kLmdbMagic[] = "\xDE\xC0\xEF\xBE";
  return (got >= 4 && std::memcmp(start, "PAR1", 4) == 0) ||
         (got >= 20 && std::memcmp(start + 16, kLmdbMagic, 4) == 0);
}

absl::Status Rename(const std::string& from, const std::string& to,
                    bool replace) {
  int rc = replace ? rename(from.c_str(), to.c_str())
                   : renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                               RENAME_NOREPLACE);
  if (rc != 0 && !replace && errno == EINVAL) {
    // This file system cannot rename without replacing.
    rc = access(to.c_str(), F_OK) == 0 ? (errno = EEXIST, -1)
                                       : rename(from.c_str(), to.c_str());
  }
  if (rc == 0) return absl::OkStatus();
  if (errno == EEXIST) {
    return absl::AlreadyExistsError(
        absl::StrCat(to, " appeared while packing; ", kOverwriteHint));
  }
  return FileError(errno, "write", to);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetWriter>> DatasetWriter::Create(
    absl::string_view uri, const DatasetInfo& description,
    const Options& options) {
  MR_ASSIGN_OR_RETURN(const DatasetUri parsed, ParseDatasetUri(uri));
  MR_ASSIGN_OR_RETURN(const ShardFormat* format, FindFormat(parsed.scheme));
  if (parsed.path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the output path is empty; write ", parsed.scheme, ":PATH"));
  }
  if (description.samples() < 1) {
    return absl::InvalidArgumentError(
        "there are no samples to pack; a dataset has at least one");
  }
  if (options.shards < 1 || options.shards > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("the number of shards is ", options.shards,
                     "; it must be 1 to ", kMaxShards));
  }
  if (options.shards > description.samples()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.shards, " shards for ", description.samples(),
        " samples leave some empty; take at most ", description.samples()));
  }
  MR_ASSIGN_OR_RETURN(SampleCheck check,
                      SampleCheck::Create(description.schema()));
  std::unique_ptr<DatasetWriter> writer(
      new DatasetWriter(*format, std::move(check)));
  writer->options_ = options;
  writer->info_ = description;
  MR_RETURN_IF_ERROR(writer->PlanFiles(parsed.path));
  return writer;
}

absl::Status DatasetWriter::PlanFiles(const std::string& path) {
  MR_RETURN_IF_ERROR(CheckTarget(path));
  const int count = static_cast<int>(options_.shards);
  const std::string set_id = RandomSetId();
  for (int i = 0; i < count; ++i) {
    Shard shard;
    shard.final_path =
        in_folder_ ? Join(folder_, ShardName(i, count, format_.suffix()))
                   : path;
    shard.temporary_path = TemporaryPath(shard.final_path);
    ShardMetadata& metadata = shard.metadata;
    metadata.set_format_version(kStorageFormatVersion);
    metadata.set_set_id(set_id);
    metadata.set_shard_index(i);
    metadata.set_shard_count(count);
    metadata.set_total_samples(info_.samples());
    // 128 bits: the product may not fit into 64.
    const auto boundary = [&](int64_t place) {
      return static_cast<int64_t>(static_cast<absl::int128>(info_.samples()) *
                                  place / count);
    };
    metadata.set_first_sample(boundary(i));
    metadata.set_shard_samples(boundary(i + 1) - boundary(i));
    *metadata.mutable_schema() = info_.schema();
    metadata.set_train_preset(info_.train_preset());
    metadata.set_eval_preset(info_.eval_preset());
    shards_.push_back(std::move(shard));
  }
  if (in_folder_) {
    if (mkdir(folder_.c_str(), 0777) == 0) {
      made_folder_ = true;
    } else if (errno != EEXIST) {
      return FileError(errno, "create folder", folder_);
    }
  }
  // The first shard is made at once: an output that cannot be written is told
  // before the work, not after it.
  (void)unlink(shards_[0].temporary_path.c_str());
  MR_ASSIGN_OR_RETURN(writer_, format_.NewShardWriter(shards_[0].temporary_path,
                                                      info_.schema()));
  return absl::OkStatus();
}

absl::Status DatasetWriter::CheckTarget(const std::string& path) {
  struct stat target;
  const bool exists = lstat(path.c_str(), &target) == 0;
  if (!exists && errno != ENOENT) return FileError(errno, "write", path);
  // What a link leads to counts; one that leads nowhere is taken for a file.
  const bool is_folder =
      exists && stat(path.c_str(), &target) == 0 && S_ISDIR(target.st_mode);
  in_folder_ = options_.shards > 1 || is_folder || absl::EndsWith(path, "/");
  folder_ = in_folder_ ? path : FolderOf(path);

  const std::string parent = in_folder_ && is_folder ? path : FolderOf(path);
  struct stat parent_info;
  if (stat(parent.c_str(), &parent_info) != 0) {
    return FileError(errno, "write into folder", parent);
  }
  if (!exists) return absl::OkStatus();
  if (is_folder) return CheckFolderIsDataset();
  if (in_folder_) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " is a file, but ", options_.shards,
                     " shards need a folder; remove it or name another"));
  }
  if (!options_.overwrite) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " exists already; ", kOverwriteHint));
  }
  if (!S_ISREG(target.st_mode) || !BeginsLikeShard(path)) {
    return absl::AlreadyExistsError(absl::StrCat(
        path,
        " is not a dataset, so --overwrite does not replace it; remove "
        "it yourself or name another output"));
  }
  return absl::OkStatus();
}

absl::Status DatasetWriter::CheckFolderIsDataset() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(folder_.c_str()),
                                                   closedir);
  if (folder == nullptr) return FileError(errno, "read folder", folder_);
  int left_over = 0;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (IsTemporaryName(name)) {
      ++left_over;
      continue;
    }
    NumberedName numbered;
    const bool is_shard = (ParseNumberedName(name, ".lmdb", &numbered) ||
                           ParseNumberedName(name, ".parquet", &numbered)) &&
                          numbered.prefix == "part";
    if (!options_.overwrite) {
      return absl::AlreadyExistsError(
          absl::StrCat("folder ", folder_, " is not empty (", name, "); ",
                       is_shard ? kOverwriteHint : "name another output"));
    }
    if (!is_shard) {
      return absl::AlreadyExistsError(absl::StrCat(
          "folder ", folder_, " holds ", name,
          ", which is no shard, so --overwrite does not replace it; remove it "
          "yourself or name another output"));
    }
    replaced_.push_back(Join(folder_, name));
  }
  if (left_over > 0) {
    MR_LOG(WARNING) << "folder " << folder_ << " holds " << left_over
                    << " hidden .tmp files of another packing; remove them if "
                       "it is not running any more";
  }
  return absl::OkStatus();
}

absl::Status DatasetWriter::Append(
    absl::Span<const absl::Span<const uint8_t>> fields,
    absl::string_view origin) {
  if (next_ >= info_.samples()) {
    return absl::InternalError(absl::StrCat("more than the ", info_.samples(),
                                            " samples that were announced"));
  }
  if (absl::Status status = check_.Check(fields); !status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat("sample ", next_, " (", origin, "): ", status.message()));
  }
  if (writer_ == nullptr) {
    const Shard& shard = shards_[shard_];
    (void)unlink(shard.temporary_path.c_str());
    MR_ASSIGN_OR_RETURN(
        writer_, format_.NewShardWriter(shard.temporary_path, info_.schema()));
  }
  MR_RETURN_IF_ERROR(writer_->Append(fields, origin));
  shard_sum_.Add(next_, fields);
  ++next_;
  const ShardMetadata& metadata = shards_[shard_].metadata;
  if (next_ == metadata.first_sample() + metadata.shard_samples()) {
    return FinishShard();
  }
  return absl::OkStatus();
}

absl::Status DatasetWriter::FinishShard() {
  Shard& shard = shards_[shard_];
  shard.metadata.set_content_sum(HashToHex(shard_sum_.value()));
  MR_RETURN_IF_ERROR(writer_->Finish(shard.metadata));
  writer_.reset();
  shard_sum_ = ContentSum();
  ++shard_;
  return absl::OkStatus();
}

absl::StatusOr<DatasetInfo> DatasetWriter::Finish() {
  if (next_ != info_.samples()) {
    return absl::InternalError(absl::StrCat("only ", next_, " of the ",
                                            info_.samples(),
                                            " announced samples came"));
  }
  std::vector<PackedShard> packed;
  for (const Shard& shard : shards_) {
    struct stat file;
    if (stat(shard.temporary_path.c_str(), &file) != 0) {
      return FileError(errno, "find", shard.temporary_path);
    }
    packed.push_back({.path = shard.final_path,
                      .bytes = file.st_size,
                      .metadata = shard.metadata});
  }
  MR_ASSIGN_OR_RETURN(DatasetInfo info,
                      JoinShards(format_.scheme(), format_.suffix(), packed));
  MR_RETURN_IF_ERROR(Publish());
  return info;
}

// Not one step: whoever opens the folder in between, or after a crash in
// between, finds shards missing or shards of two packings, and is told so.
absl::Status DatasetWriter::Publish() {
  for (size_t i = 0; i < shards_.size(); ++i) {
    absl::Status status = Rename(shards_[i].temporary_path,
                                 shards_[i].final_path, options_.overwrite);
    if (status.ok()) continue;
    // What was there before --overwrite is gone already; without it, nothing
    // was, and nothing is left.
    for (size_t j = 0; j < i && !options_.overwrite; ++j) {
      (void)unlink(shards_[j].final_path.c_str());
    }
    return status;
  }
  finished_ = true;
  for (const std::string& old : replaced_) {
    const bool written_over = std::any_of(
        shards_.begin(), shards_.end(),
        [&old](const Shard& shard) { return shard.final_path == old; });
    if (!written_over && unlink(old.c_str()) != 0) {
      return FileError(errno, "remove", old);
    }
  }
  MR_RETURN_IF_ERROR(SyncToDisk(folder_));
  return made_folder_ ? SyncToDisk(FolderOf(folder_)) : absl::OkStatus();
}

DatasetWriter::~DatasetWriter() {
  if (finished_) return;
  writer_.reset();
  for (const Shard& shard : shards_) {
    (void)unlink(shard.temporary_path.c_str());
  }
  // Only when it is empty, of course.
  if (made_folder_) (void)rmdir(folder_.c_str());
}

}  // namespace millrace
