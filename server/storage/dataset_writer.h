// DatasetWriter packs samples into a dataset on disk: it cuts them into shards,
// computes the content hash, and publishes the files under their names only
// when all of them are whole and on the disk.
//
// It does not know where samples come from. Belongs to one thread at a time.
// Destroying it before Finish() removes what it has written.
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

namespace millrace {

class DatasetWriter {
 public:
  static constexpr int kMaxShards = 10000;

  struct Options {
    // Files. 1: PATH is the file (or, when PATH is a folder or ends in '/',
    // the folder of the one shard); more: PATH is the folder.
    int64_t shards = 1;
    // Replace a dataset that is there. Anything else that is there is kept
    // and refused.
    bool overwrite = false;
  };

  // `description` gives samples, schema and presets. InvalidArgument: no
  // samples, a shard count out of range, a wrong schema. AlreadyExists:
  // something is there. Unimplemented: the format is not built in or cannot
  // hold a field. PermissionDenied and so on: the folder cannot be written.
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
  struct Shard {
    std::string final_path;
    std::string temporary_path;
    ShardMetadata metadata;
  };

  DatasetWriter(const ShardFormat& format, SampleCheck check)
      : format_(format), check_(std::move(check)) {}
  absl::Status PlanFiles(const std::string& path);
  absl::Status CheckTarget(const std::string& path);
  absl::Status CheckFolderIsDataset();
  absl::Status FinishShard();
  absl::Status Publish();

  const ShardFormat& format_;
  const SampleCheck check_;
  Options options_;
  DatasetInfo info_;
  std::string folder_;                 // that the shards lie in
  bool in_folder_ = false;             // PATH is a folder
  bool made_folder_ = false;           // that was not there before
  std::vector<std::string> replaced_;  // files that go when it is published
  std::vector<Shard> shards_;
  size_t shard_ = 0;  // being written
  std::unique_ptr<ShardWriter> writer_;
  ContentSum shard_sum_;
  int64_t next_ = 0;  // logical index
  bool finished_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_DATASET_WRITER_H_
