#include "server/storage/shard_files.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "proto/error_detail.h"

namespace millrace::storage {
namespace {

// Datasets with at most this number of files check all files for each batch,
// whichever files the batch was read from.
constexpr int kFewShards = 4;

}  // namespace

ShardFiles::ShardFiles(const DatasetInfo& info, CheckFile check)
    : samples_(info.samples()), check_(std::move(check)) {
  for (const ShardInfo& shard : info.shards()) {
    first_samples_.push_back(shard.first_sample());
    names_.push_back(shard.name());
  }
}

int ShardFiles::ShardOf(int64_t index) const {
  if (shards() == 1) return 0;
  const auto after =
      std::upper_bound(first_samples_.begin(), first_samples_.end(), index);
  return static_cast<int>(after - first_samples_.begin()) - 1;
}

absl::Status ShardFiles::Check(int shard) const {
  absl::Status status = check_(shard);
  if (status.ok()) return status;
  ErrorDetail detail = MakeErrorDetail("storage");
  detail.set_shard(names_[shard]);
  return WithErrorDetail(std::move(status), detail);
}

absl::Status ShardFiles::CheckAll() const {
  for (int i = 0; i < shards(); ++i) MR_RETURN_IF_ERROR(Check(i));
  return absl::OkStatus();
}

absl::Status ShardFiles::CheckThoseOf(absl::Span<const int64_t> samples) const {
  if (shards() <= kFewShards) return CheckAll();
  std::vector<bool> checked(names_.size());
  for (const int64_t index : samples) {
    if (index < 0 || index >= samples_) continue;
    const int shard = ShardOf(index);
    if (checked[shard]) continue;
    checked[shard] = true;
    MR_RETURN_IF_ERROR(Check(shard));
  }
  return absl::OkStatus();
}

}  // namespace millrace::storage
