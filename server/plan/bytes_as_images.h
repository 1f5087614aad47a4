// Messages about fields that hold bytes or strings and may be images or labels.
// A Parquet column holds images according to its type and name
// (docs/formats.md). No transform accepts other columns of bytes or strings.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_PLAN_BYTES_AS_IMAGES_H_
#define MILLRACE_SERVER_PLAN_BYTES_AS_IMAGES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::plan {

// True for bytes, strings and lists of uint8: a dataset does not distinguish
// them.
bool HoldsBytes(const Field& field);

// True for the names that labels usually have: "label", "fine_label", "class".
bool IsLabelName(absl::string_view name);

// Why a field without a fixed shape is no tensor, and how to write its column:
// "holds strings, bytes or ...".
std::string WhyRagged(const Field& field);

// How to write a field of bytes so that it is served as images: "encoded images
// are taken from ...".
std::string BytesAsImages(const Field& field);

// For a dataset without the field `image`, about its first field of this kind
// that is not named as a label:
// "; its field jpeg holds bytes or strings, and ...". Empty: there is no such
// field.
std::string BytesFieldHint(const DatasetInfo& info);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_BYTES_AS_IMAGES_H_
