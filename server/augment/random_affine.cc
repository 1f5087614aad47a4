#include "server/augment/random_affine.h"

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "server/augment/copy_pixels.h"
#include "server/augment/portable_math.h"
#include "server/augment/random.h"
#include "server/augment/warp.h"

namespace millrace::augment {
namespace {

double Tangent(double degrees) {
  const SinCos angle = PortableSinCosDegrees(degrees);
  return angle.sin / angle.cos;
}

class RandomAffineOp final : public PixelOp {
 public:
  explicit RandomAffineOp(const RandomAffineOptions& options)
      : options_(options) {}

  int64_t ScratchBytes(Size size, int channels) const override {
    return WarpScratchBytes(size, channels);
  }

  absl::Status Apply(ImageSpan image, const OpContext& context) const override {
    AffinePair maps;
    if (!DrawAffine(options_, context.sample_key, {image.width, image.height},
                    context.log, maps)) {
      return absl::OkStatus();
    }
    return WarpInPlace(image, maps.inverse, options_.nearest, options_.fill,
                       /*fill_given=*/true, *context.scratch);
  }

 private:
  const RandomAffineOptions options_;
};

}  // namespace

bool DrawAffine(const RandomAffineOptions& o, uint64_t sample_key, Size size,
                ParameterLog* log, AffinePair& maps) {
  CounterRandom random(sample_key, o.place);
  if (o.probability < 1.0 && !(random.Uniform() < o.probability)) {
    if (log != nullptr) log->Add(o.place, "not applied");
    return false;
  }
  AffineParameters p;
  const double angle = random.Uniform(o.degrees_min, o.degrees_max);
  if (o.rotation) {
    p.degrees = -angle;
    if (log != nullptr) log->Add(o.place, absl::StrCat("angle ", angle));
    maps = MakeAffine(p, size);
    return true;
  }
  p.degrees = angle;
  const double shift_x = o.translate_x * static_cast<double>(size.width);
  const double shift_y = o.translate_y * static_cast<double>(size.height);
  p.translate_x =
      static_cast<double>(RoundHalfEven(random.Uniform(-shift_x, shift_x)));
  p.translate_y =
      static_cast<double>(RoundHalfEven(random.Uniform(-shift_y, shift_y)));
  p.scale = random.Uniform(o.scale_min, o.scale_max);
  const double shear_x = random.Uniform(o.shear_x_min, o.shear_x_max);
  const double shear_y = random.Uniform(o.shear_y_min, o.shear_y_max);
  p.shear_x = Tangent(shear_x);
  p.shear_y = Tangent(shear_y);
  if (log != nullptr) {
    log->Add(o.place,
             absl::StrCat("angle ", angle, ", translate ", p.translate_x, " ",
                          p.translate_y, ", scale ", p.scale, ", shear ",
                          shear_x, " ", shear_y));
  }
  maps = MakeAffine(p, size);
  return true;
}

std::unique_ptr<const PixelOp> MakeRandomAffine(
    const RandomAffineOptions& options) {
  return std::make_unique<RandomAffineOp>(options);
}

int64_t WarpScratchBytes(Size size, int channels) {
  return size.width * size.height * channels + kWarpReadSlack;
}

absl::Status WarpInPlace(ImageSpan image, const AffineMap& inverse,
                         bool nearest, const FillColor& fill, bool fill_given,
                         AlignedBuffer& scratch) {
  if (inverse == AffineMap{}) return absl::OkStatus();
  const Size size = {image.width, image.height};
  const int64_t bytes = WarpScratchBytes(size, image.channels);
  uint8_t* copy = scratch.Reserve(bytes);
  if (copy == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", FormatByteSize(bytes), " of pixels"));
  }
  CopyPixels(image.data, image.stride, size, image.channels, /*flip=*/false,
             copy, size.width * image.channels);
  WarpJob job;
  job.from = copy;
  job.size = size;
  job.channels = image.channels;
  job.inverse = inverse;
  job.nearest = nearest;
  job.fill = fill;
  job.fill_given = fill_given;
  job.to = image.data;
  job.to_stride = image.stride;
  WarpPixels(job);
  return absl::OkStatus();
}

}  // namespace millrace::augment
