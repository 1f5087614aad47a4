// Messages about fields that hold bytes or strings and may be images. A Parquet
// column holds images according to its type and name (docs/formats.md). No
// transform accepts other columns of bytes or strings.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_PLAN_BYTES_AS_IMAGES_H_
#define MILLRACE_SERVER_PLAN_BYTES_AS_IMAGES_H_

#include <string>

#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::plan {

// True for bytes, strings and lists of uint8: a dataset does not distinguish
// them.
bool HoldsBytes(const Field& field);

// How to write such a field so that it is served as images: "encoded images are
// taken from ...".
std::string BytesAsImages(const Field& field);

// For a dataset without the field `image`, about its first field of this kind:
// "; its field jpeg holds bytes or strings, and ...". Empty: there is no such
// field.
std::string BytesFieldHint(const DatasetInfo& info);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_BYTES_AS_IMAGES_H_
