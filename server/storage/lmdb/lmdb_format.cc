#include "server/storage/lmdb/lmdb_format.h"

#include "server/storage/lmdb/lmdb_source.h"
#include "server/storage/lmdb/lmdb_writer.h"

namespace millrace::storage {
namespace {

class Lmdb final : public ShardFormat {
 public:
  absl::string_view scheme() const override { return "lmdb"; }
  absl::string_view suffix() const override { return ".lmdb"; }

  absl::StatusOr<std::unique_ptr<RecordSource>> Open(
      const ShardPaths& shards,
      const OpenSourceOptions& options) const override {
    return OpenLmdbSource(shards.files);
  }

  absl::StatusOr<std::unique_ptr<ShardWriter>> NewShardWriter(
      const std::string& path, const Schema& schema) const override {
    return NewLmdbWriter(path, schema);
  }

  absl::Status Seal(const std::string& path,
                    const ShardMetadata& metadata) const override {
    return SealLmdb(path, metadata);
  }
};

}  // namespace

const ShardFormat& LmdbFormat() {
  static const Lmdb format;
  return format;
}

}  // namespace millrace::storage
