// Unpacker turns a file that is compressed as a whole into its raw bytes. A
// storage format says which of its objects need one (extents/extent_format.h);
// UnpackedObjects keeps the result as a file and reads from that.
//
// It is no random access: the whole file is decompressed at once, in pieces, so
// that memory does not grow with the file.
//
// Immutable and thread-safe; PackedFile and RawSink belong to one thread.
//
//   MR_RETURN_IF_ERROR(unpacker.Unpack(file, sink));

#ifndef MILLRACE_SERVER_STORAGE_UNPACK_UNPACKER_H_
#define MILLRACE_SERVER_STORAGE_UNPACK_UNPACKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace millrace::storage {

// The compressed bytes.
class PackedFile {
 public:
  virtual ~PackedFile() = default;
  virtual uint64_t size() const = 0;
  // The range must be inside the file. Errors of ObjectReader::Read().
  virtual absl::Status Read(uint64_t offset, absl::Span<uint8_t> data) = 0;
};

// Takes the raw bytes in their order.
class RawSink {
 public:
  virtual ~RawSink() = default;
  // DataLoss: more bytes than the file may have. ResourceExhausted: the disk is
  // full. Either ends Unpack().
  virtual absl::Status Write(absl::Span<const uint8_t> bytes) = 0;
};

class Unpacker {
 public:
  virtual ~Unpacker() = default;

  // For people, and to tell copies of one file from each other: "zstd".
  virtual absl::string_view name() const = 0;

  // Size of the raw bytes as the file itself claims it, to compare with the
  // room on the disk; 0: it does not say. Errors as Unpack().
  virtual absl::StatusOr<uint64_t> ClaimedBytes(PackedFile& file) const {
    static_cast<void>(file);
    return 0;
  }

  // DataLoss: the file is damaged or cut off; a sentence that begins with
  // "byte N", N being a place in the compressed file. Unimplemented: this build
  // does not have the library. Errors of `file` and `sink`.
  virtual absl::Status Unpack(PackedFile& file, RawSink& sink) const = 0;
};

// How one object of a dataset is compressed.
struct PackedObject {
  const Unpacker* unpacker = nullptr;  // never destroyed; null: not compressed
  // The sizes that the raw bytes may have by a description of the dataset;
  // empty: any.
  std::vector<uint64_t> raw_sizes;
};

struct PackedObjects {
  std::vector<PackedObject> objects;  // one for each object; or none
  // Whether one is compressed.
  bool any() const {
    for (const PackedObject& object : objects) {
      if (object.unpacker != nullptr) return true;
    }
    return false;
  }
  // What a user can do instead of keeping copies: the end of a sentence, "write
  // the dataset without compression"; may be empty.
  std::string instead;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_UNPACK_UNPACKER_H_
