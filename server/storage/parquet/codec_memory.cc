#include "server/storage/parquet/codec_memory.h"

namespace millrace::storage {
namespace {

// Brotli (c/dec/decode.c and state.c of 1.0.9 to 1.2): a ring buffer as large
// as the window, whatever the page has. While the buffer grows, the previous
// one of half the size is there, too.
constexpr int64_t RingBytes(int window_bits) {
  return int64_t{3} << (window_bits - 1);
}

// Brotli's Huffman tables: 256 trees for each of literals, commands and
// distances. A tree has 376 entries of 4 bytes more than its alphabet.
constexpr int64_t kMaxTrees = 256;
constexpr int64_t kTreeBytes =
    4 * kMaxTrees * ((256 + 376) + (704 + 376) + (520 + 376));
// Brotli's pointers to the trees, context maps, block types and the slack of
// the ring buffers: 36,000 bytes.
constexpr int64_t kBrotliBytes = kTreeBytes + (64 << 10);

constexpr int kUsualWindowBits = 22;
constexpr int kMaxWindowBits = 24;

// RFC 7932, section 9.1. The decoder refuses the value that stands for windows
// above 16 MiB.
int WindowBits(uint8_t first) {
  if ((first & 1) == 0) return 16;
  if (const int large = first >> 1 & 7; large != 0) return 17 + large;
  const int small = first >> 4 & 7;
  return small == 0 ? 17 : 8 + small;
}

// Of a stream with a window of 18 to 24 bits.
constexpr uint8_t FirstByte(int window_bits) {
  return static_cast<uint8_t>((window_bits - 17) << 1 | 1);
}

// The context of Zstandard. A call for a whole page decompresses into the
// page's buffer, so the window of the frame takes no memory.
constexpr int64_t kZstdBytes = 128 << 10;

// zlib's state, and a window of 32 KiB.
constexpr int64_t kGzipBytes = 48 << 10;

}  // namespace

int64_t CodecBytes(arrow::Compression::type codec, uint8_t first) {
  switch (codec) {
    case arrow::Compression::BROTLI:
      return RingBytes(WindowBits(first)) + kBrotliBytes;
    case arrow::Compression::ZSTD:
      return kZstdBytes;
    case arrow::Compression::GZIP:
      return kGzipBytes;
    default:
      return 0;  // Snappy and LZ4 allocate nothing
  }
}

int64_t MaxCodecBytes(arrow::Compression::type codec) {
  return CodecBytes(codec, FirstByte(kMaxWindowBits));
}

int64_t UsualCodecBytes(arrow::Compression::type codec) {
  return CodecBytes(codec, FirstByte(kUsualWindowBits));
}

}  // namespace millrace::storage
