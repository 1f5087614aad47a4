#include "tests/testing/images/png_writer.h"

#include <png.h>

#include <string>

namespace millrace {

std::vector<uint8_t> WritePng(const PngKind& kind,
                              const std::vector<uint8_t>& samples) {
  std::vector<uint8_t> out;
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep data, size_t n) {
        auto* to = static_cast<std::vector<uint8_t>*>(png_get_io_ptr(p));
        to->insert(to->end(), data, data + n);
      },
      nullptr);
  png_set_IHDR(png, info, kind.width, kind.height, kind.bit_depth,
               kind.color_type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> colors;
  for (size_t i = 0; i + 2 < kind.palette.size(); i += 3) {
    colors.push_back(
        {kind.palette[i], kind.palette[i + 1], kind.palette[i + 2]});
  }
  if (!colors.empty()) {
    png_set_PLTE(png, info, colors.data(), static_cast<int>(colors.size()));
    png_set_check_for_invalid_index(png, 0);
  }
  std::vector<uint8_t> exif = kind.exif;
  if (!exif.empty()) {
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(exif.size()),
                   exif.data());
  }
  std::string letters(kind.text_bytes, 'a');
  std::string key = "Comment";
  png_text text{};
  text.compression = PNG_TEXT_COMPRESSION_zTXt;
  text.key = key.data();
  text.text = letters.data();
  text.text_length = letters.size();
  for (int i = 0; i < kind.texts; ++i) png_set_text(png, info, &text, 1);
  png_write_info(png, info);
  const size_t stride = samples.size() / kind.height;
  std::vector<png_bytep> rows;
  for (int y = 0; y < kind.height; ++y) {
    rows.push_back(const_cast<png_bytep>(samples.data() + y * stride));
  }
  png_write_image(png, rows.data());
  if (!kind.last_chunk.empty()) {
    png_write_chunk(png,
                    reinterpret_cast<png_const_bytep>(kind.last_chunk.data()),
                    kind.last_data.data(), kind.last_data.size());
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

}  // namespace millrace
