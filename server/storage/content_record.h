// A content record is a small file in the cache folder: the content hashes of
// the files of a dataset that is served as it is, made by one reading of all of
// them. It is of no use as soon as one of the files is another one.
//
// Blocking. Thread-safe; processes may share a cache folder.
//
//   const ContentKey key = MakeContentKey("arrow", files, info);
//   if (auto sums = FindContentRecord(key, cache_dir)) ...
//   MR_ASSIGN_OR_RETURN(auto path, WriteContentRecord(key, sums, cache_dir));

#ifndef MILLRACE_SERVER_STORAGE_CONTENT_RECORD_H_
#define MILLRACE_SERVER_STORAGE_CONTENT_RECORD_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/content_hash.h"

namespace millrace::storage {

struct ContentKey {
  std::string name;  // of the record's file: follows from the paths
  Hash128 identity;  // of the files, and of samples and schema
  size_t shards = 0;
};

// Looks at each file: size, times, inode. Absent: one of them is missing.
std::optional<ContentKey> MakeContentKey(absl::string_view scheme,
                                         absl::Span<const std::string> files,
                                         const DatasetInfo& info);

// The sum of each shard's samples; absent: there is no record, or it is of
// other files or damaged.
std::optional<std::vector<Hash128>> FindContentRecord(
    const ContentKey& key, const std::string& cache_dir);

// Returns the path of the record. FailedPrecondition: there is no cache folder.
absl::StatusOr<std::string> WriteContentRecord(const ContentKey& key,
                                               absl::Span<const Hash128> sums,
                                               const std::string& cache_dir);

// Sets the fingerprint of the content, and the hash of each shard.
void SetContentSums(absl::Span<const Hash128> sums, DatasetInfo* info);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CONTENT_RECORD_H_
