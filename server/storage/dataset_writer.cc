#include "server/storage/dataset_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/format_registry.h"
#include "server/storage/shard_paths.h"
#include "server/storage/shard_set.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kOverwriteHint =
    "name another output, or pass --overwrite to replace it";

bool ExchangeNames(const std::string& a, const std::string& b) {
  return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) ==
         0;
}

// Whether two folders within `folder` can be exchanged in one step.
bool CanExchangeIn(const std::string& folder) {
  const std::string a = JoinPath(folder, "a"), b = JoinPath(folder, "b");
  const bool can = mkdir(a.c_str(), 0700) == 0 && mkdir(b.c_str(), 0700) == 0 &&
                   ExchangeNames(a, b);
  (void)rmdir(a.c_str());
  (void)rmdir(b.c_str());
  return can;
}

bool IsMountPoint(const std::string& folder) {
  struct statx info;
  return statx(AT_FDCWD, folder.c_str(), 0, 0, &info) == 0 &&
         (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

absl::Status NotInOneStep(const std::string& folder, absl::string_view why) {
  return absl::UnimplementedError(absl::StrCat(
      "cannot replace the shards in ", folder, " in one step: ", why,
      "; pack into another folder, then remove the old one and take its name"));
}

std::string RandomSetId() {
  std::random_device device;
  const auto word = [&device] {
    return static_cast<uint64_t>(device()) << 32 | device();
  };
  const uint64_t low = word();
  return HashToHex({.low = low, .high = word()});
}

// True if the file is empty or begins like a file written by a packer.
bool BeginsLikeShard(const std::string& path) {
  char start[kFormatStartBytes] = {};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = pread(fd, start, sizeof(start), 0);
  close(fd);
  if (got <= 0) return got == 0;
  return !SchemeOfStart({start, static_cast<size_t>(got)}).empty();
}

absl::Status Rename(const std::string& from, const std::string& to,
                    bool replace) {
  int rc = replace ? rename(from.c_str(), to.c_str())
                   : renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                               RENAME_NOREPLACE);
  if (rc != 0 && !replace && errno == EINVAL) {
    // This file system has no rename without replacement.
    rc = access(to.c_str(), F_OK) == 0 ? (errno = EEXIST, -1)
                                       : rename(from.c_str(), to.c_str());
  }
  if (rc == 0) return absl::OkStatus();
  if (errno == EEXIST) {
    return absl::AlreadyExistsError(
        absl::StrCat(to, " appeared during packing; ", kOverwriteHint));
  }
  return FileError(errno, "write", to);
}

absl::StatusOr<DatasetUri> ParseOutput(absl::string_view uri) {
  MR_ASSIGN_OR_RETURN(DatasetUri parsed, ParseDatasetUri(uri));
  if (parsed.path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the output path is empty; write ", parsed.scheme, ":PATH"));
  }
  return parsed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetWriter>> DatasetWriter::Create(
    absl::string_view uri, const DatasetInfo& description,
    const Options& options) {
  MR_ASSIGN_OR_RETURN(const DatasetUri parsed, ParseOutput(uri));
  MR_ASSIGN_OR_RETURN(const ShardFormat* format, FindFormat(parsed.scheme));
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
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        options.shards, " shards for ",
        CountText(description.samples(), "sample"),
        " would leave shards empty; use at most ", description.samples())));
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
  MR_ASSIGN_OR_RETURN(target_, FindTarget(path, options_));
  if (target_.replaces) {
    MR_RETURN_IF_ERROR(MakeStaging());
  } else {
    if (target_.in_folder) {
      MR_ASSIGN_OR_RETURN(made_folder_, MakeFolder(target_.folder));
    }
    const std::string name = FileName(path);
    temporary_files_ =
        TemporaryFiles(target_.folder, [&](absl::string_view of) {
          return target_.in_folder ? IsPackedShardName(of) : of == name;
        });
  }
  const int count = static_cast<int>(options_.shards);
  const std::string set_id = RandomSetId();
  for (int i = 0; i < count; ++i) {
    Shard shard;
    shard.final_path =
        target_.in_folder
            ? JoinPath(target_.folder, ShardName(i, count, format_.suffix()))
            : path;
    shard.temporary_path = target_.replaces
                               ? JoinPath(staging_, FileName(shard.final_path))
                               : TemporaryPath(shard.final_path);
    ShardMetadata& metadata = shard.metadata;
    metadata.set_format_version(kStorageFormatVersion);
    metadata.set_set_id(set_id);
    metadata.set_shard_index(i);
    metadata.set_shard_count(count);
    metadata.set_total_samples(info_.samples());
    // 128 bits, because the product may exceed 64 bits.
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
  // The first shard is created at once, so that an output that cannot be
  // written is reported before the work.
  (void)unlink(shards_[0].temporary_path.c_str());
  MR_ASSIGN_OR_RETURN(writer_, format_.NewShardWriter(shards_[0].temporary_path,
                                                      info_.schema()));
  return absl::OkStatus();
}

