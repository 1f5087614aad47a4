#include "server/data_tool/png_encoder.h"

#include <png.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace millrace::data_tool {

absl::Status EncodePng(absl::Span<const uint8_t> pixels, int64_t height,
                       int64_t width, int64_t channels, std::string* png) {
  png_image image;
  std::memset(&image, 0, sizeof(image));
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  // The upper bound of the size, because a request for the exact size would
  // encode twice.
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  png->resize(bytes);
  const int done =
      png_image_write_to_memory(&image, png->data(), &bytes,
                                /*convert_to_8bit=*/0, pixels.data(),
                                /*row_stride=*/0, /*colormap=*/nullptr);
  const std::string message = image.message;
  png_image_free(&image);
  if (!done) {
    return absl::InternalError(absl::StrCat("cannot write a PNG: ", message));
  }
  png->resize(bytes);
  return absl::OkStatus();
}

}  // namespace millrace::data_tool
