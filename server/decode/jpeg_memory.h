// JpegMemory bounds what libjpeg allocates for one image. libjpeg takes all its
// memory through a table of functions that belongs to each decompressor; here
// each of them is preceded by one that counts. Beyond the limit libjpeg's own
// error is raised (JERR_OUT_OF_MEMORY).
//
// Not thread-safe: one per decompressor, which it must outlive. It takes the
// decompressor's `client_data`.
//
//   jpeg_create_decompress(&info);
//   memory.Attach(&info);  // kJpegHeaderBytes until the size is known
//   jpeg_read_header(&info, TRUE);
//   memory.Allow(kJpegHeaderBytes + JpegRowBytes(info));

#ifndef MILLRACE_SERVER_DECODE_JPEG_MEMORY_H_
#define MILLRACE_SERVER_DECODE_JPEG_MEMORY_H_

#include <cstdint>
#include <cstdio>

// After stdio.h, which it needs.
#include <jpeglib.h>

#include "server/decode/memory_limit.h"

namespace millrace::decode {

// Of every image: tables, and structs of libjpeg's parts. About 30 KB are used.
inline constexpr int64_t kJpegHeaderBytes = 256 << 10;

// All coefficients of the image whose header is read, which several scans need
// at once.
int64_t JpegCoefficientBytes(const jpeg_decompress_struct& info);

// Upper bound of libjpeg's rows between its steps, at every scale.
int64_t JpegRowBytes(const jpeg_decompress_struct& info);

class JpegMemory {
 public:
  JpegMemory() = default;
  JpegMemory(const JpegMemory&) = delete;
  JpegMemory& operator=(const JpegMemory&) = delete;

  // After each creation of `info`. `bytes` may be taken until Allow().
  void Attach(jpeg_decompress_struct* info, int64_t bytes = kJpegHeaderBytes);

  // From now on `bytes`, with what is taken already.
  void Allow(int64_t bytes) { limit_.Allow(bytes); }

  // Whether something was refused since Attach().
  bool exceeded() const { return limit_.exceeded(); }

 private:
  struct Hooks;  // the functions that count

  MemoryLimit limit_;
  jpeg_memory_mgr library_ = {};  // its functions
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_JPEG_MEMORY_H_
