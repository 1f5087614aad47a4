// What a storage format must be able to do: open a set of shard files as one
// RecordSource, and write one shard file. open.h and dataset_writer.h are the
// only users; each format is one folder beside this file and one line in
// format_registry.cc.
//
// ShardFormat is stateless and thread-safe. A ShardWriter belongs to one
// thread at a time.

#ifndef MILLRACE_SERVER_STORAGE_SHARD_FORMAT_H_
#define MILLRACE_SERVER_STORAGE_SHARD_FORMAT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {

class ShardWriter {
 public:
  // Closes the file.
  virtual ~ShardWriter() = default;

  // Adds the next sample; `origin` is the path of its file where it came from,
  // empty when there is none. The sample has passed a SampleCheck.
  // ResourceExhausted: no room on the disk.
  virtual absl::Status Append(
      absl::Span<const absl::Span<const uint8_t>> fields,
      absl::string_view origin) = 0;

  // Writes what is left and syncs the file. Nothing may follow. The file is no
  // shard until ShardFormat::Seal(), which takes this metadata with set_id,
  // shard_index and shard_count.
  virtual absl::Status Finish(const ShardMetadata& metadata) = 0;
};

class ShardFormat {
 public:
  virtual ~ShardFormat() = default;

  virtual absl::string_view scheme() const = 0;  // "lmdb"
  virtual absl::string_view suffix() const = 0;  // ".lmdb"

  // Whether its files have no hash of their content, and Open() uses the content
  // record of `millrace-data index` (content_record.h).
  virtual bool keeps_content() const { return false; }

  // The files of the dataset at `path`, as FindShards() finds them where the
  // format has no rules of its own.
  virtual absl::StatusOr<ShardPaths> Find(absl::string_view path) const {
    return FindShards(path, suffix());
  }

  virtual absl::StatusOr<std::unique_ptr<RecordSource>> Open(
      const ShardPaths& shards, const OpenSourceOptions& options) const = 0;

  // Makes the file `path`, which must not exist. Unimplemented: the format
  // cannot hold a field of `schema`; names it.
  virtual absl::StatusOr<std::unique_ptr<ShardWriter>> NewShardWriter(
      const std::string& path, const Schema& schema) const = 0;

  // Makes the file that ShardWriter::Finish() has left at `path` a shard, and
  // syncs it. A shard with this metadata stays as it is, so that Seal() can be
  // repeated after the process was killed in it. DataLoss: the file is neither.
  virtual absl::Status Seal(const std::string& path,
                            const ShardMetadata& metadata) const = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SHARD_FORMAT_H_
