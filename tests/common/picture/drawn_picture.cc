#include "tests/common/picture/drawn_picture.h"

#include <gtest/gtest.h>
#include <png.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/testing/subprocess.h"

// Cairo keeps a pattern of each font that it has used. Fontconfig's patterns
// hold encoded pointers, which LeakSanitizer does not follow.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libfontconfig";
}

namespace millrace::testing {

std::string PicturePluginPath() {
  return ProgramPath("common/picture/libmillrace_picture.so");
}

picture::PictureRenderer Renderer() {
  const auto renderer = picture::PictureRenderer::Load({PicturePluginPath()});
  EXPECT_TRUE(renderer.ok()) << renderer.status();
  return renderer.value();
}

picture::RgbImage DecodePng(const std::string& png) {
  png_image header;
  std::memset(&header, 0, sizeof(header));
  header.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&header, png.data(), png.size()))
      << header.message;
  EXPECT_EQ(header.format, static_cast<png_uint_32>(PNG_FORMAT_RGB));
  header.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> bytes(PNG_IMAGE_SIZE(header));
  EXPECT_TRUE(png_image_finish_read(&header, nullptr, bytes.data(), 0, nullptr))
      << header.message;
  picture::RgbImage image(static_cast<int>(header.width),
                          static_cast<int>(header.height));
  const uint8_t* p = bytes.data();
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x, p += 3) {
      image.Set(x, y, {p[0], p[1], p[2]});
    }
  }
  return image;
}

picture::RgbImage Drawn(const picture::Picture& picture) {
  const auto png = Renderer().Render(picture, picture::PictureFormat::kPng);
  EXPECT_TRUE(png.ok()) << png.status();
  return DecodePng(png.value());
}

}  // namespace millrace::testing
