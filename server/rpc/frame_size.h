// FrameSize sets the bytes of a batch that a call puts into one frame. It
// shrinks while frames take long, so that a slow link finishes a frame before
// the write counts as blocked, and grows while frames are fast.
//
// Not thread-safe: belongs to one stream.
//
//   FrameSize size;
//   Write(frames.Next(size.bytes()));
//   size.Note(how_long_that_took);

#ifndef MILLRACE_SERVER_RPC_FRAME_SIZE_H_
#define MILLRACE_SERVER_RPC_FRAME_SIZE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "proto/wire/version.h"

namespace millrace::rpc {

class FrameSize {
 public:
  // A link of 7 kB/s finishes it within the default send_timeout.
  static constexpr uint64_t kMinBytes = 64 << 10;

  uint64_t bytes() const { return bytes_; }

  void Note(std::chrono::steady_clock::duration took) {
    if (took < kQuick) {
      bytes_ = std::min(2 * bytes_, wire::kFrameDataBytes);
    } else if (took > kSlow) {
      bytes_ = std::max(bytes_ / 2, kMinBytes);
    }
  }

 private:
  static constexpr std::chrono::milliseconds kQuick{250};
  static constexpr std::chrono::milliseconds kSlow{1000};

  uint64_t bytes_ = wire::kFrameDataBytes;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_FRAME_SIZE_H_
