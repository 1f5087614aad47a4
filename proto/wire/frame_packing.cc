#include "proto/wire/frame_packing.h"

#include <zstd.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// Of Zstandard's levels, 1 packs the differences of photographs as well as 3
// does, at twice the speed.
constexpr int kLevel = 1;
// Scratch that a thread keeps; more is given back after the call.
constexpr size_t kKeptBytes = 1 << 20;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

struct PackScratch {
  std::unique_ptr<ZSTD_CCtx, FreeContext> context{ZSTD_createCCtx()};
  std::vector<uint8_t> differences;
  std::vector<char> packed;
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

std::optional<PackedFrame> PackFrame(absl::Span<const uint8_t> bytes,
                                     uint32_t delta_stride) {
  if (bytes.empty() || bytes.size() > kMaxPackedFrameBytes) return std::nullopt;
  thread_local PackScratch scratch;
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
  // What does not fit is not worth it: Zstandard stops there.
  const size_t limit = bytes.size() - bytes.size() / 20;
  if (scratch.packed.size() < limit) scratch.packed.resize(limit);
  const size_t size =
      ZSTD_compressCCtx(scratch.context.get(), scratch.packed.data(), limit, in,
                        bytes.size(), kLevel);
  if (ZSTD_isError(size)) return std::nullopt;
  return PackedFrame{{scratch.packed.data(), size}, delta_stride};
}

absl::Status UnpackFrame(absl::Span<const absl::string_view> pieces,
                         int compression, uint32_t delta_stride,
                         absl::Span<uint8_t> out) {
  if (compression != COMPRESSION_ZSTD) {
    return Damaged(absl::StrCat("it is packed by method ", compression,
                                ", which this version does not know"));
  }
  thread_local UnpackScratch scratch;
  if (scratch.context == nullptr) {
    return absl::ResourceExhaustedError("no memory to unpack a frame");
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
    return Damaged(absl::StrCat("its packed bytes are invalid: ",
                                ZSTD_getErrorName(size)));
  }
  if (size != out.size()) {
    return Damaged(
        absl::StrCat("it unpacks to ", size, " bytes instead of ", out.size()));
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

}  // namespace millrace
