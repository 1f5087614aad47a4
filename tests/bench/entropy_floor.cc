#include "tests/bench/entropy_floor.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

// After stdio.h, which it needs.
#include <jpeglib.h>

#include "common/logging.h"

namespace millrace {
namespace {

// jpeg_entropy_decoder of libjpeg-turbo's jpegint.h, as in fast_entropy.cc.
struct EntropyModule {
  void (*start_pass)(j_decompress_ptr);
  boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW*);
};

}  // namespace

bool EntropyFloor::Run(absl::Span<const uint8_t> jpeg,
                       const decode::DecodeRegion& region) {
  jpeg_decompress_struct info;
  jpeg_error_mgr error;
  info.err = jpeg_std_error(&error);  // libjpeg's own: ends the process
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, jpeg.data(), jpeg.size());
  jpeg_read_header(&info, TRUE);
  if (!decode::FastEntropy::Fits(info) || !entropy_.Reserve(jpeg.size())) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  info.scale_num = 8 / region.divisor;
  info.scale_denom = 8;
  jpeg_start_decompress(&info);
  // Of an MCU in pixels of the decoded image.
  const int factor_x = info.num_components == 1 ? 1 : info.max_h_samp_factor;
  const int factor_y = info.num_components == 1 ? 1 : info.max_v_samp_factor;
  const int64_t width = factor_x * 8 / region.divisor;
  const int64_t height = factor_y * 8 / region.divisor;
  const auto first_column = static_cast<uint32_t>(region.left / width);
  const auto last_column =
      static_cast<uint32_t>((region.left + region.width - 1) / width);
  const auto first_row = static_cast<uint32_t>(region.top / height);
  const auto last_row =
      static_cast<uint32_t>((region.top + region.height - 1) / height);
  MR_CHECK(last_row < info.MCU_rows_in_scan) << "a region outside the image";
  entropy_.Attach(&info, {info.src->next_input_byte, info.src->bytes_in_buffer},
                  {}, first_column, last_column);
  const auto* module = reinterpret_cast<const EntropyModule*>(info.entropy);
  alignas(64) JBLOCK blocks[D_MAX_BLOCKS_IN_MCU];
  JBLOCKROW rows[D_MAX_BLOCKS_IN_MCU];
  for (int i = 0; i < D_MAX_BLOCKS_IN_MCU; ++i) rows[i] = &blocks[i];
  for (uint32_t y = 0; y <= last_row; ++y) {
    for (uint32_t x = 0; x < info.MCUs_per_row; ++x) {
      const bool wanted =
          y >= first_row && x >= first_column && x <= last_column;
      if (wanted) std::memset(blocks, 0, sizeof(JBLOCK) * info.blocks_in_MCU);
      module->decode_mcu(&info, wanted ? rows : nullptr);
    }
  }
  jpeg_destroy_decompress(&info);
  return true;
}

}  // namespace millrace
