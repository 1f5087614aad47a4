// ArrowDataset is the files of an arrow: dataset, opened: what they have in
// common (schema, rows, fingerprint) and how their columns lie in them. It
// reads no row.
//
// Immutable, thread-safe. Owns the files and the memory budget of their lists
// of record batches.
//
//   MR_ASSIGN_OR_RETURN(auto dataset, ArrowDataset::Open(shards, options));
//   dataset->info(); dataset->shard(0).file->BatchOf(17);

#ifndef MILLRACE_SERVER_STORAGE_ARROW_ARROW_DATASET_H_
#define MILLRACE_SERVER_STORAGE_ARROW_ARROW_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/byte_budget.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/arrow/column_layout.h"
#include "server/storage/arrow/ipc_file.h"
#include "server/storage/open_options.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {

class ArrowDataset {
 public:
  // Errors as OpenArrowSource(), but of the cache.
  static absl::StatusOr<std::unique_ptr<ArrowDataset>> Open(
      const ShardPaths& shards, const OpenSourceOptions& options);

  struct Shard {
    std::unique_ptr<const IpcFile> file;
    // In the order of the fields.
    std::shared_ptr<const std::vector<ColumnLayout>> columns;
  };

  const DatasetInfo& info() const { return info_; }
  int shards() const { return static_cast<int>(shards_.size()); }
  const Shard& shard(int i) const { return shards_[i]; }
  bool compressed() const { return compressed_; }
  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  ArrowDataset() = default;
  absl::Status OpenFiles(const ShardPaths& shards,
                         const OpenSourceOptions& options);
  absl::Status Describe(const std::string& dataset_info);
  absl::Status CheckImages() const;
  absl::Status SetFingerprint();

  DatasetInfo info_;
  std::vector<Shard> shards_;
  bool compressed_ = false;
  uint64_t memory_bytes_ = 0;
  std::vector<ByteBudget::Reservation> reserved_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_ARROW_ARROW_DATASET_H_
