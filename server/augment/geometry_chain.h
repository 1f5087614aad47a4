// GeometryChain is the geometric part of a spec's transforms for one image
// field: crops, resizes and flips in their order. Plan() draws the random
// choices of one sample and folds the chain into as few resamplings as its
// meaning allows: cutting, one resize, cutting again, padding and flipping are
// one Segment. It knows no pixels, no decoder and no protobuf.
//
// Immutable and thread-safe; Plan() is a pure function of (size, key).
//
//   MR_ASSIGN_OR_RETURN(auto chain, GeometryChain::Create(ops, absl::nullopt));
//   SegmentList segments = chain.Plan({500, 375}, sample_key);

#ifndef MILLRACE_SERVER_AUGMENT_GEOMETRY_CHAIN_H_
#define MILLRACE_SERVER_AUGMENT_GEOMETRY_CHAIN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "server/augment/geometry.h"

namespace millrace {

// No side of an image, crop or result may be longer.
inline constexpr int64_t kMaxImageSide = 65535;

struct GeometryOp {
  enum class Kind {
    kRandomResizedCrop,  // distribution, size, antialias
    kResizeShortSide,    // short_side, antialias
    kResize,             // size, antialias
    kCenterCrop,         // size
    kHorizontalFlip,     // probability
  };
  Kind kind = Kind::kResize;
  uint32_t place = 0;  // in the spec: part of the key of its random choices
  Size size;
  int64_t short_side = 0;
  bool antialias = true;
  CropDistribution distribution;
  double probability = 0.5;
};

// One resampling. The output, `canvas` pixels large, is zero but for
// `window` of the resized box, which lies at (pad_left, pad_top); then it is
// mirrored left to right when `flip` is set (padding included).
struct Segment {
  Rect box;  // of the input
  bool resize = false;
  bool antialias = true;
  Size resized;  // of the whole box; box's own size without resize
  Rect window;   // of the resized box
  Size canvas;
  int64_t pad_left = 0;
  int64_t pad_top = 0;
  bool flip = false;
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

  // `image` has sides 1 .. kMaxImageSide.
  SegmentList Plan(Size image, uint64_t sample_key) const;

 private:
  GeometryChain(std::vector<GeometryOp> ops, std::optional<Size> output)
      : ops_(std::move(ops)), output_(output) {}

  std::vector<GeometryOp> ops_;
  std::optional<Size> output_;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_AUGMENT_GEOMETRY_CHAIN_H_
