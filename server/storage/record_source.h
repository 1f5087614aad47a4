// RecordSource is the interface of a dataset of any format: N samples of named
// fields, addressed by logical index 0 .. N-1. It does not decode images and
// does not know order, epochs or batches. A source that stands for another one
// is a ForwardingSource (forwarding_source.h).
//
// Thread contract: RecordSource is immutable once open and thread-safe. A
// RecordReader belongs to one thread at a time (each worker has its own) and
// must not outlive its source.
//
//   MR_ASSIGN_OR_RETURN(auto source, OpenRecordSource("lmdb:/data/train", {}));
//   MR_ASSIGN_OR_RETURN(auto reader, source->NewReader());
//   MR_RETURN_IF_ERROR(reader->Read(17, [](const EncodedSample& s) {
//     return Decode(s.fields[0]);
//   }));

#ifndef MILLRACE_SERVER_STORAGE_RECORD_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_RECORD_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

class SampleFiles;

// One sample as it lies in storage. `fields[i]` holds the bytes of
// schema.fields(i): an encoded image, the raw bytes of a tensor (row-major,
// little-endian; an int64 label is 8 bytes), or a ragged field's bytes.
// Valid only during the call that hands it out (an LMDB page, an Arrow buffer).
struct EncodedSample {
  absl::Span<const absl::Span<const uint8_t>> fields;
  int32_t shard = 0;  // index into DatasetInfo.shards
  int64_t row = 0;    // row within the shard
};

// The function that waits when a sample is not in memory yet. Read threads let
// such waits overlap (server/pipeline/reading/read_ahead.h).
enum class ReadWait {
  kNever,  // samples lie in memory
  kPages,  // for the first access to a mapped page; see Prefetch()
  kRead,   // Read() itself: for files, networks, a library
};

class RecordReader {
 public:
  virtual ~RecordReader() = default;

  // Calls `visit` once with sample `index` and returns what it returns.
  // OutOfRange: no such sample. DataLoss: the stored bytes are damaged; the
  // error names the shard and the row (proto/error_detail.h). Unavailable: as
  // RecordSource::CheckFiles().
  virtual absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) = 0;

  // Selects the fields of later samples: a flag for each field of the schema.
  // Other fields may be empty and unchecked. Default: all fields. Cheap if
  // nothing changes. Errors as RecordSource::CheckFields().
  virtual absl::Status UseFields(const std::vector<bool>& used) {
    static_cast<void>(used);
    return absl::OkStatus();
  }

  // kPages: waits until the pages of sample `index` are in memory, as far as
  // possible. Read() reports errors.
  virtual void Prefetch(int64_t index) { static_cast<void>(index); }

  // Releases the memory that it keeps for its next sample.
  virtual void Release() {}
};

class RecordSource {
 public:
  virtual ~RecordSource() = default;

  // Samples, schema, fingerprint, shards. `name` is empty here: the catalogue
  // fills it in.
  virtual const DatasetInfo& info() const = 0;

  virtual absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const = 0;

  // Checks that readers have the memory to read these fields together.
  // FailedPrecondition: they do not, but another server may; the message shows
  // the arithmetic.
  virtual absl::Status CheckFields(const std::vector<bool>& used) const {
    static_cast<void>(used);
    return absl::OkStatus();
  }

  // CheckFields() for a cache of `cache_bytes`: for advice on memory budgets.
  virtual absl::Status CheckFieldsWithin(const std::vector<bool>& used,
                                         uint64_t cache_bytes) const {
    static_cast<void>(cache_bytes);
    return CheckFields(used);
  }

  // Sentences about what makes random reads of these fields slow, each with
  // file, column and a way out. Empty where CheckFields() is not OK. Reads
  // files.
  virtual std::vector<std::string> WarningsOf(
      const std::vector<bool>& used) const {
    static_cast<void>(used);
    return {};
  }

  virtual ReadWait read_wait() const { return ReadWait::kNever; }

  // Bytes of the fields that are used of sample `index`, which exists, without
  // reading it: an upper bound. 0: not known. `used`: as for
  // RecordReader::UseFields(); empty: all fields.
  virtual uint64_t BytesOf(int64_t index, const std::vector<bool>& used) const {
    static_cast<void>(index);
    static_cast<void>(used);
    return 0;
  }

  // The files of the samples (sample_files.h), if each sample is a file of its
  // own; null: samples share files. Lives as long as the source.
  virtual const SampleFiles* sample_files() const { return nullptr; }

  // Which versions of which files it reads, on this machine. Sources of one
  // fingerprint may differ in it: each file is compared with this version when
  // it is read, so that such sources fail one by one. Empty: CheckFiles() finds
  // all changes. Not for people.
  virtual std::string FilesIdentity() const { return ""; }

  // Path of the file of the cache folder with the index of its samples; empty:
  // there is none.
  virtual std::string index_file() const { return ""; }

  // Checks that its files have not changed since they were opened. Unavailable:
  // a file has changed, or a part of it could not be read; the message names
  // file and cause. The error is final, and data that were read before must not
  // be used. Makes a system call for each file; OK if files are not kept open.
  virtual absl::Status CheckFiles() const { return absl::OkStatus(); }

  // CheckFiles() of the files that contain `samples`, and of other files if
  // that is cheaper. Indices without a sample are ignored.
  virtual absl::Status CheckFilesOf(absl::Span<const int64_t> samples) const {
    static_cast<void>(samples);
    return CheckFiles();
  }

  // Upper bound of readers that read ahead at the same time; 0: no bound. With
  // a bound, readers wait for each other's memory in Read(): a visit must not
  // wait for another thread that may read.
  virtual uint32_t max_concurrent_reads() const { return 0; }

  // Memory of the files' metadata as long as the source lives: an estimate, not
  // reserved by the source.
  virtual uint64_t metadata_bytes() const { return 0; }

  // Bytes of the memory budget that the source has reserved and that contain
  // nothing now.
  virtual uint64_t unused_bytes() const { return 0; }
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_RECORD_SOURCE_H_
