#include "tests/testing/images/webp_writer.h"

#include <webp/decode.h>
#include <webp/encode.h>

#include <cstdlib>

namespace millrace {
namespace {

void Append(std::vector<uint8_t>& to, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(value >> (8 * i) & 255);
}

void Append(std::vector<uint8_t>& to, const WebpChunk& chunk) {
  to.insert(to.end(), chunk.first.begin(), chunk.first.end());
  Append(to, static_cast<uint32_t>(chunk.second.size()), 4);
  to.insert(to.end(), chunk.second.begin(), chunk.second.end());
  if (chunk.second.size() % 2 != 0) to.push_back(0);
}

}  // namespace

std::vector<uint8_t> WriteWebp(const WebpKind& kind,
                               const std::vector<uint8_t>& pixels) {
  WebPConfig config;
  WebPPicture picture;
  WebPMemoryWriter writer;
  if (!WebPConfigInit(&config) || !WebPPictureInit(&picture)) std::abort();
  WebPMemoryWriterInit(&writer);
  config.lossless = kind.lossless;
  config.quality = static_cast<float>(kind.quality);
  config.exact = 1;
  picture.use_argb = kind.lossless;
  picture.width = kind.width;
  picture.height = kind.height;
  picture.writer = WebPMemoryWrite;
  picture.custom_ptr = &writer;
  const int imported =
      kind.alpha
          ? WebPPictureImportRGBA(&picture, pixels.data(), 4 * kind.width)
          : WebPPictureImportRGB(&picture, pixels.data(), 3 * kind.width);
  if (!imported || !WebPEncode(&config, &picture)) std::abort();
  std::vector<uint8_t> out(writer.mem, writer.mem + writer.size);
  WebPPictureFree(&picture);
  WebPMemoryWriterClear(&writer);
  return out;
}

std::vector<WebpChunk> ReadWebpChunks(const std::vector<uint8_t>& webp) {
  std::vector<WebpChunk> chunks;
  size_t at = 12;
  while (at + 8 <= webp.size()) {
    const std::string tag(webp.begin() + at, webp.begin() + at + 4);
    const size_t size = webp[at + 4] | webp[at + 5] << 8 | webp[at + 6] << 16 |
                        static_cast<size_t>(webp[at + 7]) << 24;
    at += 8;
    if (at + size > webp.size()) std::abort();
    chunks.push_back({tag, {webp.begin() + at, webp.begin() + at + size}});
    at += size + size % 2;
  }
  return chunks;
}

std::vector<uint8_t> JoinWebpChunks(const std::vector<WebpChunk>& chunks) {
  std::vector<uint8_t> body = {'W', 'E', 'B', 'P'};
  for (const WebpChunk& chunk : chunks) Append(body, chunk);
  std::vector<uint8_t> file = {'R', 'I', 'F', 'F'};
  Append(file, static_cast<uint32_t>(body.size()), 4);
  file.insert(file.end(), body.begin(), body.end());
  return file;
}

WebpChunk WebpCanvas(int width, int height, bool animated) {
  constexpr uint32_t kAnimation = 2;
  std::vector<uint8_t> data;
  Append(data, animated ? kAnimation : 0, 4);
  Append(data, width - 1, 3);
  Append(data, height - 1, 3);
  return {"VP8X", data};
}

WebpChunk WebpFrame(const std::vector<uint8_t>& webp, int left, int top,
                    int width, int height) {
  std::vector<uint8_t> data;
  Append(data, left / 2, 3);
  Append(data, top / 2, 3);
  Append(data, width - 1, 3);
  Append(data, height - 1, 3);
  Append(data, 100, 3);  // milliseconds
  Append(data, 0, 1);
  for (const WebpChunk& chunk : ReadWebpChunks(webp)) {
    if (chunk.first != "VP8X") Append(data, chunk);
  }
  return {"ANMF", data};
}

std::vector<uint8_t> ReferenceWebp(const std::vector<uint8_t>& webp) {
  int width = 0;
  int height = 0;
  uint8_t* pixels = WebPDecodeRGB(webp.data(), webp.size(), &width, &height);
  if (pixels == nullptr) return {};
  std::vector<uint8_t> out(pixels, pixels + size_t{3} * width * height);
  WebPFree(pixels);
  return out;
}

}  // namespace millrace
