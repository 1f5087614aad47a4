// Draws pictures in tests with the plug-in that Bazel has built, and reads the
// PNG files that come out.

#ifndef MILLRACE_TESTS_COMMON_PICTURE_DRAWN_PICTURE_H_
#define MILLRACE_TESTS_COMMON_PICTURE_DRAWN_PICTURE_H_

#include <string>

#include "common/picture/picture.h"
#include "common/picture/picture_renderer.h"
#include "common/picture/rgb_image.h"

namespace millrace::testing {

std::string PicturePluginPath();

// Of the plug-in; the test fails where it does not load.
picture::PictureRenderer Renderer();

// The pixels of a PNG file; the test fails where it is none.
picture::RgbImage DecodePng(const std::string& png);

// The picture as PNG, decoded.
picture::RgbImage Drawn(const picture::Picture& picture);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_COMMON_PICTURE_DRAWN_PICTURE_H_
