// ForeignIndex is where the samples of foreign LMDB environments lie: places in
// the files, class indices from keys, and what all of them have in common. It
// is made at each opening by a scan of all keys, and lives in memory.
//
// Immutable and thread-safe once it is built.
//
//   MR_ASSIGN_OR_RETURN(auto index, ForeignIndex::Build(environments, options,
//                                                       uri, source_options));
//   Read(index->place(17));

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_FOREIGN_INDEX_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_FOREIGN_INDEX_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/byte_budget.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/foreign_lmdb/environment.h"
#include "server/storage/foreign_lmdb/foreign_options.h"
#include "server/storage/foreign_lmdb/value_layout.h"
#include "server/storage/lmdb/lmdb_tree.h"
#include "server/storage/open_options.h"

namespace millrace::storage {

class ForeignIndex {
 public:
  using Environments = std::vector<std::unique_ptr<const Environment>>;

  // Reserves the memory in options.metadata_budget before it is used.
  // DataLoss: a file is damaged or has no records, or a record is unlike the
  // first one; names file and key. InvalidArgument: an option does not fit.
  // ResourceExhausted, a usage error: the index does not fit into the budget.
  // Unavailable: a file changed meanwhile.
  static absl::StatusOr<std::unique_ptr<const ForeignIndex>> Build(
      const Environments& environments, const ForeignOptions& options,
      const ExtentUri& uri, const OpenSourceOptions& source);

  // Samples, schema, shards, presets and the fingerprint of keys, lengths and
  // labels.
  const DatasetInfo& info() const { return info_; }
  const ValueLayout& layout() const { return *layout_; }

  // Of sample `i`, which exists.
  LmdbPlace place(int64_t i) const { return Place(places_ * i); }
  // The text of an image; of the layout with texts.
  LmdbPlace text(int64_t i) const { return Place(places_ * i + 1); }
  // Only with classes from keys.
  int64_t class_index(int64_t i) const { return classes_[i]; }
  // The field with the class index; -1: there is none.
  int class_field() const { return class_field_; }
  bool classes_from_keys() const { return !classes_.empty(); }

  // Memory of the index in bytes.
  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  class Builder;

  ForeignIndex() = default;
  LmdbPlace Place(int64_t i) const { return {offsets_[i], bytes_[i]}; }

  DatasetInfo info_;
  std::optional<ValueLayout> layout_;
  int class_field_ = -1;
  int64_t places_ = 1;  // of each sample: 2 with texts
  std::vector<uint64_t> offsets_;
  std::vector<uint32_t> bytes_;
  std::vector<int32_t> classes_;  // empty: not from keys
  uint64_t memory_bytes_ = 0;
  ByteBudget::Reservation room_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_FOREIGN_INDEX_H_
