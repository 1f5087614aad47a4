// DatasetWriter packs samples into a dataset on disk: it divides them into
// shards, computes the content hash, and publishes the files under their names
// only when all files are complete and on the disk.
//
// An existing dataset (Options::overwrite) is replaced in one step: a file by
// rename, the shards of a folder by exchanging the folder with a folder beside
// it that contains the new shards. A reader at any moment, also after a crash,
// finds either the old dataset or the new one.
//
// The next pack of the same output removes the files that a killed pack has
// left (server/storage/temporary_files.h).
//
// It does not know where samples come from. Belongs to one thread at a time.
// Destruction before Finish() removes all written files.
//
//   MR_ASSIGN_OR_RETURN(auto writer,
//                       DatasetWriter::Create("lmdb:/data/train", description,
//                                             {.shards = 4}));
//   for (...) MR_RETURN_IF_ERROR(writer->Append(fields, "cat/1.jpg"));
//   MR_ASSIGN_OR_RETURN(DatasetInfo info, writer->Finish());

#ifndef MILLRACE_SERVER_STORAGE_DATASET_WRITER_H_
#define MILLRACE_SERVER_STORAGE_DATASET_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/content_hash.h"
#include "server/storage/sample_check.h"
#include "server/storage/shard_format.h"
#include "server/storage/temporary_files.h"

namespace millrace::storage {

class DatasetWriter {
 public:
  static constexpr int kMaxShards = 10000;

  struct Options {
    // Files. 1: PATH is the file (or, when PATH is a folder or ends in '/',
    // the folder of the one shard); more: PATH is the folder.
    int64_t shards = 1;
    // Replace an existing dataset. Create() refuses to replace anything else.
    // The disk needs room for both datasets until the new one is complete.
    bool overwrite = false;
  };

  // The checks of Create() for the output, for callers that need long before
  // they know the samples. Creates nothing.
  static absl::Status CheckOutput(absl::string_view uri,
                                  const Options& options);

  // `description` gives samples, schema and presets. InvalidArgument: no
  // samples, a shard count out of range (more than samples: a usage error), a
  // wrong schema. AlreadyExists:
  // something is there. Unimplemented: the format is not built in or cannot
  // hold a field, or the shards of a folder are to be replaced where that is
  // not possible in one step (a mount point, a file system without
  // RENAME_EXCHANGE). PermissionDenied and so on: the folder cannot be written.
  static absl::StatusOr<std::unique_ptr<DatasetWriter>> Create(
      absl::string_view uri, const DatasetInfo& description,
      const Options& options);

  ~DatasetWriter();
  DatasetWriter(const DatasetWriter&) = delete;
  DatasetWriter& operator=(const DatasetWriter&) = delete;

  // The sample of the next logical index. `origin`: the file that it came
  // from, for messages and (Parquet) the path beside an image. DataLoss: it
  // does not fit the schema. ResourceExhausted: no room. After an error only
  // destruction is left.
  absl::Status Append(absl::Span<const absl::Span<const uint8_t>> fields,
                      absl::string_view origin);

  // Publishes; exactly `samples` must have been appended.
  absl::StatusOr<DatasetInfo> Finish();

 private:
  // What PATH stands for.
  struct Target {
    std::string folder;      // that the shards lie in
    bool in_folder = false;  // PATH is a folder
    bool replaces = false;   // shards that are in it
  };
  static absl::StatusOr<Target> FindTarget(const std::string& path,
                                           const Options& options);
  static absl::StatusOr<bool> HoldsDataset(const std::string& folder,
                                           const Options& options);

  struct Shard {
    std::string final_path;
    std::string temporary_path;
    ShardMetadata metadata;
  };

  DatasetWriter(const ShardFormat& format, SampleCheck check)
      : format_(format), check_(std::move(check)) {}
  absl::Status PlanFiles(const std::string& path);
  absl::Status MakeStaging();
  absl::Status FinishShard();
  absl::Status Publish();
  absl::Status Exchange();

  const ShardFormat& format_;
  const SampleCheck check_;
  Options options_;
  DatasetInfo info_;
  Target target_;
  bool made_folder_ = false;  // that was not there before
  TemporaryFiles temporary_files_;
  // Of shards that replace those of a folder: the folder that holds them until
  // Publish(), and the folder itself without links. Empty: none.
  std::string staging_;
  std::string real_folder_;
  std::vector<Shard> shards_;
  size_t shard_ = 0;  // being written
  std::unique_ptr<ShardWriter> writer_;
  ContentSum shard_sum_;
  int64_t next_ = 0;  // logical index
  bool finished_ = false;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_DATASET_WRITER_H_
