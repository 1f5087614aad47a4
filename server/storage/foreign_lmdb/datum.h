// Datum is Caffe's record of one image: a protobuf message, parsed on the wire
// (server/storage/wire_reader.h) without copies.
//
// Pure functions; a Datum views the caller's bytes.
//
//   Datum datum;
//   MR_RETURN_IF_ERROR(ParseDatum(value, &datum));
//   if (datum.encoded) Decode(datum.data);

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_DATUM_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_DATUM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace millrace::storage {

struct Datum {
  int32_t channels = 0;
  int32_t height = 0;
  int32_t width = 0;
  bool encoded = false;  // `data` is an image file
  int32_t label = 0;
  absl::Span<const uint8_t> data;
  uint64_t floats = 0;  // numbers of float_data

  friend bool SameShape(const Datum& a, const Datum& b) {
    return a.channels == b.channels && a.height == b.height &&
           a.width == b.width;
  }
};

// DataLoss: the bytes are no Datum: the wire format is damaged, or a field has
// a number or a type that Caffe's message does not have. The message is a
// sentence that begins with "byte N of the value".
absl::Status ParseDatum(absl::Span<const uint8_t> value, Datum* datum);

// Copies float_data to `out`, which has room for datum.floats numbers of
// `value`, from which ParseDatum() has made `datum`. Numbers may be packed,
// unpacked or both. False: the bytes have changed since.
bool CopyFloats(absl::Span<const uint8_t> value, const Datum& datum,
                uint8_t* out);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_DATUM_H_
