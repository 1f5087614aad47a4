// The presets of a dataset of images and classes, whatever its format.
//
// Pure functions.

#ifndef MILLRACE_SERVER_STORAGE_IMAGE_PRESETS_H_
#define MILLRACE_SERVER_STORAGE_IMAGE_PRESETS_H_

#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

// Sets the presets for training and evaluation if the schema has encoded images
// `image` and an int64 scalar `label`.
inline void SetImagePresets(DatasetInfo* info) {
  bool image = false;
  bool label = false;
  for (const Field& field : info->schema().fields()) {
    image |=
        field.name() == "image" && field.kind() == FIELD_KIND_ENCODED_IMAGE;
    label |= field.name() == "label" && field.kind() == FIELD_KIND_TENSOR &&
             field.dtype() == DTYPE_INT64 && field.shape().empty();
  }
  if (!image || !label) return;
  info->set_train_preset("imagenet_train");
  info->set_eval_preset("imagenet_eval");
}

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGE_PRESETS_H_
