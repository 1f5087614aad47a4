// GeometryOp is one crop, resize, pad or flip of a spec. Resolve() draws its
// random choices for one sample and says what is then done, as steps that hold
// for images, masks and boxes alike. It knows no pixels and no protobuf.
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
// `probability` is below 1, one Uniform() that must be below it; then
// random_resized_crop as RandomCropRect does; random_crop Below() for the top
// row, then Below() for the left column. The others draw nothing more.

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

namespace millrace {

// No side of an image, crop or result may be longer.
inline constexpr int64_t kMaxImageSide = 65535;

// A value for each channel, or one for all.
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

// What lies outside an image.
enum class Surround {
  kFill,       // one colour
  kEdge,       // the last pixel again: a a [a b c] c c
  kReflect,    // mirrored, the edge once: c b [a b c] b a
  kSymmetric,  // mirrored, the edge twice: b a [a b c] c b
};

// The place in [0, size) whose pixel stands at `at`, any integer. Mirroring
// goes on as often as it must, as numpy.pad's. Not for kFill.
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
  uint32_t place = 0;  // in the spec: part of the key of its random choices
  Size size;
  int64_t short_side = 0;
  bool antialias = true;
  bool nearest = false;  // the nearest pixel; then antialias means nothing
  CropDistribution distribution;
  Padding padding;
  bool pad_if_needed = false;
  Surround surround = Surround::kFill;
  FillColor fill;
  // Of random_resized_crop (otherwise the whole image is resized), random_crop
  // (otherwise the middle window is taken) and the flips.
  double probability = 1.0;
};

// "resize (transform 3)".
std::string OpName(const GeometryOp& op);

// Sides below 1 or above kMaxImageSide: InvalidArgument that names the
// operation. Nothing that depends on the image.
absl::Status CheckOp(const GeometryOp& op);

// The size that `op` makes of images of `size`; absent where it depends on a
// size that is not known. CheckOp(op) is OK.
std::optional<Size> OutputSize(const GeometryOp& op, std::optional<Size> size);

// One thing that is done to an image.
struct GeometryStep {
  enum class Kind { kCut, kResize, kFlipHorizontal, kFlipVertical };
  Kind kind = Kind::kCut;
  // kCut: of the image before; what of it lies outside is padding.
  Rect rect;
  // kResize: the size afterwards, never the one before.
  Size size;
  // For what is not random: interpolation, surround, fill.
  const GeometryOp* op = nullptr;
};

using StepList = absl::InlinedVector<GeometryStep, 6>;

// Appends what `op` does to an image of `size` (sides 1 or more), which becomes
// the size afterwards. `log` may be null. DataLoss: the image is too small for
// the crop.
absl::Status Resolve(const GeometryOp& op, uint64_t sample_key,
                     ParameterLog* log, Size& size, StepList& steps);

}  // namespace millrace

#endif  // MILLRACE_SERVER_AUGMENT_GEOMETRY_OP_H_
