// ObjectWindow shows an object's bytes to the code that indexes it, without
// holding the whole object: a scan goes forward, looks at headers, and skips or
// takes what lies between them. Bytes that follow each other are read once.
//
// One thread at a time.
//
//   MR_ASSIGN_OR_RETURN(auto header, window.At(offset, 512));
//   ... uses header until the next call of At()

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_OBJECT_WINDOW_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_OBJECT_WINDOW_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::storage {

class ObjectWindow {
 public:
  virtual ~ObjectWindow() = default;

  virtual uint64_t size() const = 0;  // of the object, in bytes

  // `bytes` bytes from `offset` on; valid until the next call. DataLoss: the
  // object ends before them (the message has offset and size); never asks for
  // memory beyond the object's size. ResourceExhausted: more bytes than one
  // record may have. Errors of ObjectReader::Read().
  virtual absl::StatusOr<absl::Span<const uint8_t>> At(uint64_t offset,
                                                       uint64_t bytes) = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_OBJECT_WINDOW_H_
