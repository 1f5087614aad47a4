#include "tests/testing/images/jpeg_writer.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

// After stdio.h, which it needs.
#include <jpeglib.h>

namespace millrace {

std::vector<NamedJpegKind> SampledJpegKinds(
    const std::vector<std::array<int, 2>>& sizes, int restart_rows) {
  std::vector<NamedJpegKind> kinds;
  for (const auto& [h, v] : std::vector<std::array<int, 2>>{
           {1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}}) {
    for (const auto& [width, height] : sizes) {
      JpegKind k;
      k.h_sampling = h;
      k.v_sampling = v;
      k.width = width;
      k.height = height;
      const std::string name = std::to_string(h) + "x" + std::to_string(v) +
                               " " + std::to_string(width) + "x" +
                               std::to_string(height);
      kinds.push_back({name, k});
      k.progressive = true;
      kinds.push_back({name + " progressive", k});
      k.progressive = false;
      k.separate_scans = true;
      kinds.push_back({name + " separate scans", k});
      k.separate_scans = false;
      k.restart_rows = restart_rows;
      kinds.push_back({name + " restarts", k});
      k.restart_rows = 0;
      k.rgb = true;
      kinds.push_back({name + " RGB", k});
      k.rgb = false;
      k.components = 1;
      kinds.push_back({name + " grey", k});
    }
  }
  return kinds;
}

std::vector<uint8_t> TestPixels(int width, int height, int components,
                                uint64_t seed) {
  std::vector<uint8_t> pixels(static_cast<size_t>(width) * height * components);
  uint64_t state = seed * 2 + 1;
  size_t i = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < components; ++c) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        const double shade = 128 + 60 * std::sin(x * (0.05 + 0.03 * c) + seed) +
                             40 * std::cos(y * 0.07 + c) +
                             ((x / 9 + y / 7) % 2) * 30;
        const int noise = static_cast<int>(state >> 60) - 8;
        const int value = static_cast<int>(shade) + noise;
        pixels[i++] = static_cast<uint8_t>(value < 0     ? 0
                                           : value > 255 ? 255
                                                         : value);
      }
    }
  }
  return pixels;
}

std::vector<uint8_t> WriteJpeg(const JpegKind& kind, uint64_t seed) {
  const std::vector<uint8_t> pixels =
      TestPixels(kind.width, kind.height, kind.components, seed);
  jpeg_compress_struct info;
  jpeg_error_mgr error;
  info.err = jpeg_std_error(&error);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = kind.width;
  info.image_height = kind.height;
  info.input_components = kind.components;
  info.in_color_space = kind.components == 1   ? JCS_GRAYSCALE
                        : kind.components == 3 ? JCS_RGB
                                               : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (kind.rgb) jpeg_set_colorspace(&info, JCS_RGB);
  if (kind.ycck) jpeg_set_colorspace(&info, JCS_YCCK);
  jpeg_set_quality(&info, kind.quality, kind.wide_tables ? FALSE : TRUE);
  if (!kind.adobe_marker) info.write_Adobe_marker = FALSE;
  for (int c = 0; c < info.num_components; ++c) {
    info.comp_info[c].h_samp_factor = 1;
    info.comp_info[c].v_samp_factor = 1;
  }
  info.comp_info[0].h_samp_factor = kind.h_sampling;
  info.comp_info[0].v_samp_factor = kind.v_sampling;
  if (kind.components == 4) {  // K as the first
    info.comp_info[3].h_samp_factor = kind.h_sampling;
    info.comp_info[3].v_samp_factor = kind.v_sampling;
  }
  for (size_t c = 0; c < kind.sampling.size(); ++c) {
    info.comp_info[c].h_samp_factor = kind.sampling[c][0];
    info.comp_info[c].v_samp_factor = kind.sampling[c][1];
  }
  info.restart_in_rows = kind.restart_rows;
  info.optimize_coding = kind.optimized;
  info.arith_code = kind.arithmetic;
  if (kind.progressive) jpeg_simple_progression(&info);
  jpeg_scan_info scans[4] = {};
  if (kind.separate_scans) {
    for (int c = 0; c < info.num_components; ++c) {
      scans[c].comps_in_scan = 1;
      scans[c].component_index[0] = c;
      scans[c].Se = 63;
    }
    info.scan_info = scans;
    info.num_scans = info.num_components;
  }
  jpeg_start_compress(&info, TRUE);
  if (!kind.exif.empty()) {
    std::vector<uint8_t> block = {'E', 'x', 'i', 'f', 0, 0};
    block.insert(block.end(), kind.exif.begin(), kind.exif.end());
    jpeg_write_marker(&info, JPEG_APP0 + 1, block.data(),
                      static_cast<unsigned>(block.size()));
  }
  if (!kind.xmp.empty()) {
    const std::string block =
        std::string("http://ns.adobe.com/xap/1.0/") + '\0' + kind.xmp;
    jpeg_write_marker(&info, JPEG_APP0 + 1,
                      reinterpret_cast<const JOCTET*>(block.data()),
                      static_cast<unsigned>(block.size()));
  }
  const size_t stride = static_cast<size_t>(kind.width) * kind.components;
  while (info.next_scanline < info.image_height) {
    JSAMPROW row =
        const_cast<JSAMPROW>(pixels.data() + info.next_scanline * stride);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::vector<uint8_t> out(buffer, buffer + size);
  std::free(buffer);
  return out;
}

std::vector<uint8_t> ReferenceDecode(const std::vector<uint8_t>& jpeg,
                                     int divisor, int channels) {
  jpeg_decompress_struct info;
  jpeg_error_mgr error;
  info.err = jpeg_std_error(&error);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, jpeg.data(), jpeg.size());
  jpeg_read_header(&info, TRUE);
  info.scale_num = 1;
  info.scale_denom = divisor;
  info.out_color_space = channels == 1   ? JCS_GRAYSCALE
                         : channels == 3 ? JCS_RGB
                                         : JCS_CMYK;
  jpeg_start_decompress(&info);
  std::vector<uint8_t> pixels(static_cast<size_t>(info.output_width) *
                              info.output_height * channels);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels.data() + static_cast<size_t>(info.output_scanline) *
                                       info.output_width * channels;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return pixels;
}

}  // namespace millrace
