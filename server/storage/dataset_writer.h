// DatasetWriter packs samples into a dataset on disk: it divides them into
// shards, computes the content hash, and publishes the files under their names
// only when all files are complete and on the disk.
//
// An existing dataset (Options::overwrite) is replaced in one step: a file by
// rename, the shards of a folder by exchanging the folder with a folder beside
// it that contains the new shards. A reader at any moment, also after a crash,
// finds either the old dataset or the new one.
//
// The files are written into a hidden folder (server/storage/
// temporary_files.h), one shard after another. The next pack of the same output
// removes what a killed pack has left there, or goes on with it
// (Options::resume): it keeps the shards that were finished, and the files
// become the same bytes as without the interruption.
//
// The bytes of the files depend on the samples, their origins, the description
// and the options alone.
//
// It does not know where samples come from. Belongs to one thread at a time.
// Destruction before Finish() removes all written files, or all but the
// finished shards (KeepFinishedShards()).
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
#include "server/storage/packing_journal.h"
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
    // Above 0: PATH is the folder of as many files as it takes (`shards` is 1).
    // A shard has samples of at most so many bytes (those of their fields), or
    // a single larger one.
    uint64_t shard_bytes = 0;
    // Replace an existing dataset. Create() refuses to replace anything else.
    // The disk needs room for both datasets until the new one is complete.
    bool overwrite = false;
    // Go on with what an interrupted packing of the same output has left, if
    // its options and description were the same; log what becomes of it.
    bool resume = false;
    // What else must be the same for that: flags that no byte follows from.
    std::string resume_flags;
  };

  // The checks of Create() for the output, for callers that need long before
  // they know the samples. Creates nothing.
  static absl::Status CheckOutput(absl::string_view uri,
                                  const Options& options);

  // Samples in the finished shards of an interrupted packing of this output,
  // which Create() with Options::resume goes on with if they fit. 0: none.
  // Changes nothing.
  static int64_t InterruptedSamples(absl::string_view uri,
                                    const Options& options);

  // `description` gives samples, schema, presets and what was prepared (part
  // of the set id). InvalidArgument: no
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

  // Samples in the finished shards of the interrupted packing that this one
  // goes on with: Confirm() is called for each of them, in order, before
  // Append() is called for the others. 0 without Options::resume.
  int64_t kept_samples() const { return kept_samples_; }

  // `input`: the hash of what Append() would get the sample's fields from.
  // FailedPrecondition: it differs from what the interrupted packing had. Only
  // destruction is left then; it removes all files, and packing starts anew.
  absl::Status Confirm(Hash128 input);

  // The sample of the next logical index. `origin`: the file that it came
  // from, for messages and (Parquet) the path beside an image. `input`: for
  // Confirm() in a later packing; without Options::resume it has no meaning.
  // DataLoss: it does not fit the schema. InvalidArgument (a usage error):
  // shard_bytes needs more than kMaxShards. ResourceExhausted: no room. After
  // an error only destruction is left.
  absl::Status Append(absl::Span<const absl::Span<const uint8_t>> fields,
                      absl::string_view origin, Hash128 input = {});

  // With Options::resume: destruction leaves the finished shards for the next
  // packing. Returns the samples in them.
  int64_t KeepFinishedShards();

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
  static absl::StatusOr<std::string> Beside(const std::string& path,
                                            const Target& target);
  static absl::StatusOr<bool> HoldsDataset(const std::string& folder,
                                           const Options& options);

  struct Shard {
    std::string work_path;
    ShardMetadata metadata;  // without set_id, shard_index and shard_count
    Hash128 input;           // sum
  };

  DatasetWriter(const ShardFormat& format, SampleCheck check)
      : format_(format), check_(std::move(check)) {}
  absl::Status MakeWorkFolder(const std::string& path);
  absl::Status CheckExchange() const;
  // Takes the finished shards of an interrupted packing from work_. False: they
  // do not fit; says why.
  bool TakeFinished(std::string* why);
  absl::Status StartWork();
  PackingJournal::Content JournalOf() const;
  ShardMetadata MetadataOf(int64_t first, int64_t samples) const;
  void RemovePlaced() const;
  absl::Status OpenShard();
  absl::Status FinishShard();
  absl::Status CheckShardLimit() const;
  // Index behind the last sample of the shard that begins now.
  int64_t EndOfShard() const;
  std::string WorkPath(size_t shard) const;
  // Where a shard lies when all are placed.
  std::string PlacedPath(size_t shard) const;
  std::string FinalPath(size_t shard) const;
  std::string SetId() const;
  absl::Status Publish();
  absl::Status PlaceShards();
  absl::Status Exchange();

  const ShardFormat& format_;
  const SampleCheck check_;
  Options options_;
  DatasetInfo info_;
  std::string path_;
  Target target_;
  bool made_folder_ = false;  // that was not there before
  TemporaryFiles temporary_files_;
  std::string work_;  // the hidden folder; empty: none yet
  // Of shards that replace those of a folder: the folder itself without links.
  // work_ is then exchanged with it.
  std::string real_folder_;
  std::unique_ptr<PackingJournal> journal_;  // null: without Options::resume
  std::vector<Shard> shards_;                // finished
  bool was_placing_ = false;  // the interrupted packing, its shards
  int64_t kept_samples_ = 0;
  size_t confirmed_shards_ = 0;
  // Of the shard that is being written or confirmed.
  std::unique_ptr<ShardWriter> writer_;
  int64_t shard_first_ = 0;
  uint64_t shard_bytes_ = 0;
  ContentSum shard_sum_;
  ContentSum input_sum_;
  int64_t next_ = 0;  // logical index
  bool keep_ = false;
  bool finished_ = false;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_DATASET_WRITER_H_
