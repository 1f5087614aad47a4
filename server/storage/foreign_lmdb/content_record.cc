#include "server/storage/foreign_lmdb/content_record.h"

#include <xxhash.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/atomic_file.h"
#include "common/logging.h"
#include "common/read_file.h"
#include "common/status_macros.h"
#include "server/storage/cache_folder.h"
#include "server/storage/little_endian.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kMagic = "MRLMDBCS";
constexpr uint32_t kVersion = 1;
// Some ten bytes for each of 100,000 environments.
constexpr uint64_t kMaxBytes = 16 << 20;

std::string FileOf(const ExtentUri& uri, const std::string& folder) {
  const std::string text =
      absl::StrCat(uri.ToString(), "\n", uri.record_options);
  const Hash128 key =
      HashBytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return absl::StrCat(folder, "/", uri.scheme, "-", HashToHex(key),
                      ".mrcontent");
}

absl::Status Damaged() {
  return absl::DataLossError("it is damaged, or of another version");
}

}  // namespace

std::string EncodeContentRecord(const ContentRecord& record) {
  std::string content;
  AppendText(record.keys, &content);
  AppendU32(static_cast<uint32_t>(record.files.size()), &content);
  for (size_t i = 0; i < record.files.size(); ++i) {
    AppendU64(record.files[i].bytes, &content);
    AppendLittleEndian(record.files[i].modified_nanos, &content);
    AppendLittleEndian(record.files[i].changed_nanos, &content);
    AppendU64(record.files[i].inode, &content);
    AppendU64(record.sums[i].low, &content);
    AppendU64(record.sums[i].high, &content);
  }
  std::string bytes(kMagic);
  AppendU32(kVersion, &bytes);
  AppendU64(XXH3_64bits(content.data(), content.size()), &bytes);
  return bytes + content;
}

absl::StatusOr<ContentRecord> DecodeContentRecord(absl::string_view bytes) {
  if (!absl::ConsumePrefix(&bytes, kMagic)) return Damaged();
  LittleEndianReader head(bytes);
  const uint32_t version = head.U32();
  const uint64_t sum = head.U64();
  if (!head.ok() || version != kVersion) return Damaged();
  bytes.remove_prefix(sizeof(version) + sizeof(sum));
  if (XXH3_64bits(bytes.data(), bytes.size()) != sum) return Damaged();
  LittleEndianReader reader(bytes);
  ContentRecord record;
  record.keys = std::string(reader.Text());
  const uint32_t files = reader.U32();
  for (uint32_t i = 0; i < files && reader.ok(); ++i) {
    ObjectIdentity& file = record.files.emplace_back();
    file.bytes = reader.U64();
    file.modified_nanos = static_cast<int64_t>(reader.U64());
    file.changed_nanos = static_cast<int64_t>(reader.U64());
    file.inode = reader.U64();
    Hash128& hash = record.sums.emplace_back();
    hash.low = reader.U64();
    hash.high = reader.U64();
  }
  if (!reader.AtEnd()) return Damaged();
  return record;
}

bool FindContentSums(const ExtentUri& uri, const std::string& cache_dir,
                     ContentRecord* record) {
  const std::string folder = CacheFolder(cache_dir);
  if (folder.empty()) return false;
  const std::string file = FileOf(uri, folder);
  const auto bytes = ReadFile(file, kMaxBytes);
  if (absl::IsNotFound(bytes.status())) return false;
  const auto unused = [&](absl::string_view why) {
    MR_LOG(WARNING) << "the content hash " << file << " of " << uri.ToString()
                    << " is not used: " << why
                    << "; `millrace-data index` computes it again";
    return false;
  };
  if (!bytes.ok()) return unused(bytes.status().message());
  absl::StatusOr<ContentRecord> found = DecodeContentRecord(*bytes);
  if (!found.ok()) return unused(found.status().message());
  if (found->keys != record->keys || found->files != record->files) {
    return unused("the files or the options' files have changed since");
  }
  record->sums = std::move(found->sums);
  return true;
}

absl::StatusOr<std::string> SaveContentRecord(const ExtentUri& uri,
                                              const ContentRecord& record,
                                              const std::string& cache_dir) {
  MR_ASSIGN_OR_RETURN(const std::string folder, MakeCacheFolder(cache_dir));
  const std::string file = FileOf(uri, folder);
  RemoveLeftovers(file);
  MR_RETURN_IF_ERROR(WriteFileAtomically(file, EncodeContentRecord(record),
                                         Lasts::kThroughCrash));
  return file;
}

}  // namespace millrace::storage
