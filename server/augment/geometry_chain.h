// GeometryChain is the geometric part of a spec's transforms for one image
// field: crops, resizes, pads and flips in order. Plan() draws the random
// choices of one sample and merges the chain into as few resamplings as
// possible without a change of the result: a cut, one resize, a second cut,
// padding and flips are one Segment. It does not know pixels, decoders and
// protobuf.
//
// Immutable and thread-safe. Plan() is a pure function of (size, key). The
// segments contain no pointers.
//
//   const GeometryChain chain(ops, std::nullopt);
//   MR_ASSIGN_OR_RETURN(SegmentList segments,
//                       chain.Plan({500, 375}, sample_key));

#ifndef MILLRACE_SERVER_AUGMENT_GEOMETRY_CHAIN_H_
#define MILLRACE_SERVER_AUGMENT_GEOMETRY_CHAIN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "server/augment/geometry.h"
#include "server/augment/geometry_op.h"
#include "server/augment/parameter_log.h"

namespace millrace::augment {

// One resampling. The output has the size `canvas`. It contains `window` of the
// resized box at (pad_left, pad_top); the rest is `fill`. The flips then mirror
// the output, including the padding.
struct Segment {
  Rect box;  // the part of the input that is read; not empty
  bool resize = false;
  bool antialias = true;
  bool nearest = false;
  Size resized;  // size of the resized box; without resize: box
  Rect window;   // of the resized box; empty: only padding
  Size canvas;
  int64_t pad_left = 0;
  int64_t pad_top = 0;
  bool flip = false;  // left to right
  bool flip_vertical = false;
  FillColor fill;

  // With a surround other than kFill nothing is resized, and the image `edge`
  // of the input continues around itself: pixel (x, y) of the canvas is the
  // pixel of the input at edge.left + SurroundSource(x - pad_left, edge.width),
  // and the same for y. (pad_left, pad_top) is the start of the edge and may be
  // negative. `box` is the part of the edge that is read.
  Surround surround = Surround::kFill;
  Rect edge;

  // Whether a part of the canvas is outside the window.
  bool padded() const {
    return canvas.width != window.width || canvas.height != window.height ||
           surround != Surround::kFill;
  }
};

// At least one segment.
using SegmentList = absl::InlinedVector<Segment, 2>;

class GeometryChain {
 public:
  // `input` is the size of every image if all have the same size.
  GeometryChain(std::vector<GeometryOp> ops, std::optional<Size> input);

  // Size of every result; absent if the results may differ in size.
  std::optional<Size> output() const { return output_; }

  // `image` has sides 1 .. kMaxImageSide. `log` may be null. DataLoss: the
  // image is too small for a random_crop.
  absl::StatusOr<SegmentList> Plan(Size image, uint64_t sample_key,
                                   ParameterLog* log = nullptr) const;

 private:
  std::vector<GeometryOp> ops_;
  std::optional<Size> output_;
};

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_GEOMETRY_CHAIN_H_
