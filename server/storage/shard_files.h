// ShardFiles finds the shard of a sample, and checks that the files of shards
// have not changed since they were opened. It opens and reads nothing.
//
// Thread-safe. Does not own the files.
//
//   const ShardFiles shards(info, [&](int shard) {
//     return files[shard]->CheckUnchanged();
//   });
//   Read(files[shards.ShardOf(17)]);
//   MR_RETURN_IF_ERROR(shards.CheckThoseOf({17}));  // it may be handed out

#ifndef MILLRACE_SERVER_STORAGE_SHARD_FILES_H_
#define MILLRACE_SERVER_STORAGE_SHARD_FILES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

class ShardFiles {
 public:
  // As FileWatch::CheckUnchanged() of a shard's file.
  using CheckFile = std::function<absl::Status(int shard)>;

  // `info` with all shards and samples.
  ShardFiles(const DatasetInfo& info, CheckFile check);

  // The shard that holds sample `index`, which exists.
  int ShardOf(int64_t index) const;
  int64_t first_sample(int shard) const { return first_samples_[shard]; }

  // Unavailable: the file has changed; its shard is in the detail.
  absl::Status Check(int shard) const;
  // As RecordSource::CheckFiles() and CheckFilesOf().
  absl::Status CheckAll() const;
  absl::Status CheckThoseOf(absl::Span<const int64_t> samples) const;

 private:
  int shards() const { return static_cast<int>(names_.size()); }

  const int64_t samples_;
  const CheckFile check_;
  std::vector<int64_t> first_samples_;
  std::vector<std::string> names_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SHARD_FILES_H_
