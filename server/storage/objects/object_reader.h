// ObjectReader reads ranges of stored objects (files of a folder, later objects
// of a bucket) into the caller's memory. It is the only thing that knows where
// the bytes lie; nothing above it does.
//
// It is no cache and knows no format.
//
// Thread-safe. Blocking: callers that must not wait read on threads of their
// own.
//
//   MR_ASSIGN_OR_RETURN(ObjectIdentity id, objects.Stat("train-000.tar"));
//   MR_RETURN_IF_ERROR(objects.Read("train-000.tar", id, 512, buffer));

#ifndef MILLRACE_SERVER_STORAGE_OBJECTS_OBJECT_READER_H_
#define MILLRACE_SERVER_STORAGE_OBJECTS_OBJECT_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::storage {

struct PackedObjects;  // unpack/unpacker.h

// Which version of an object it is. Two versions of one object differ in it.
struct ObjectIdentity {
  uint64_t bytes = 0;
  // Of a local file, nanoseconds since 1970; 0: not a local file.
  int64_t modified_nanos = 0;
  int64_t changed_nanos = 0;
  uint64_t inode = 0;  // tells a file from another one of equal times
  // An object store's ETag; of a compressed file, codec and compressed size;
  // empty: a local file as it is.
  std::string tag;
  friend bool operator==(const ObjectIdentity&,
                         const ObjectIdentity&) = default;
};

class ObjectReader {
 public:
  virtual ~ObjectReader() = default;

  // Before the others, where some of the objects `names` are compressed as a
  // whole: makes their raw bytes readable. Unimplemented: this reader does not.
  virtual absl::Status Prepare(const std::vector<std::string>& names,
                               const PackedObjects& packed) {
    static_cast<void>(names);
    static_cast<void>(packed);
    return absl::UnimplementedError(
        "compressed files cannot be read at random here: decompress them");
  }

  // NotFound: there is no such object. PermissionDenied: it may not be read.
  // Unavailable: another attempt may succeed. Each names the object.
  virtual absl::StatusOr<ObjectIdentity> Stat(const std::string& name) = 0;

  // Fills `data` with the bytes of the object from `offset` on. DataLoss: the
  // object is no longer `expected`, or the range is not inside it. Otherwise as
  // Stat(). After an error the content of `data` is undefined.
  virtual absl::Status Read(const std::string& name,
                            const ObjectIdentity& expected, uint64_t offset,
                            absl::Span<uint8_t> data) = 0;

  // The same in two parts, for a scan, which makes many small reads and
  // compares once behind them: a read whose bytes may be those of another
  // version, and the comparison. Errors as Read().
  virtual absl::Status ReadUnchecked(const std::string& name,
                                     const ObjectIdentity& expected,
                                     uint64_t offset,
                                     absl::Span<uint8_t> data) = 0;
  virtual absl::Status CheckIdentity(const std::string& name,
                                     const ObjectIdentity& expected) = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_OBJECTS_OBJECT_READER_H_
