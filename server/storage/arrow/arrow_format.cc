#include "server/storage/arrow/arrow_format.h"

#include "server/storage/arrow/arrow_paths.h"
#include "server/storage/arrow/arrow_source.h"

namespace millrace::storage {
namespace {

class ArrowFiles final : public ShardFormat {
 public:
  absl::string_view scheme() const override { return "arrow"; }
  absl::string_view suffix() const override { return ".arrow"; }

  bool keeps_content() const override { return true; }

  absl::StatusOr<ShardPaths> Find(absl::string_view path) const override {
    return FindArrowFiles(path);
  }

  absl::StatusOr<std::unique_ptr<RecordSource>> Open(
      const ShardPaths& shards,
      const OpenSourceOptions& options) const override {
    return OpenArrowSource(shards, options);
  }

  absl::StatusOr<std::unique_ptr<ShardWriter>> NewShardWriter(
      const std::string&, const Schema&) const override {
    return absl::UnimplementedError(
        "datasets are not packed into Arrow files; write lmdb:PATH or "
        "parquet:PATH");
  }

  absl::Status Seal(const std::string& path,
                    const ShardMetadata&) const override {
    return absl::DataLossError(path + " is no packed shard");
  }
};

}  // namespace

const ShardFormat* ArrowFormat() {
  static const ArrowFiles format;
  return &format;
}

}  // namespace millrace::storage
