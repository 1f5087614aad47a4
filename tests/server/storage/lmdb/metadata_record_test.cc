#include "server/storage/lmdb/metadata_record.h"

#include <gtest/gtest.h>

#include "server/storage/shard_set.h"

namespace millrace::storage {
namespace {

absl::StatusOr<ShardMetadata> Decode(const std::string& record) {
  return DecodeMetadataRecord(
      {reinterpret_cast<const uint8_t*>(record.data()), record.size()});
}

ShardMetadata Example() {
  ShardMetadata metadata;
  metadata.set_format_version(kStorageFormatVersion);
  metadata.set_shard_count(4);
  metadata.set_total_samples(1234);
  metadata.mutable_schema()->add_fields()->set_name("image");
  return metadata;
}

TEST(MetadataRecordTest, ComesBack) {
  const auto metadata = Decode(EncodeMetadataRecord(Example()));
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->SerializeAsString(), Example().SerializeAsString());
}

TEST(MetadataRecordTest, AnyFlippedBitIsSeen) {
  const std::string record = EncodeMetadataRecord(Example());
  for (size_t at = 0; at < record.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = record;
      damaged[at] ^= 1 << bit;
      EXPECT_FALSE(Decode(damaged).ok()) << at;
    }
  }
}

TEST(MetadataRecordTest, AnyPrefixIsRefused) {
  const std::string record = EncodeMetadataRecord(Example());
  for (size_t size = 0; size < record.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(Decode(record.substr(0, size)).status()));
  }
}

TEST(MetadataRecordTest, ANewerVersionIsUnimplemented) {
  ShardMetadata newer = Example();
  newer.set_format_version(kStorageFormatVersion + 1);
  EXPECT_TRUE(
      absl::IsUnimplemented(Decode(EncodeMetadataRecord(newer)).status()));
}

}  // namespace
}  // namespace millrace::storage
