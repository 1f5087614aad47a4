// RecordSource is a dataset as the rest of the server sees it: N samples of
// named fields, addressed by logical index 0 .. N-1, whatever the format.
// It does not decode images and knows nothing of order, epochs or batches.
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
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace {

// One sample as it lies in storage. `fields[i]` holds the bytes of
// schema.fields(i): an encoded image, the raw bytes of a tensor (row-major,
// little-endian; an int64 label is 8 bytes), or a ragged field's bytes.
// Valid only during the call that hands it out (an LMDB page, an Arrow buffer).
struct EncodedSample {
  absl::Span<const absl::Span<const uint8_t>> fields;
  int32_t shard = 0;  // index into DatasetInfo.shards
  int64_t row = 0;    // row within the shard
};

// Who waits when a sample does not lie in memory yet. Waits overlap on threads
// of their own when there is something to overlap
// (server/pipeline/reading/read_ahead.h).
enum class ReadWait {
  kNever,  // samples lie in memory
  kPages,  // who touches a mapped file's pages first; see Prefetch()
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

  // Which fields of the samples to come are wanted, a flag for each of the
  // schema; the others may come empty and unchecked. Without it all are. Cheap
  // where nothing changes. As RecordSource::CheckFields().
  virtual absl::Status UseFields(const std::vector<bool>& used) {
    static_cast<void>(used);
    return absl::OkStatus();
  }

  // kPages: waits until the pages of sample `index` lie in memory, as far as it
  // can. Whatever goes wrong is for Read() to say.
  virtual void Prefetch(int64_t index) { static_cast<void>(index); }

  // Lets go of what it keeps for its next sample and what others could use.
  virtual void Release() {}
};

class RecordSource {
 public:
  virtual ~RecordSource() = default;

  // Samples, schema, fingerprint, shards. `name` is empty here: the catalogue
  // fills it in.
  virtual const DatasetInfo& info() const = 0;

  virtual absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const = 0;

  // Whether readers have the memory to read these fields together.
  // FailedPrecondition: they have not, but those of another server may; gives
  // the arithmetic.
  virtual absl::Status CheckFields(const std::vector<bool>& used) const {
    static_cast<void>(used);
    return absl::OkStatus();
  }

  // CheckFields() as it would be with a cache of `cache_bytes` for this source:
  // for advice on memory budgets.
  virtual absl::Status CheckFieldsWithin(const std::vector<bool>& used,
                                         uint64_t cache_bytes) const {
    static_cast<void>(cache_bytes);
    return CheckFields(used);
  }

  virtual ReadWait read_wait() const { return ReadWait::kNever; }

  // Whether its files are those that were opened. Unavailable: one of them has
  // changed, or a part of it could not be read; names file and cause. That is
  // final, and what was read before may not be handed out. Looks at every file
  // (a system call each); OK where files are not kept open.
  virtual absl::Status CheckFiles() const { return absl::OkStatus(); }

  // CheckFiles() of those that hold `samples`, and of others where that is
  // cheaper. What is no sample is left out.
  virtual absl::Status CheckFilesOf(absl::Span<const int64_t> samples) const {
    static_cast<void>(samples);
    return CheckFiles();
  }

  // Readers that may read ahead at the same time; 0: any number. Readers of a
  // source with a number wait for each other's memory in Read(): a visit must
  // not wait for another thread that may read.
  virtual uint32_t max_concurrent_reads() const { return 0; }

  // Memory that what is known of the files takes as long as the source lives:
  // an estimate, not reserved by the source.
  virtual uint64_t metadata_bytes() const { return 0; }

  // Of the memory budget that the source has reserved, the bytes that hold
  // nothing now.
  virtual uint64_t unused_bytes() const { return 0; }
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_RECORD_SOURCE_H_
