// An EXIF block that contains only the orientation: for JPEGs that are written
// without the other metadata of their original.
//
//   const OrientationBlock block(6);
//   jpeg_write_marker(to, JPEG_APP0 + 1, block.bytes, sizeof(block.bytes));

#ifndef MILLRACE_SERVER_DECODE_ORIENTATION_BLOCK_H_
#define MILLRACE_SERVER_DECODE_ORIENTATION_BLOCK_H_

#include <cstdint>

namespace millrace::decode {

struct OrientationBlock {
  uint8_t bytes[32];

  // `orientation`: 1 .. 8.
  explicit OrientationBlock(int orientation)
      : bytes{'E',
              'x',
              'i',
              'f',
              0,
              0,  // name
              'I',
              'I',
              42,
              0,
              8,
              0,
              0,
              0,  // TIFF, directory at 8
              1,
              0,  // one entry
              0x12,
              1,
              3,
              0,
              1,
              0,
              0,
              0,                                  // orientation, one SHORT
              static_cast<uint8_t>(orientation),  //
              0,
              0,
              0,
              0,
              0,
              0,
              0} {}  // no next directory
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_ORIENTATION_BLOCK_H_
