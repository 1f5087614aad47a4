#include "server/decode/jpeg_memory.h"

#include <algorithm>

// After stdio.h, which it needs.
#include <jerror.h>

namespace millrace::decode {

int64_t JpegCoefficientBytes(const jpeg_decompress_struct& info) {
  int64_t bytes = 0;
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    bytes += static_cast<int64_t>(component.width_in_blocks +
                                  component.h_samp_factor) *
             (component.height_in_blocks + component.v_samp_factor) *
             static_cast<int64_t>(sizeof(JBLOCK));
  }
  return bytes;
}

int64_t JpegRowBytes(const jpeg_decompress_struct& info) {
  int64_t max_v = 1;
  int64_t bytes = 0;
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    // A row of blocks, and the same again for its neighbours.
    bytes += static_cast<int64_t>(component.width_in_blocks +
                                  component.h_samp_factor) *
             DCTSIZE * component.v_samp_factor * DCTSIZE * 2;
    max_v = std::max<int64_t>(max_v, component.v_samp_factor);
  }
  // Rows before the colour conversion.
  return bytes + (int64_t{info.image_width} + 2 * DCTSIZE) * max_v *
                     info.num_components;
}

struct JpegMemory::Hooks {
  // Overhead of malloc and libjpeg's pools for each allocation.
  static constexpr uint64_t kOverhead = 64;

  // Counts the bytes and returns libjpeg's functions. Above the limit it does
  // not return.
  static const jpeg_memory_mgr& Count(j_common_ptr info, uint64_t pieces,
                                      uint64_t bytes_each) {
    auto* memory = static_cast<JpegMemory*>(info->client_data);
    if (!memory->limit_.Take(pieces * (bytes_each + kOverhead))) {
      info->err->msg_code = JERR_OUT_OF_MEMORY;
      info->err->msg_parm.i[0] = 0;
      (*info->err->error_exit)(info);
    }
    return memory->library_;
  }

  static void* AllocSmall(j_common_ptr info, int pool, size_t bytes) {
    return Count(info, 1, bytes).alloc_small(info, pool, bytes);
  }

  static void* AllocLarge(j_common_ptr info, int pool, size_t bytes) {
    return Count(info, 1, bytes).alloc_large(info, pool, bytes);
  }

  static JSAMPARRAY AllocSamples(j_common_ptr info, int pool, JDIMENSION width,
                                 JDIMENSION rows) {
    return Count(info, rows, width).alloc_sarray(info, pool, width, rows);
  }

  static JBLOCKARRAY AllocBlocks(j_common_ptr info, int pool, JDIMENSION width,
                                 JDIMENSION rows) {
    return Count(info, rows, uint64_t{width} * sizeof(JBLOCK))
        .alloc_barray(info, pool, width, rows);
  }

  // libjpeg allocates these arrays later, as a whole.
  static jvirt_sarray_ptr RequestSamples(j_common_ptr info, int pool,
                                         boolean zeroed, JDIMENSION width,
                                         JDIMENSION rows, JDIMENSION access) {
    return Count(info, rows, width)
        .request_virt_sarray(info, pool, zeroed, width, rows, access);
  }

  static jvirt_barray_ptr RequestBlocks(j_common_ptr info, int pool,
                                        boolean zeroed, JDIMENSION width,
                                        JDIMENSION rows, JDIMENSION access) {
    return Count(info, rows, uint64_t{width} * sizeof(JBLOCK))
        .request_virt_barray(info, pool, zeroed, width, rows, access);
  }
};

void JpegMemory::Attach(jpeg_decompress_struct* info, int64_t bytes) {
  limit_.Start(bytes);
  info->client_data = this;
  jpeg_memory_mgr* table = info->mem;
  library_ = *table;
  table->alloc_small = Hooks::AllocSmall;
  table->alloc_large = Hooks::AllocLarge;
  table->alloc_sarray = Hooks::AllocSamples;
  table->alloc_barray = Hooks::AllocBlocks;
  table->request_virt_sarray = Hooks::RequestSamples;
  table->request_virt_barray = Hooks::RequestBlocks;
}

}  // namespace millrace::decode