absl::Status DatasetWriter::CheckOutput(absl::string_view uri,
                                        const Options& options) {
  MR_ASSIGN_OR_RETURN(const DatasetUri parsed, ParseOutput(uri));
  MR_RETURN_IF_ERROR(FindFormat(parsed.scheme).status());
  MR_ASSIGN_OR_RETURN(const Target target, FindTarget(parsed.path, options));
  // A folder that does not exist yet is created in its parent.
  const bool there = access(target.folder.c_str(), F_OK) == 0;
  const std::string folder = there ? target.folder : FolderOf(target.folder);
  if (access(folder.c_str(), W_OK) != 0) {
    return FileError(errno, "write into folder", folder);
  }
  return absl::OkStatus();
}

absl::StatusOr<DatasetWriter::Target> DatasetWriter::FindTarget(
    const std::string& path, const Options& options) {
  Target target;
  struct stat info;
  const bool exists = lstat(path.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) return FileError(errno, "write", path);
  // A link counts as its target; a link without a target counts as a file.
  const bool is_folder =
      exists && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  target.in_folder =
      options.shards > 1 || is_folder || absl::EndsWith(path, "/");
  target.folder = target.in_folder ? path : FolderOf(path);

  const std::string parent =
      target.in_folder && is_folder ? path : FolderOf(path);
  struct stat parent_info;
  if (stat(parent.c_str(), &parent_info) != 0) {
    return FileError(errno, "write into folder", parent);
  }
  if (!exists) return target;
  if (is_folder) {
    MR_ASSIGN_OR_RETURN(target.replaces, HoldsDataset(target.folder, options));
    if (target.replaces && IsMountPoint(target.folder)) {
      return NotInOneStep(target.folder, "the folder is a mount point");
    }
    return target;
  }
  if (target.in_folder) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " is a file, but ", options.shards,
                     " shards need a folder; remove it or name another"));
  }
  if (!options.overwrite) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " exists already; ", kOverwriteHint));
  }
  if (!S_ISREG(info.st_mode) || !BeginsLikeShard(path)) {
    return absl::AlreadyExistsError(absl::StrCat(
        path,
        " is not a dataset, so --overwrite does not replace it; remove "
        "it yourself or name another output"));
  }
  return target;
}

// False: the folder contains at most the remains of an interrupted packing.
absl::StatusOr<bool> DatasetWriter::HoldsDataset(const std::string& folder,
                                                 const Options& options) {
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder));
  bool holds = false;
  for (const std::string& name : names) {
    if (IsTemporaryName(name)) continue;
    const bool is_shard = IsPackedShardName(name);
    if (!options.overwrite) {
      return absl::AlreadyExistsError(
          absl::StrCat("folder ", folder, " is not empty (", name, "); ",
                       is_shard ? kOverwriteHint : "name another output"));
    }
    if (!is_shard) {
      return absl::AlreadyExistsError(absl::StrCat(
          "folder ", folder, " holds ", name,
          ", which is not a shard, so --overwrite does not replace the folder; "
          "remove the file yourself or name another output"));
    }
    holds = true;
  }
  return holds;
}

