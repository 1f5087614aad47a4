#include "server/storage/lmdb/metadata_record.h"

#include <xxhash.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/storage/page_load.h"
#include "server/storage/shard_set.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kMagic = "MILLRACE";
constexpr size_t kVersionAt = 8;
constexpr size_t kLengthAt = 12;
constexpr size_t kMessageAt = 16;
constexpr size_t kHashBytes = 8;

template <typename T>
void Append(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

std::string EncodeMetadataRecord(const ShardMetadata& metadata) {
  const std::string message = metadata.SerializeAsString();
  std::string record(kMagic);
  Append<uint32_t>(&record, metadata.format_version());
  Append<uint32_t>(&record, message.size());
  record += message;
  Append<uint64_t>(&record, XXH3_64bits(record.data(), record.size()));
  return record;
}

absl::StatusOr<ShardMetadata> DecodeMetadataRecord(
    absl::Span<const uint8_t> record) {
  if (record.size() < kMessageAt + kHashBytes ||
      std::memcmp(record.data(), kMagic.data(), kMagic.size()) != 0) {
    return absl::DataLossError("the metadata record is not Millrace's");
  }
  // The version is checked before the hash, because a later version may use
  // another hash.
  const uint32_t version = PageLoad<uint32_t>(record.data() + kVersionAt);
  if (version > kStorageFormatVersion) {
    return absl::UnimplementedError(absl::StrCat(
        "the file is of storage format version ", version,
        ", this program reads versions up to ", kStorageFormatVersion,
        "; use a newer Millrace or pack the dataset again"));
  }
  const uint64_t length = PageLoad<uint32_t>(record.data() + kLengthAt);
  const size_t hashed = record.size() - kHashBytes;
  ShardMetadata metadata;
  if (length != hashed - kMessageAt ||
      PageLoad<uint64_t>(record.data() + hashed) !=
          XXH3_64bits(record.data(), hashed) ||
      !metadata.ParseFromArray(record.data() + kMessageAt,
                               static_cast<int>(length))) {
    return absl::DataLossError("the metadata record is damaged");
  }
  return metadata;
}

}  // namespace millrace::storage
