#include "server/storage/parquet/parquet_format.h"

#include "server/storage/parquet/parquet_paths.h"
#include "server/storage/parquet/parquet_source.h"
#include "server/storage/parquet/parquet_writer.h"

namespace millrace::storage {
namespace {

class Parquet final : public ShardFormat {
 public:
  absl::string_view scheme() const override { return "parquet"; }
  absl::string_view suffix() const override { return ".parquet"; }

  absl::StatusOr<ShardPaths> Find(absl::string_view path) const override {
    return FindParquetFiles(path);
  }

  absl::StatusOr<std::unique_ptr<RecordSource>> Open(
      const ShardPaths& shards,
      const OpenSourceOptions& options) const override {
    return OpenParquetSource(shards, options);
  }

  absl::StatusOr<std::unique_ptr<ShardWriter>> NewShardWriter(
      const std::string& path, const Schema& schema) const override {
    return NewParquetWriter(path, schema);
  }

  absl::Status Seal(const std::string& path,
                    const ShardMetadata& metadata) const override {
    return SealParquet(path, metadata);
  }
};

}  // namespace

const ShardFormat* ParquetFormat() {
  static const Parquet format;
  return &format;
}

}  // namespace millrace::storage
