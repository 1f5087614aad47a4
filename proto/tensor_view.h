// How a program for training is shown the samples of a tensor
// (TensorSpec.view).
//
// Pure function, safe from any thread.

#ifndef MILLRACE_PROTO_TENSOR_VIEW_H_
#define MILLRACE_PROTO_TENSOR_VIEW_H_

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

// Whether samples of [H, W, C] are seen as [C, H, W] of the same memory.
inline bool IsSeenChannelsFirst(const TensorSpec& spec) {
  if (spec.sample_shape_size() != 3) return false;
  if (spec.view() == TensorSpec::VIEW_DEFAULT) {
    return spec.device_transform().mean_size() > 0;
  }
  return spec.view() == TensorSpec::VIEW_CHANNELS_FIRST;
}

}  // namespace millrace

#endif  // MILLRACE_PROTO_TENSOR_VIEW_H_
