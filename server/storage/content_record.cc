#include "server/storage/content_record.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/atomic_file.h"
#include "common/folder.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "server/storage/cache_folder.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kMagic = "millrace content 1";

// Of a record of 100,000 shards: 3.3 MB.
constexpr size_t kMaxRecordBytes = 64 << 20;

Hash128 HashText(absl::string_view text) {
  return HashBytes(
      {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

int64_t Nanos(const struct timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Lines: magic, identity, a sum for each shard, and the hash of these lines.
std::string Lines(const ContentKey& key, absl::Span<const Hash128> sums) {
  std::string text = absl::StrCat(kMagic, "\n", HashToHex(key.identity), "\n");
  for (const Hash128 sum : sums) absl::StrAppend(&text, HashToHex(sum), "\n");
  return text;
}

}  // namespace

std::optional<ContentKey> MakeContentKey(absl::string_view scheme,
                                         absl::Span<const std::string> files,
                                         const DatasetInfo& info) {
  std::string paths = absl::StrCat(scheme, "\n");
  // The schema has the class names of files beside the dataset's.
  std::string identity = DatasetFingerprint(info.samples(), info.schema(), {});
  for (const std::string& file : files) {
    struct stat found;
    std::error_code failed;
    const std::string path = std::filesystem::absolute(file, failed);
    if (failed || stat(path.c_str(), &found) != 0) return std::nullopt;
    absl::StrAppend(&paths, path.size(), " ", path, "\n");
    absl::StrAppend(&identity, " ", found.st_size, " ", found.st_ino, " ",
                    Nanos(found.st_mtim), " ", Nanos(found.st_ctim));
  }
  absl::StrAppend(&identity, "\n", paths);
  return ContentKey{.name = absl::StrCat(
                        scheme, "-", HashToHex(HashText(paths)), ".mrcontent"),
                    .identity = HashText(identity),
                    .shards = files.size()};
}

std::optional<std::vector<Hash128>> FindContentRecord(
    const ContentKey& key, const std::string& cache_dir) {
  const std::string folder = CacheFolder(cache_dir);
  if (folder.empty()) return std::nullopt;
  const auto text =
      ReadRegularFileStart(JoinPath(folder, key.name), kMaxRecordBytes);
  if (!text.ok()) return std::nullopt;
  std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n');
  // Magic, identity, sums, checksum, and the end behind the last line.
  if (lines.size() != key.shards + 4) return std::nullopt;
  std::vector<Hash128> sums(key.shards);
  for (size_t i = 0; i < key.shards; ++i) {
    if (!HashFromHex(std::string(lines[2 + i]), &sums[i])) return std::nullopt;
  }
  const std::string expected = Lines(key, sums);
  if (*text != absl::StrCat(expected, HashToHex(HashText(expected)), "\n")) {
    return std::nullopt;
  }
  return sums;
}

absl::StatusOr<std::string> WriteContentRecord(const ContentKey& key,
                                               absl::Span<const Hash128> sums,
                                               const std::string& cache_dir) {
  MR_ASSIGN_OR_RETURN(const std::string folder, MakeCacheFolder(cache_dir));
  const std::string path = JoinPath(folder, key.name);
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                      AtomicFile::Create(path, Lasts::kThroughCrash));
  const std::string lines = Lines(key, sums);
  MR_RETURN_IF_ERROR(
      file->Write(absl::StrCat(lines, HashToHex(HashText(lines)), "\n")));
  MR_RETURN_IF_ERROR(file->Commit());
  return path;
}

void SetContentSums(absl::Span<const Hash128> sums, DatasetInfo* info) {
  ContentSum all;
  for (size_t i = 0; i < sums.size(); ++i) {
    all.Add(sums[i]);
    info->mutable_shards(static_cast<int>(i))
        ->set_content_sum(HashToHex(sums[i]));
  }
  info->set_fingerprint(
      DatasetFingerprint(info->samples(), info->schema(), all.value()));
}

}  // namespace millrace::storage
