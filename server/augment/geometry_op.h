// GeometryOp is one crop, resize, pad or flip of a spec. Resolve() draws its
// random choices for one sample and returns the resulting steps, which are the
// same for images, masks and boxes. It does not know pixels and protobuf, and
// checks no parameter: server/plan/transforms has checked the message that the
// operation is made of.
//
// Value types and pure functions.
//
//   StepList steps;
//   Size size = {500, 375};
//   for (const GeometryOp& op : ops) {
//     MR_RETURN_IF_ERROR(Resolve(op, sample_key, nullptr, size, steps));
//   }
//
// Draws come from CounterRandom(sample_key, op.place), in this order: when
// `probability` is below 1, one Uniform(), which must be below it. Then:
// random_resized_crop draws as RandomCropRect does; random_crop draws Below()
// for the top row, then Below() for the left column; the others draw nothing
// more.

#ifndef MILLRACE_SERVER_AUGMENT_GEOMETRY_OP_H_
#define MILLRACE_SERVER_AUGMENT_GEOMETRY_OP_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "server/augment/geometry.h"
#include "server/augment/parameter_log.h"

namespace millrace::augment {

// Max side of a stored image.
inline constexpr int64_t kMaxImageSide = 65535;

// One value for each channel, or one for all channels.
class FillColor {
 public:
  static constexpr int kMaxChannels = 4;

  FillColor() = default;  // zeros
  explicit FillColor(uint8_t value) { values_[0] = value; }
  // `count` is 1 to kMaxChannels.
  FillColor(const uint8_t* values, int count) : count_(count) {
    for (int i = 0; i < count; ++i) values_[i] = values[i];
  }

  uint8_t of(int channel) const { return values_[count_ == 1 ? 0 : channel]; }
  int count() const { return count_; }
  friend bool operator==(const FillColor&, const FillColor&) = default;

 private:
  std::array<uint8_t, kMaxChannels> values_{};
  int count_ = 1;
};

// The pixels outside an image.
enum class Surround {
  kFill,       // one colour
  kEdge,       // the last pixel again: a a [a b c] c c
  kReflect,    // mirrored, the edge once: c b [a b c] b a
  kSymmetric,  // mirrored, the edge twice: b a [a b c] c b
};

// The place in [0, size) of the pixel shown at `at`, which is any integer.
// Mirroring repeats as often as necessary, as in numpy.pad. Not for kFill.
int64_t SurroundSource(Surround surround, int64_t at, int64_t size);

struct Padding {
  int64_t left = 0;
  int64_t top = 0;
  int64_t right = 0;
  int64_t bottom = 0;
  friend bool operator==(const Padding&, const Padding&) = default;
};

struct GeometryOp {
  enum class Kind {
    kRandomResizedCrop,  // distribution, size, antialias, nearest
    kResizeShortSide,    // short_side, antialias, nearest
    kResize,             // size, antialias, nearest
    kCenterCrop,         // size
    kRandomCrop,         // size, padding, pad_if_needed, surround, fill
    kPad,                // padding, surround, fill
    kHorizontalFlip,
    kVerticalFlip,
  };
  Kind kind = Kind::kResize;
  const char* name = "";  // in the spec, for errors; outlives the operation
  uint32_t place = 0;     // in the spec: part of the key of its random choices
  Size size;
  int64_t short_side = 0;
  bool antialias = true;
  bool nearest = false;  // the nearest pixel; then antialias means nothing
  CropDistribution distribution;
  Padding padding;
  bool pad_if_needed = false;
  Surround surround = Surround::kFill;
  FillColor fill;
  // Used by random_resized_crop (otherwise the whole image is resized),
  // random_crop (otherwise the middle window is used) and the flips.
  double probability = 1.0;
};

// "resize (transform 3)".
std::string OpName(const GeometryOp& op);

// The size of the result of `op` for images of `size`; absent if it depends on
// an unknown size.
std::optional<Size> OutputSize(const GeometryOp& op, std::optional<Size> size);

// One step on an image.
struct GeometryStep {
  enum class Kind { kCut, kResize, kFlipHorizontal, kFlipVertical };
  Kind kind = Kind::kCut;
  // kCut: in the coordinates of the image before the step. The part outside
  // that image is padding.
  Rect rect;
  // kResize: the size after the step, which differs from the size before.
  Size size;
  // For the constant parameters: interpolation, surround, fill.
  const GeometryOp* op = nullptr;
};

using StepList = absl::InlinedVector<GeometryStep, 6>;

// Appends the steps of `op` for an image of `size` (sides 1 or more), and sets
// `size` to the size of the result. `log` may be null. DataLoss: the image is
// too small for the crop.
absl::Status Resolve(const GeometryOp& op, uint64_t sample_key,
                     ParameterLog* log, Size& size, StepList& steps);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_GEOMETRY_OP_H_
