// A sample of an image tensor, as it stands on the wire, as a picture for
// people: normalisation, type and layout are undone.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_DATA_TOOL_TENSOR_PIXELS_H_
#define MILLRACE_SERVER_DATA_TOOL_TENSOR_PIXELS_H_

#include <cstdint>
#include <vector>

#include "common/picture/rgb_image.h"
#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace::data_tool {

struct PixelFormat {
  DType dtype = DTYPE_UINT8;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;  // of more than 3 the first three are shown
  bool planes = false;   // [channels, height, width]
  // level = (value * stddev[c] + mean[c]) * scale; empty lists: 0 and 1.
  std::vector<float> mean;
  std::vector<float> stddev;
  float scale = 1;
};

// Levels are rounded and cut to 0 .. 255; one or two channels are shown grey.
// `data` holds a whole sample.
picture::RgbImage ToRgb(const uint8_t* data, const PixelFormat& format);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_TENSOR_PIXELS_H_
