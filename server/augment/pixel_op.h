// PixelOp is a transform of an image's pixels that keeps the size: colour,
// blur, erasing, rotation. server/augment/geometry_chain.h has the transforms
// that change the size. It does not know decoders and protobuf.
//
// Immutable and thread-safe: Apply() is a pure function of (pixels, sample
// key), and each thread has its own context. Random choices come from
// CounterRandom(context.sample_key, place), with the place of the op in the
// spec. The header of each op gives the order of its draws.
//
//   std::unique_ptr<PixelOp> op = MakeGrayscale({.place = 3, .p = 0.1});
//   MR_RETURN_IF_ERROR(op->Apply(image, {.sample_key = key,
//                                        .scratch = &scratch}));

#ifndef MILLRACE_SERVER_AUGMENT_PIXEL_OP_H_
#define MILLRACE_SERVER_AUGMENT_PIXEL_OP_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/aligned_buffer.h"
#include "server/augment/geometry.h"
#include "server/augment/parameter_log.h"

namespace millrace::augment {

// uint8 pixels [height, width, channels]. The bytes around the rows may belong
// to other threads, so they are neither read nor written.
struct ImageSpan {
  uint8_t* data = nullptr;
  int64_t height = 0;
  int64_t width = 0;
  int channels = 3;      // 1 or 3, unless the op says otherwise
  ptrdiff_t stride = 0;  // bytes from row to row, >= width * channels
};

struct OpContext {
  uint64_t sample_key = 0;
  // Used only by the op during Apply(); its content before is unspecified.
  AlignedBuffer* scratch = nullptr;
  // Null during training.
  ParameterLog* log = nullptr;
};

class PixelOp {
 public:
  virtual ~PixelOp() = default;

  // Max bytes of the scratch that Apply() reserves for an image of this size.
  virtual int64_t ScratchBytes(Size size, int channels) const {
    static_cast<void>(size);
    static_cast<void>(channels);
    return 0;
  }

  // ResourceExhausted: no memory for the scratch.
  virtual absl::Status Apply(ImageSpan image,
                             const OpContext& context) const = 0;
};

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_PIXEL_OP_H_
