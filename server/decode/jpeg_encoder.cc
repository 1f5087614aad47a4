#include "server/decode/jpeg_encoder.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>

// After stdio.h, which it needs.
#include <jpeglib.h>

#include "absl/strings/str_cat.h"
#include "server/decode/jpeg_error.h"
#include "server/decode/orientation_block.h"

namespace millrace::decode {
namespace {

// What an encoding holds. Nothing here has a destructor, because libjpeg leaves
// the function by longjmp().
struct Encoder {
  jpeg_compress_struct info;
  JpegErrors error;
  unsigned char* buffer;
  unsigned long size;  // NOLINT: libjpeg's type
};

// False: libjpeg has failed, see error.message.
bool EncodeOrJump(Encoder* e, const uint8_t* pixels,
                  const JpegEncoding& encoding) {
  if (setjmp(e->error.jump) != 0) return false;
  jpeg_compress_struct* info = &e->info;
  jpeg_create_compress(info);
  jpeg_mem_dest(info, &e->buffer, &e->size);
  info->image_width = static_cast<JDIMENSION>(encoding.width);
  info->image_height = static_cast<JDIMENSION>(encoding.height);
  info->input_components = encoding.channels;
  info->in_color_space = encoding.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(info);
  jpeg_set_quality(info, encoding.quality, TRUE);
  info->optimize_coding = TRUE;
  jpeg_start_compress(info, TRUE);
  if (encoding.orientation != 1) {
    const OrientationBlock block(encoding.orientation);
    jpeg_write_marker(info, JPEG_APP0 + 1, block.bytes, sizeof(block.bytes));
  }
  const int64_t stride = encoding.width * encoding.channels;
  while (info->next_scanline < info->image_height) {
    auto* row = const_cast<JSAMPROW>(pixels + info->next_scanline * stride);
    jpeg_write_scanlines(info, &row, 1);
  }
  jpeg_finish_compress(info);
  return true;
}

}  // namespace

absl::Status EncodeJpeg(absl::Span<const uint8_t> pixels,
                        const JpegEncoding& encoding, std::string* jpeg) {
  if (encoding.width < 1 || encoding.height < 1 ||
      encoding.width > JPEG_MAX_DIMENSION ||
      encoding.height > JPEG_MAX_DIMENSION) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an image of ", encoding.width, " x ", encoding.height,
        " pixels cannot be a JPEG, whose sides are 1 to ", JPEG_MAX_DIMENSION));
  }
  Encoder encoder = {};
  encoder.info.err = encoder.error.Install([](j_common_ptr, int) {});
  const bool done = EncodeOrJump(&encoder, pixels.data(), encoding);
  jpeg_destroy_compress(&encoder.info);
  if (done) {
    jpeg->assign(reinterpret_cast<const char*>(encoder.buffer), encoder.size);
  }
  std::free(encoder.buffer);
  return done ? absl::OkStatus()
              : absl::ResourceExhaustedError(absl::StrCat(
                    "cannot write a JPEG: ", encoder.error.message));
}

}  // namespace millrace::decode