// Creates the folder for the new shards beside the folder that it replaces.
// Reports before the work whether the two folders cannot be exchanged.
absl::Status DatasetWriter::MakeStaging() {
  const std::unique_ptr<char, decltype(&free)> real(
      realpath(target_.folder.c_str(), nullptr), &free);
  if (real == nullptr) return FileError(errno, "find", target_.folder);
  real_folder_ = real.get();
  const std::string name = FileName(real_folder_);
  temporary_files_ =
      TemporaryFiles(FolderOf(real_folder_),
                     [&name](absl::string_view of) { return of == name; });
  const std::string staging = TemporaryPath(real_folder_);
  if (mkdir(staging.c_str(), 0777) != 0) {
    return FileError(errno, "create folder", staging);
  }
  staging_ = staging;
  if (!CanExchangeIn(staging_)) {
    return NotInOneStep(
        target_.folder,
        "its file system cannot exchange two folders (RENAME_EXCHANGE)");
  }
  return absl::OkStatus();
}

absl::Status DatasetWriter::Append(
    absl::Span<const absl::Span<const uint8_t>> fields,
    absl::string_view origin) {
  if (next_ >= info_.samples()) {
    return absl::InternalError(absl::StrCat(
        "the input has more than the ", info_.samples(), " announced samples"));
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
    return absl::InternalError(absl::StrCat("the input has only ", next_,
                                            " of the ", info_.samples(),
                                            " announced samples"));
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

absl::Status DatasetWriter::Publish() {
  if (target_.replaces) return Exchange();
  // Several shards are not renamed in one step: a reader that opens the new
  // folder in between, or after a crash in between, is told that shards are
  // missing.
  for (size_t i = 0; i < shards_.size(); ++i) {
    absl::Status status = Rename(shards_[i].temporary_path,
                                 shards_[i].final_path, options_.overwrite);
    if (status.ok()) continue;
    // The folder had no shards before, so the renamed shards are removed.
    for (size_t j = 0; j < i; ++j) {
      (void)unlink(shards_[j].final_path.c_str());
    }
    return status;
  }
  finished_ = true;
  MR_RETURN_IF_ERROR(SyncToDisk(target_.folder));
  return made_folder_ ? SyncToDisk(FolderOf(target_.folder)) : absl::OkStatus();
}

absl::Status DatasetWriter::Exchange() {
  struct stat old;
  if (stat(real_folder_.c_str(), &old) == 0) {
    // The owner is kept as far as this user is allowed to set it.
    (void)!chown(staging_.c_str(), old.st_uid, old.st_gid);
    (void)chmod(staging_.c_str(), old.st_mode & 07777);
  }
  MR_RETURN_IF_ERROR(SyncToDisk(staging_));
  if (!ExchangeNames(staging_, real_folder_)) {
    return FileError(errno, "replace the dataset (which is unchanged) in",
                     target_.folder);
  }
  finished_ = true;
  MR_RETURN_IF_ERROR(SyncToDisk(FolderOf(real_folder_)));
  // The staging folder contains the old shards now.
  if (!RemoveShardFolder(staging_)) {
    MR_LOG(WARNING) << "cannot remove the whole old content of "
                    << target_.folder << ", which is now in " << staging_
                    << ": another program wrote into the folder during "
                       "packing; check its files and remove the folder";
  }
  return absl::OkStatus();
}

DatasetWriter::~DatasetWriter() {
  if (finished_) return;
  writer_.reset();
  for (const Shard& shard : shards_) {
    (void)unlink(shard.temporary_path.c_str());
  }
  if (!staging_.empty()) (void)rmdir(staging_.c_str());
  // rmdir() removes the folder only if it is empty.
  if (made_folder_) (void)rmdir(target_.folder.c_str());
}

}  // namespace millrace::storage
