// GeometryChain is the geometric part of a spec's transforms for one image
// field: crops, resizes, pads and flips in their order. Plan() draws the random
// choices of one sample and folds the chain into as few resamplings as its
// meaning allows: cutting, one resize, cutting again, padding and flipping are
// one Segment. It knows no pixels, no decoder and no protobuf.
//
// Immutable and thread-safe; Plan() is a pure function of (size, key). The
// segments point to nothing.
//
//   MR_ASSIGN_OR_RETURN(auto chain, GeometryChain::Create(ops, absl::nullopt));
//   MR_ASSIGN_OR_RETURN(SegmentList segments,
//                       chain.Plan({500, 375}, sample_key));

#ifndef MILLRACE_SERVER_AUGMENT_GEOMETRY_CHAIN_H_
#define MILLRACE_SERVER_AUGMENT_GEOMETRY_CHAIN_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "server/augment/geometry.h"
#include "server/augment/geometry_op.h"
#include "server/augment/parameter_log.h"

namespace millrace {

// One resampling. The output is `canvas` pixels large. `window` of the resized
// box lies at (pad_left, pad_top) in it, the rest is `fill`; then it is
// mirrored as the flips say (padding included).
struct Segment {
  Rect box;  // of the input: all that is read, at least one pixel
  bool resize = false;
  bool antialias = true;
  bool nearest = false;
  Size resized;  // of the whole box; box's own size without resize
  Rect window;  // of the resized box; no width or height: padding alone is seen
  Size canvas;
  int64_t pad_left = 0;
  int64_t pad_top = 0;
  bool flip = false;  // left to right
  bool flip_vertical = false;
  FillColor fill;

  // With another surround than kFill nothing is resized, and the image `edge`
  // of the input goes on around itself: pixel (x, y) of the canvas is that of
  // the input at edge.left + SurroundSource(x - pad_left, edge.width), and so
  // for y. (pad_left, pad_top) is where the edge begins and may be negative;
  // `box` is what is used of it.
  Surround surround = Surround::kFill;
  Rect edge;

  // Whether a part of the canvas lies outside the window.
  bool padded() const {
    return canvas.width != window.width || canvas.height != window.height ||
           surround != Surround::kFill;
  }
};

// At least one segment.
using SegmentList = absl::InlinedVector<Segment, 2>;

class GeometryChain {
 public:
  // `input` is the size of every image when all have the same. InvalidArgument
  // when the results do not all have one size, or a side is 0 or above
  // kMaxImageSide; the message names the operation.
  static absl::StatusOr<GeometryChain> Create(std::vector<GeometryOp> ops,
                                              std::optional<Size> input);

  // The same for a chain whose results may differ in size.
  static absl::StatusOr<GeometryChain> CreateAnySize(
      std::vector<GeometryOp> ops, std::optional<Size> input);

  // Size of every result; absent when they differ.
  std::optional<Size> fixed_output() const { return output_; }
  // The same of a chain that Create() has made.
  Size output() const { return *output_; }

  // `image` has sides 1 .. kMaxImageSide. `log` may be null. DataLoss: the
  // image is too small for a random_crop.
  absl::StatusOr<SegmentList> Plan(Size image, uint64_t sample_key,
                                   ParameterLog* log = nullptr) const;

 private:
  GeometryChain(std::vector<GeometryOp> ops, std::optional<Size> output)
      : ops_(std::move(ops)), output_(output) {}

  std::vector<GeometryOp> ops_;
  std::optional<Size> output_;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_AUGMENT_GEOMETRY_CHAIN_H_
