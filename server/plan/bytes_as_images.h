// What to say where a field holds bytes or strings that may be images: Parquet
// columns are images by their type and name (docs/formats.md), and no transform
// takes the others.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_PLAN_BYTES_AS_IMAGES_H_
#define MILLRACE_SERVER_PLAN_BYTES_AS_IMAGES_H_

#include <string>

#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace {

// Bytes, strings and lists of uint8: a dataset does not tell them apart.
bool HoldsBytes(const Field& field);

// How such a field is written to be served as images: "encoded images are taken
// from ...".
std::string BytesAsImages(const Field& field);

// Of the first such field of a dataset that lacks the field `image`: "; its
// field jpeg holds bytes or strings, and ...". Empty: it has none.
std::string BytesFieldHint(const DatasetInfo& info);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_BYTES_AS_IMAGES_H_
