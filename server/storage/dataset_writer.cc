#include "server/storage/dataset_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_size.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/format_registry.h"
#include "server/storage/little_endian.h"
#include "server/storage/shard_paths.h"
#include "server/storage/shard_set.h"

namespace millrace::storage {
namespace {

// The NAME of the hidden folder inside the folder of the shards.
constexpr absl::string_view kWorkName = "part";

constexpr absl::string_view kOverwriteHint =
    "name another output, or pass --overwrite to replace it";

bool ExchangeNames(const std::string& a, const std::string& b) {
  return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) ==
         0;
}

// Whether two folders within `folder` can be exchanged in one step.
bool CanExchangeIn(const std::string& folder) {
  const std::string a = JoinPath(folder, "a"), b = JoinPath(folder, "b");
  // A killed packing may have left them.
  (void)rmdir(a.c_str());
  (void)rmdir(b.c_str());
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

// Bytes of a hash's input: a text is its length and its bytes.
void AddText(absl::string_view text, std::string* bytes) {
  AppendU64(text.size(), bytes);
  absl::StrAppend(bytes, text);
}

Hash128 HashOf(absl::string_view bytes) {
  return HashBytes(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

Hash128 FromHex(absl::string_view text) {
  Hash128 hash;
  HashFromHex(text, &hash);
  return hash;
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
  if (options.shard_bytes > 0 && options.shards != 1) {
    return absl::InvalidArgumentError(
        "shards are cut by number or by bytes, not by both");
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
  writer->path_ = parsed.path;
  MR_RETURN_IF_ERROR(writer->MakeWorkFolder(parsed.path));
  MR_RETURN_IF_ERROR(writer->StartWork());
  return writer;
}

absl::Status DatasetWriter::MakeWorkFolder(const std::string& path) {
  MR_ASSIGN_OR_RETURN(target_, FindTarget(path, options_));
  MR_ASSIGN_OR_RETURN(const std::string beside, Beside(path, target_));
  if (target_.replaces) {
    real_folder_ = beside;
  } else if (target_.in_folder) {
    MR_ASSIGN_OR_RETURN(made_folder_, MakeFolder(target_.folder));
  }
  const std::string name = FileName(beside);
  const std::string work = TemporaryPath(beside);
  temporary_files_ = TemporaryFiles(
      FolderOf(beside),
      [&](absl::string_view of) {
        return of == name || (target_.in_folder && !target_.replaces &&
                              IsPackedShardName(of));  // of older versions
      },
      options_.resume ? work : "");
  if (!temporary_files_.adopted() && mkdir(work.c_str(), 0777) != 0) {
    return FileError(errno, "create folder", work);
  }
  work_ = work;
  // Until it is known what becomes of it: a full disk must not remove it.
  keep_ = temporary_files_.adopted();
  return target_.replaces ? CheckExchange() : absl::OkStatus();
}

// Reports before the work whether the two folders cannot be exchanged.
absl::Status DatasetWriter::CheckExchange() const {
  if (CanExchangeIn(work_)) return absl::OkStatus();
  return NotInOneStep(
      target_.folder,
      "its file system cannot exchange two folders (RENAME_EXCHANGE)");
}

PackingJournal::Content DatasetWriter::JournalOf() const {
  PackingJournal::Content content;
  std::string flags;
  AddText(format_.scheme(), &flags);
  AppendU64(static_cast<uint64_t>(options_.shards), &flags);
  AppendU64(options_.shard_bytes, &flags);
  AddText(options_.resume_flags, &flags);
  for (const std::string& line : info_.prepared()) AddText(line, &flags);
  content.flags = HashOf(flags);
  std::string input;
  AddText(DatasetFingerprint(info_.samples(), info_.schema(), {}), &input);
  AddText(info_.train_preset(), &input);
  AddText(info_.eval_preset(), &input);
  content.input = HashOf(input);
  return content;
}

bool DatasetWriter::TakeFinished(std::string* why) {
  PackingJournal::Content left;
  if (!PackingJournal::Read(work_, &left)) {
    *why = "its list of shards is damaged";
    return false;
  }
  const PackingJournal::Content own = JournalOf();
  if (!(left.flags == own.flags)) {
    *why = "its flags were others";
    return false;
  }
  if (!(left.input == own.input)) {
    *why = "its input had another number of samples, other fields or classes";
    return false;
  }
  was_placing_ = left.placing;
  int64_t first = 0;
  for (const PackingJournal::Shard& of : left.shards) {
    Shard shard;
    shard.work_path = WorkPath(shards_.size());
    struct stat file;
    // A file with its metadata is longer.
    if (stat(shard.work_path.c_str(), &file) == 0 ? file.st_size < of.bytes
                                                  : !was_placing_) {
      break;
    }
    shard.metadata = MetadataOf(first, of.samples);
    shard.metadata.set_content_sum(HashToHex(of.content));
    shard.input = of.input;
    shards_.push_back(std::move(shard));
    first += of.samples;
  }
  kept_samples_ = first;
  const bool whole = first == info_.samples();
  if (shards_.empty() || first > info_.samples() || (was_placing_ && !whole)) {
    *why = "its shards are incomplete";
    return false;
  }
  return true;
}

absl::Status DatasetWriter::StartWork() {
  if (temporary_files_.adopted()) {
    std::string why;
    if (TakeFinished(&why)) {
      MR_LOG(INFO) << "going on with the interrupted packing of " << path_
                   << ": " << CountText(shards_.size(), "finished shard")
                   << " with " << kept_samples_ << " of "
                   << CountText(info_.samples(), "sample");
    } else {
      MR_LOG(INFO) << "packing " << path_
                   << " starts anew, because the interrupted packing does not "
                      "fit: "
                   << why;
      if (was_placing_) RemovePlaced();
      shards_.clear();
      kept_samples_ = 0;
      was_placing_ = false;
      if (!RemoveShardFolder(work_) || mkdir(work_.c_str(), 0777) != 0) {
        return FileError(errno, "empty folder", work_);
      }
    }
  }
  if (options_.resume) {
    PackingJournal::Content content = JournalOf();
    for (const Shard& shard : shards_) {
      struct stat file = {};
      (void)stat(shard.work_path.c_str(), &file);
      content.shards.push_back(
          {.samples = shard.metadata.shard_samples(),
           .bytes = std::max<int64_t>(file.st_size, 1),
           .content = FromHex(shard.metadata.content_sum()),
           .input = shard.input});
    }
    content.placing = was_placing_;
    MR_ASSIGN_OR_RETURN(journal_, PackingJournal::Start(work_, content));
  }
  keep_ = false;
  // The first shard is created at once, so that an output that cannot be
  // written is reported before the work.
  return shards_.empty() ? OpenShard() : absl::OkStatus();
}

ShardMetadata DatasetWriter::MetadataOf(int64_t first, int64_t samples) const {
  ShardMetadata metadata;
  metadata.set_format_version(kStorageFormatVersion);
  metadata.set_total_samples(info_.samples());
  metadata.set_first_sample(first);
  metadata.set_shard_samples(samples);
  *metadata.mutable_schema() = info_.schema();
  metadata.set_train_preset(info_.train_preset());
  metadata.set_eval_preset(info_.eval_preset());
  *metadata.mutable_prepared() = info_.prepared();
  return metadata;
}

std::string DatasetWriter::WorkPath(size_t shard) const {
  return JoinPath(work_, absl::StrFormat(".%05d.tmp", shard));
}

std::string DatasetWriter::PlacedPath(size_t shard) const {
  return target_.replaces ? JoinPath(work_, FileName(FinalPath(shard)))
                          : FinalPath(shard);
}

std::string DatasetWriter::FinalPath(size_t shard) const {
  if (!target_.in_folder) return path_;
  return JoinPath(target_.folder, ShardName(static_cast<int>(shard),
                                            static_cast<int>(shards_.size()),
                                            format_.suffix()));
}

// Two packings with equal ids have equal shards, whatever their input was.
std::string DatasetWriter::SetId() const {
  std::string bytes;
  AddText("millrace set 1", &bytes);
  AddText(format_.scheme(), &bytes);
  AddText(info_.train_preset(), &bytes);
  AddText(info_.eval_preset(), &bytes);
  for (const std::string& line : info_.prepared()) AddText(line, &bytes);
  ContentSum sum;
  for (const Shard& shard : shards_) {
    AppendU64(static_cast<uint64_t>(shard.metadata.first_sample()), &bytes);
    sum.Add(FromHex(shard.metadata.content_sum()));
    AddText(shard.metadata.content_sum(), &bytes);
  }
  AddText(DatasetFingerprint(info_.samples(), info_.schema(), sum.value()),
          &bytes);
  return HashToHex(HashOf(bytes));
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

int64_t DatasetWriter::InterruptedSamples(absl::string_view uri,
                                          const Options& options) {
  const auto parsed = ParseOutput(uri);
  if (!parsed.ok()) return 0;
  const auto target = FindTarget(parsed->path, options);
  if (!target.ok()) return 0;
  const auto beside = Beside(parsed->path, *target);
  PackingJournal::Content left;
  int64_t samples = 0;
  if (beside.ok() &&
      FindLeftPacking(FolderOf(*beside), FileName(*beside), &left)) {
    for (const PackingJournal::Shard& shard : left.shards) {
      samples += shard.samples;
    }
  }
  return samples;
}

// The path beside which the hidden folder lies.
absl::StatusOr<std::string> DatasetWriter::Beside(const std::string& path,
                                                  const Target& target) {
  if (!target.replaces) {
    return target.in_folder ? JoinPath(target.folder, kWorkName) : path;
  }
  const std::unique_ptr<char, decltype(&free)> real(
      realpath(target.folder.c_str(), nullptr), &free);
  if (real == nullptr) return FileError(errno, "find", target.folder);
  return std::string(real.get());
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
  target.in_folder = options.shards > 1 || options.shard_bytes > 0 ||
                     is_folder || absl::EndsWith(path, "/");
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
    return absl::AlreadyExistsError(absl::StrCat(
        path, " is a file, but ",
        options.shard_bytes > 0 ? "shards of a number of bytes"
                                : absl::StrCat(options.shards, " shards"),
        " need a folder; remove it or name another"));
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
  // A packing that was killed while it placed its shards: they are no dataset.
  PackingJournal::Content left;
  const bool left_placing =
      FindLeftPacking(folder, kWorkName, &left) && left.placing;
  bool holds = false;
  for (const std::string& name : names) {
    if (IsTemporaryName(name)) continue;
    const bool is_shard = IsPackedShardName(name);
    if (is_shard && left_placing) continue;
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

int64_t DatasetWriter::EndOfShard() const {
  if (options_.shard_bytes > 0) return info_.samples();
  // 128 bits, because the product may exceed 64 bits.
  return static_cast<int64_t>(static_cast<absl::int128>(info_.samples()) *
                              static_cast<int64_t>(shards_.size() + 1) /
                              options_.shards);
}

absl::Status DatasetWriter::OpenShard() {
  const std::string path = WorkPath(shards_.size());
  (void)unlink(path.c_str());
  shard_first_ = next_;
  shard_bytes_ = 0;
  MR_ASSIGN_OR_RETURN(writer_, format_.NewShardWriter(path, info_.schema()));
  return absl::OkStatus();
}

absl::Status DatasetWriter::Confirm(Hash128 input) {
  if (next_ >= kept_samples_) {
    return absl::InternalError("a sample is confirmed that was not kept");
  }
  input_sum_.Add(input);
  ++next_;
  const Shard& shard = shards_[confirmed_shards_];
  if (next_ < shard.metadata.first_sample() + shard.metadata.shard_samples()) {
    return absl::OkStatus();
  }
  if (!(input_sum_.value() == shard.input)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the input has changed since the interrupted packing of ",
                     path_, ": samples ", shard.metadata.first_sample(), " to ",
                     next_ - 1, " differ"));
  }
  input_sum_ = ContentSum();
  ++confirmed_shards_;
  return absl::OkStatus();
}

absl::Status DatasetWriter::Append(
    absl::Span<const absl::Span<const uint8_t>> fields,
    absl::string_view origin, Hash128 input) {
  if (next_ < kept_samples_) {
    return absl::InternalError("a kept sample is not confirmed");
  }
  if (next_ >= info_.samples()) {
    return absl::InternalError(absl::StrCat(
        "the input has more than the ", info_.samples(), " announced samples"));
  }
  if (absl::Status status = check_.Check(fields); !status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat("sample ", next_, " (", origin, "): ", status.message()));
  }
  uint64_t bytes = 0;
  for (const auto& field : fields) bytes += field.size();
  if (options_.shard_bytes > 0 && writer_ != nullptr && next_ > shard_first_ &&
      (shard_bytes_ >= options_.shard_bytes ||
       bytes > options_.shard_bytes - shard_bytes_)) {
    MR_RETURN_IF_ERROR(FinishShard());
    MR_RETURN_IF_ERROR(CheckShardLimit());
  }
  if (writer_ == nullptr) MR_RETURN_IF_ERROR(OpenShard());
  MR_RETURN_IF_ERROR(writer_->Append(fields, origin));
  shard_sum_.Add(next_, fields);
  input_sum_.Add(input);
  shard_bytes_ += bytes;
  ++next_;
  return next_ == EndOfShard() ? FinishShard() : absl::OkStatus();
}

// Estimates from the shards so far, so that a long packing does not fail at its
// end. The first shards may be unlike the others: they must be far off.
absl::Status DatasetWriter::CheckShardLimit() const {
  const auto shards = static_cast<int64_t>(shards_.size());
  const auto needed = static_cast<int64_t>(
      static_cast<absl::int128>(info_.samples()) * shards / next_);
  if (shards < kMaxShards && (shards < 10 || needed < 2 * kMaxShards)) {
    return absl::OkStatus();
  }
  return UsageError(absl::InvalidArgumentError(
      absl::StrCat("shards of ", FormatExactByteSize(options_.shard_bytes),
                   " would be about ", std::max(needed, shards + 1),
                   "; the maximum is ", kMaxShards, ": make them larger")));
}

absl::Status DatasetWriter::FinishShard() {
  Shard shard;
  shard.work_path = WorkPath(shards_.size());
  shard.metadata = MetadataOf(shard_first_, next_ - shard_first_);
  shard.metadata.set_content_sum(HashToHex(shard_sum_.value()));
  shard.input = input_sum_.value();
  MR_RETURN_IF_ERROR(writer_->Finish(shard.metadata));
  writer_.reset();
  struct stat file;
  if (stat(shard.work_path.c_str(), &file) != 0) {
    return FileError(errno, "find", shard.work_path);
  }
  if (journal_ != nullptr) {
    MR_RETURN_IF_ERROR(SyncToDisk(work_));
    MR_RETURN_IF_ERROR(journal_->Add({.samples = shard.metadata.shard_samples(),
                                      .bytes = file.st_size,
                                      .content = shard_sum_.value(),
                                      .input = shard.input}));
  }
  shard_sum_ = ContentSum();
  input_sum_ = ContentSum();
  shards_.push_back(std::move(shard));
  return absl::OkStatus();
}

int64_t DatasetWriter::KeepFinishedShards() {
  if (journal_ == nullptr || shards_.empty()) return 0;
  keep_ = true;
  const ShardMetadata& last = shards_.back().metadata;
  return last.first_sample() + last.shard_samples();
}

absl::StatusOr<DatasetInfo> DatasetWriter::Finish() {
  if (next_ != info_.samples()) {
    return absl::InternalError(absl::StrCat("the input has only ", next_,
                                            " of the ", info_.samples(),
                                            " announced samples"));
  }
  const std::string set_id = SetId();
  std::vector<PackedShard> packed;
  for (size_t i = 0; i < shards_.size(); ++i) {
    Shard& shard = shards_[i];
    shard.metadata.set_set_id(set_id);
    shard.metadata.set_shard_index(static_cast<int>(i));
    shard.metadata.set_shard_count(static_cast<int>(shards_.size()));
    std::string path = shard.work_path;
    struct stat file;
    if (was_placing_ && stat(path.c_str(), &file) != 0) path = PlacedPath(i);
    MR_RETURN_IF_ERROR(format_.Seal(path, shard.metadata));
    if (stat(path.c_str(), &file) != 0) return FileError(errno, "find", path);
    packed.push_back({.path = FinalPath(i),
                      .bytes = file.st_size,
                      .metadata = shard.metadata});
  }
  MR_ASSIGN_OR_RETURN(DatasetInfo info,
                      JoinShards(format_.scheme(), format_.suffix(), packed));
  MR_RETURN_IF_ERROR(Publish());
  return info;
}

absl::Status DatasetWriter::Publish() {
  if (journal_ != nullptr && !was_placing_ && target_.in_folder) {
    MR_RETURN_IF_ERROR(journal_->AddPlacing());
  }
  MR_RETURN_IF_ERROR(PlaceShards());
  if (target_.replaces) return Exchange();
  finished_ = true;
  MR_RETURN_IF_ERROR(SyncToDisk(target_.folder));
  (void)RemoveShardFolder(work_);
  return made_folder_ ? SyncToDisk(FolderOf(target_.folder)) : absl::OkStatus();
}

// Several shards are not renamed in one step: a reader that opens the new
// folder in between, or after a crash in between, is told that shards are
// missing.
absl::Status DatasetWriter::PlaceShards() {
  for (size_t i = 0; i < shards_.size(); ++i) {
    const std::string& from = shards_[i].work_path;
    const std::string to = PlacedPath(i);
    if (was_placing_ && access(from.c_str(), F_OK) != 0) continue;
    absl::Status status = Rename(from, to, options_.overwrite);
    if (status.ok()) continue;
    // The folder had no shards before, so the renamed shards are removed.
    for (size_t j = 0; j < i; ++j) (void)unlink(PlacedPath(j).c_str());
    return status;
  }
  return absl::OkStatus();
}

// The shards that a killed packing has given their names.
void DatasetWriter::RemovePlaced() const {
  const auto names = NamesIn(target_.folder);
  if (target_.replaces || !names.ok()) return;
  for (const std::string& name : *names) {
    if (IsPackedShardName(name)) {
      (void)unlink(JoinPath(target_.folder, name).c_str());
    }
  }
}

absl::Status DatasetWriter::Exchange() {
  struct stat old;
  if (stat(real_folder_.c_str(), &old) == 0) {
    // The owner is kept as far as this user is allowed to set it.
    (void)!chown(work_.c_str(), old.st_uid, old.st_gid);
    (void)chmod(work_.c_str(), old.st_mode & 07777);
  }
  MR_RETURN_IF_ERROR(SyncToDisk(work_));
  if (!ExchangeNames(work_, real_folder_)) {
    return FileError(errno, "replace the dataset (which is unchanged) in",
                     target_.folder);
  }
  finished_ = true;
  if (journal_ != nullptr) {
    (void)unlink(JoinPath(real_folder_, PackingJournal::kName).c_str());
  }
  MR_RETURN_IF_ERROR(SyncToDisk(FolderOf(real_folder_)));
  // The work folder contains the old shards now.
  if (!RemoveShardFolder(work_)) {
    MR_LOG(WARNING) << "cannot remove the whole old content of "
                    << target_.folder << ", which is now in " << work_
                    << ": another program wrote into the folder during "
                       "packing; check its files and remove the folder";
  }
  return absl::OkStatus();
}

DatasetWriter::~DatasetWriter() {
  if (finished_) return;
  const bool in_part = writer_ != nullptr;
  writer_.reset();
  if (keep_) {
    if (in_part) (void)unlink(WorkPath(shards_.size()).c_str());
    return;
  }
  if (!work_.empty()) (void)RemoveShardFolder(work_);
  // rmdir() removes the folder only if it is empty.
  if (made_folder_) (void)rmdir(target_.folder.c_str());
}

}  // namespace millrace::storage
