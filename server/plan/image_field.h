// Which fields of a dataset are images: encoded ones, and raw pixels.
//
// Pure functions.

#ifndef MILLRACE_SERVER_PLAN_IMAGE_FIELD_H_
#define MILLRACE_SERVER_PLAN_IMAGE_FIELD_H_

#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::plan {

// uint8 [height, width, channels].
inline bool IsRawImage(const Field& field) {
  return field.kind() == FIELD_KIND_TENSOR && field.dtype() == DTYPE_UINT8 &&
         field.shape_size() == 3;
}

inline bool IsImage(const Field& field) {
  return field.kind() == FIELD_KIND_ENCODED_IMAGE || IsRawImage(field);
}

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_IMAGE_FIELD_H_
