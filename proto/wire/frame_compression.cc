#include "proto/wire/frame_compression.h"

#include <zstd.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"

namespace millrace::wire {
namespace {

// Of Zstandard's levels, 1 compresses the differences of photographs as well
// as 3 does, at twice the speed.
constexpr int kLevel = 1;
// Scratch that a thread keeps; more is given back after the call.
constexpr size_t kKeptBytes = 1 << 20;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

struct CompressScratch {
  std::unique_ptr<ZSTD_CCtx, FreeContext> context{ZSTD_createCCtx()};
  std::vector<uint8_t> differences;
  std::vector<char> compressed;
};

struct UnpackScratch {
  std::unique_ptr<ZSTD_DCtx, FreeContext> context{ZSTD_createDCtx()};
  std::vector<char> joined;
};

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("a damaged frame was received: ", what));
}

}  // namespace

std::optional<CompressedFrame> CompressFrame(absl::Span<const uint8_t> bytes,
                                             uint32_t delta_stride) {
  if (bytes.empty() || bytes.size() > kMaxCompressedFrameBytes) {
    return std::nullopt;
  }
  thread_local CompressScratch scratch;
  if (scratch.context == nullptr) return std::nullopt;
  if (delta_stride >= bytes.size()) delta_stride = 0;
  const uint8_t* in = bytes.data();
  if (delta_stride > 0) {
    scratch.differences.resize(bytes.size());
    uint8_t* const out = scratch.differences.data();
    for (size_t i = 0; i < delta_stride; ++i) out[i] = in[i];
    for (size_t i = delta_stride; i < bytes.size(); ++i) {
      out[i] = static_cast<uint8_t>(in[i] - in[i - delta_stride]);
    }
    in = out;
  }
  // A larger result saves too little: Zstandard stops at this size.
  const size_t limit = bytes.size() - bytes.size() / 20;
  if (scratch.compressed.size() < limit) scratch.compressed.resize(limit);
  const size_t size =
      ZSTD_compressCCtx(scratch.context.get(), scratch.compressed.data(), limit,
                        in, bytes.size(), kLevel);
  if (ZSTD_isError(size)) return std::nullopt;
  return CompressedFrame{{scratch.compressed.data(), size}, delta_stride};
}

absl::Status DecompressFrame(absl::Span<const absl::string_view> pieces,
                             int compression, uint32_t delta_stride,
                             absl::Span<uint8_t> out) {
  if (compression != COMPRESSION_ZSTD) {
    return Damaged(absl::StrCat("it is compressed by method ", compression,
                                ", which this version does not know"));
  }
  thread_local UnpackScratch scratch;
  if (scratch.context == nullptr) {
    return absl::ResourceExhaustedError("no memory to decompress a frame");
  }
  absl::string_view data;
  if (pieces.size() == 1) {
    data = pieces[0];
  } else {
    scratch.joined.clear();
    for (absl::string_view piece : pieces) {
      scratch.joined.insert(scratch.joined.end(), piece.begin(), piece.end());
    }
    data = {scratch.joined.data(), scratch.joined.size()};
  }
  // Into `out` alone, whatever the data claims.
  const size_t size = ZSTD_decompressDCtx(scratch.context.get(), out.data(),
                                          out.size(), data.data(), data.size());
  if (scratch.joined.capacity() > kKeptBytes) scratch.joined = {};
  if (ZSTD_isError(size)) {
    return Damaged(absl::StrCat("its compressed bytes are invalid: ",
                                ZSTD_getErrorName(size)));
  }
  if (size != out.size()) {
    return Damaged(absl::StrCat("it decompresses to ", size,
                                " bytes instead of ", out.size()));
  }
  if (delta_stride > 0) {
    uint8_t* const p = out.data();
    for (size_t i = delta_stride; i < size; ++i) {
      p[i] = static_cast<uint8_t>(p[i] + p[i - delta_stride]);
    }
  }
  return absl::OkStatus();
}

uint32_t DeltaStrideFor(DType dtype, absl::Span<const int64_t> sample_shape) {
  if (dtype != DTYPE_UINT8 || sample_shape.size() < 2) return 0;
  // [height, width, channels], or channels first or a lone plane.
  const int64_t last = sample_shape.back();
  if (sample_shape.size() == 3 && last >= 1 && last <= 4) {
    return static_cast<uint32_t>(last);
  }
  return 1;
}

}  // namespace millrace::wire
