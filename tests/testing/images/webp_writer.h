// Writes WebPs of every kind with libwebp, for tests.

#ifndef MILLRACE_TESTS_TESTING_IMAGES_WEBP_WRITER_H_
#define MILLRACE_TESTS_TESTING_IMAGES_WEBP_WRITER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

struct WebpKind {
  int width = 45;
  int height = 33;
  bool lossless = false;
  bool alpha = false;  // the pixels have four samples
  int quality = 80;
};

// `pixels`: interleaved RGB, or RGBA with `alpha`.
std::vector<uint8_t> WriteWebp(const WebpKind& kind,
                               const std::vector<uint8_t>& pixels);

// A chunk: its tag of four letters and its payload.
using WebpChunk = std::pair<std::string, std::vector<uint8_t>>;

std::vector<WebpChunk> ReadWebpChunks(const std::vector<uint8_t>& webp);

// A file of these chunks.
std::vector<uint8_t> JoinWebpChunks(const std::vector<WebpChunk>& chunks);

// The chunk with the size of the canvas that stands before all others.
WebpChunk WebpCanvas(int width, int height, bool animated);

// A frame of an animated file: the picture of `webp` at (left, top), both even.
WebpChunk WebpFrame(const std::vector<uint8_t>& webp, int left, int top,
                    int width, int height);

// A full decode with libwebp's simple interface: interleaved RGB.
std::vector<uint8_t> ReferenceWebp(const std::vector<uint8_t>& webp);

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTING_IMAGES_WEBP_WRITER_H_
