#include "server/pipeline/image_stage.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/aligned_buffer.h"
#include "common/status_macros.h"
#include "server/augment/axis_filter.h"
#include "server/augment/geometry_chain.h"
#include "server/augment/portable_math.h"
#include "server/augment/resize.h"
#include "server/decode/image_decoder.h"
#include "server/decode/large_image_gate.h"
#include "server/decode/limits.h"

namespace millrace {
namespace {

// What a worker's buffers keep from image to image; the rest of an unusually
// large one is given back at once.
constexpr size_t kKeptBytes = 4 << 20;
// Decoded pixels, turned pixels, transposed columns, intermediate images and
// libjpeg's own rows.
constexpr uint64_t kTypicalScratchBytes = 16 << 20;

// Images that need more than a worker is counted for, of all stages and
// datasets: together they take no more than one of the largest may.
LargeImageGate& LargeImages() {
  static LargeImageGate& gate = *new LargeImageGate(kMaxDecodedBytes);
  return gate;
}

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

class StageScratch : public ImageStage::Scratch {
 public:
  Times TakeTimes() override { return std::exchange(times, Times{}); }

  void ReleaseUnusual() {
    decoder.ReleaseAbove(kKeptBytes);
    resize.ReleaseAbove(kKeptBytes);
    for (AlignedBuffer& buffer : images) buffer.ReleaseAbove(kKeptBytes);
  }

  ImageDecoder decoder;
  AxisFilter x;
  AxisFilter y;
  ResizeScratch resize;
  AlignedBuffer images[2];  // between segments, in turn
  Times times;
};

// Pixels of an image, (0, 0) at `left`, `top` of it.
struct Pixels {
  const uint8_t* data = nullptr;
  ptrdiff_t stride = 0;
  int64_t left = 0;
  int64_t top = 0;
  bool slack = false;  // kResizeReadSlack bytes behind it may be read
};

void CopyRows(const uint8_t* from, ptrdiff_t from_stride, Size size,
              int64_t channels, bool flip, uint8_t* to, ptrdiff_t to_stride) {
  const int64_t row_bytes = size.width * channels;
  if (!flip && from_stride == row_bytes && to_stride == row_bytes) {
    std::memcpy(to, from, row_bytes * size.height);
    return;
  }
  for (int64_t y = 0; y < size.height; ++y) {
    const uint8_t* row = from + y * from_stride;
    uint8_t* out = to + y * to_stride;
    if (!flip) {
      std::memcpy(out, row, row_bytes);
      continue;
    }
    for (int64_t x = 0; x < size.width; ++x) {
      const uint8_t* pixel = row + (size.width - 1 - x) * channels;
      for (int64_t c = 0; c < channels; ++c) *out++ = pixel[c];
    }
  }
}

// The largest fraction at which the box still has the resized size.
int ChooseDivisor(const Segment& segment, int max_divisor) {
  if (!segment.resize) return 1;
  int divisor = max_divisor;
  while (divisor > 1 &&
         (segment.box.width < divisor * segment.resized.width ||
          segment.box.height < divisor * segment.resized.height)) {
    divisor /= 2;
  }
  return divisor;
}

// The filters of a segment over its input at 1/divisor of `image`.
void BuildFilters(const Segment& s, Size image, int divisor, AxisFilter& x,
                  AxisFilter& y) {
  auto build = [&](AxisFilter& filter, int64_t begin, int64_t size,
                   int64_t image_size, int64_t resized, int64_t first,
                   int64_t count) {
    const double scale = 1.0 / divisor;  // a power of two: exact
    AxisFilter::Options o;
    o.begin = static_cast<double>(begin) * scale;
    o.end = static_cast<double>(begin + size) * scale;
    o.limit_begin = begin / divisor;
    o.limit_end = std::min((begin + size + divisor - 1) / divisor,
                           (image_size + divisor - 1) / divisor);
    o.resized = resized;
    o.first = first;
    o.count = count;
    o.antialias = s.antialias;
    filter.Build(o);
  };
  build(x, s.box.left, s.box.width, image.width, s.resized.width, s.window.left,
        s.window.width);
  build(y, s.box.top, s.box.height, image.height, s.resized.height,
        s.window.top, s.window.height);
}

class BuiltImageStage : public ImageStage {
 public:
  struct Config {
    bool encoded = false;
    Size raw;  // of a stored tensor
    int64_t channels = 3;
    bool exact = false;
    bool exif_transpose = false;
  };

  BuiltImageStage(const Config& config, GeometryChain chain)
      : config_(config),
        chain_(std::move(chain)),
        output_shape_{chain_.output().height, chain_.output().width,
                      config.channels} {}

  const std::vector<int64_t>& output_shape() const override {
    return output_shape_;
  }

  uint64_t max_scratch_bytes() const override { return kTypicalScratchBytes; }

  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<StageScratch>();
  }

  absl::Status Run(absl::Span<const uint8_t> stored, uint64_t sample_key,
                   Scratch& scratch, absl::Span<uint8_t> out) const override {
    auto& s = static_cast<StageScratch&>(scratch);
    const Clock::time_point start = Clock::now();
    Clock::duration decoding{};
    LargeImageGate::Admission large;  // until the memory is given back
    absl::Status status = Fill(stored, sample_key, s, out, large, decoding);
    s.times.decode_seconds += Seconds(decoding);
    s.times.augment_seconds += Seconds(Clock::now() - start - decoding);
    s.ReleaseUnusual();
    return status;
  }

 private:
  absl::Status Fill(absl::Span<const uint8_t> stored, uint64_t sample_key,
                    StageScratch& s, absl::Span<uint8_t> out,
                    LargeImageGate::Admission& large,
                    Clock::duration& decoding) const {
    const uint64_t out_bytes = static_cast<uint64_t>(output_shape_[0]) *
                               output_shape_[1] * config_.channels;
    if (out.size() != out_bytes) {
      return absl::InternalError(absl::StrCat("image stage: ", out.size(),
                                              " bytes given for a result of ",
                                              out_bytes));
    }
    ImageHeader header;
    if (config_.encoded) {
      const Clock::time_point start = Clock::now();
      absl::StatusOr<ImageHeader> opened =
          s.decoder.Open(stored, config_.exif_transpose);
      decoding += Clock::now() - start;
      if (!opened.ok()) return opened.status();
      header = *opened;
      if (header.width <= 0 || header.height <= 0 ||
          header.width > kMaxImageSide || header.height > kMaxImageSide) {
        return absl::DataLossError(absl::StrCat(
            "the image claims ", header.width, " x ", header.height,
            " pixels; each side must be 1 to ", kMaxImageSide));
      }
    } else {
      header.width = config_.raw.width;
      header.height = config_.raw.height;
      const uint64_t expected = static_cast<uint64_t>(header.width) *
                                header.height * config_.channels;
      if (stored.size() != expected) {
        return absl::DataLossError(absl::StrCat(
            "the stored pixels have ", stored.size(), " bytes, ", expected,
            " were expected (", header.height, " x ", header.width, " x ",
            config_.channels, "); pack the dataset again"));
      }
    }

    const SegmentList segments =
        chain_.Plan({header.width, header.height}, sample_key);
    if (const int64_t bytes = ScratchBytes(header, segments);
        bytes > static_cast<int64_t>(kTypicalScratchBytes)) {
      const Clock::time_point start = Clock::now();
      large.Enter(LargeImages(), bytes);
      decoding += Clock::now() - start;
    }
    Size size = {header.width, header.height};
    Pixels pixels;
    if (!config_.encoded) {
      pixels = {stored.data(), size.width * config_.channels, 0, 0, false};
    }
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment& segment = segments[i];
      const bool last = i + 1 == segments.size();
      const bool decode = config_.encoded && i == 0;
      // Sides are below 2^33, so the product fits.
      if (!last && segment.canvas.width * segment.canvas.height >
                       kMaxDecodedBytes / config_.channels) {
        return absl::DataLossError(
            absl::StrCat("the image of ", header.width, " x ", header.height,
                         " pixels becomes ", segment.canvas.width, " x ",
                         segment.canvas.height, " on its way; at most ",
                         kMaxDecodedBytes, " bytes are given to one image"));
      }
      const int divisor =
          decode
              ? ChooseDivisor(segment, config_.exact ? 1 : header.max_divisor)
              : 1;
      if (segment.resize) BuildFilters(segment, size, divisor, s.x, s.y);
      if (decode) {
        const Clock::time_point start = Clock::now();
        absl::Status status = Decode(segment, divisor, s, pixels);
        decoding += Clock::now() - start;
        MR_RETURN_IF_ERROR(status);
      }
      uint8_t* to = out.data();
      const int64_t stride = segment.canvas.width * config_.channels;
      if (!last) {
        const int64_t bytes = stride * segment.canvas.height;
        to = s.images[i % 2].Reserve(bytes + kResizeReadSlack);
        if (to == nullptr) return NoMemory(bytes);
      }
      MR_RETURN_IF_ERROR(Draw(segment, pixels, s, to, stride));
      size = segment.canvas;
      pixels = {to, stride, 0, 0, !last};
    }
    return absl::OkStatus();
  }

  // About what the image will take on its way; more than may be given to one
  // counts as that, for it is refused before.
  int64_t ScratchBytes(const ImageHeader& header,
                       const SegmentList& segments) const {
    double bytes = header.whole_bytes;  // sides may be below 2^33: no overflow
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment& segment = segments[i];
      const bool decode = config_.encoded && i == 0;
      const int divisor =
          decode
              ? ChooseDivisor(segment, config_.exact ? 1 : header.max_divisor)
              : 1;
      const double row =
          static_cast<double>(segment.box.width) * config_.channels / divisor;
      if (i == 0 && (decode || segment.resize)) {
        const int copies = decode && header.orientation != 1 ? 2 : 1;
        bytes += row * segment.box.height / divisor * copies;
      }
      if (segment.resize) bytes += row * 64;  // transposed columns
      if (i + 1 < segments.size()) {
        bytes += static_cast<double>(segment.canvas.width) *
                 segment.canvas.height * config_.channels;
      }
    }
    return static_cast<int64_t>(
        std::min(bytes, static_cast<double>(kMaxDecodedBytes)));
  }

  static absl::Status NoMemory(int64_t bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", bytes, " bytes of pixels"));
  }

  // What the segment reads of the stored image.
  absl::Status Decode(const Segment& segment, int divisor, StageScratch& s,
                      Pixels& pixels) const {
    DecodeRegion region;
    region.divisor = divisor;
    region.channels = static_cast<int>(config_.channels);
    if (segment.resize) {
      region.left = s.x.source_begin();
      region.top = s.y.source_begin();
      region.width = s.x.source_end() - s.x.source_begin();
      region.height = s.y.source_end() - s.y.source_begin();
    } else {
      region.left = segment.box.left;
      region.top = segment.box.top;
      region.width = segment.box.width;
      region.height = segment.box.height;
    }
    MR_ASSIGN_OR_RETURN(DecodedImage image, s.decoder.Decode(region));
    pixels = {image.data, image.stride, region.left, region.top, true};
    return absl::OkStatus();
  }

  // Writes the segment's canvas.
  absl::Status Draw(const Segment& segment, Pixels pixels, StageScratch& s,
                    uint8_t* to, ptrdiff_t stride) const {
    const int64_t channels = config_.channels;
    const Size window = {segment.window.width, segment.window.height};
    if (window != segment.canvas) {
      std::memset(to, 0, stride * segment.canvas.height);
      const int64_t left =
          segment.flip ? segment.canvas.width - segment.pad_left - window.width
                       : segment.pad_left;
      to += segment.pad_top * stride + left * channels;
    }
    if (!segment.resize) {
      CopyRows(pixels.data + (segment.box.top - pixels.top) * pixels.stride +
                   (segment.box.left - pixels.left) * channels,
               pixels.stride, window, channels, segment.flip, to, stride);
      return absl::OkStatus();
    }
    if (!pixels.slack) {
      // Stored pixels may end where their memory does.
      const Size read = {s.x.source_end() - s.x.source_begin(),
                         s.y.source_end() - s.y.source_begin()};
      const int64_t bytes = read.width * channels * read.height;
      uint8_t* copy = s.images[1].Reserve(bytes + kResizeReadSlack);
      if (copy == nullptr) return NoMemory(bytes);
      CopyRows(pixels.data + s.y.source_begin() * pixels.stride +
                   s.x.source_begin() * channels,
               pixels.stride, read, channels, false, copy,
               read.width * channels);
      pixels = {copy, read.width * channels, s.x.source_begin(),
                s.y.source_begin(), true};
    }
    ResizeJob job;
    job.source = pixels.data;
    job.source_stride = pixels.stride;
    job.source_left = pixels.left;
    job.source_top = pixels.top;
    job.x = &s.x;
    job.y = &s.y;
    job.channels = static_cast<int>(channels);
    job.out = to;
    job.out_stride = stride;
    job.flip = segment.flip;
    if (!ResizePixels(job, s.resize)) {
      return NoMemory((s.x.source_end() - s.x.source_begin()) * channels * 64);
    }
    return absl::OkStatus();
  }

  const Config config_;
  const GeometryChain chain_;
  const std::vector<int64_t> output_shape_;
};

// --- From the spec ----------------------------------------------------------

absl::Status Invalid(absl::string_view name, uint32_t place,
                     absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " (transform ", place, "): ", what));
}

absl::Status NotBuilt(absl::string_view name, uint32_t place,
                      absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat(name, " (transform ", place, "): ", what,
                   " is not built in this version"));
}

absl::Status CheckBilinear(absl::string_view name, uint32_t place,
                           Interpolation interpolation) {
  if (interpolation == INTERPOLATION_BILINEAR) return absl::OkStatus();
  return NotBuilt(
      name, place,
      absl::StrCat("interpolation ", static_cast<int>(interpolation)));
}

absl::StatusOr<GeometryOp> ReadRandomResizedCrop(const RandomResizedCrop& crop,
                                                 uint32_t place) {
  constexpr char kName[] = "random_resized_crop";
  MR_RETURN_IF_ERROR(CheckBilinear(kName, place, crop.interpolation()));
  GeometryOp op;
  op.kind = GeometryOp::Kind::kRandomResizedCrop;
  op.place = place;
  op.size = {crop.width(), crop.height()};
  op.antialias = !crop.no_antialias();
  CropDistribution& d = op.distribution;
  if (crop.scale_min() != 0 || crop.scale_max() != 0) {
    d.scale_min = crop.scale_min();
    d.scale_max = crop.scale_max();
    if (!(d.scale_min > 0 && d.scale_min <= d.scale_max && d.scale_max <= 1)) {
      return Invalid(kName, place,
                     absl::StrCat("scale is ", d.scale_min, " to ", d.scale_max,
                                  "; it must rise within 0 (excluded) to 1"));
    }
  }
  if (crop.ratio_min() != 0 || crop.ratio_max() != 0) {
    const double low = crop.ratio_min();
    const double high = crop.ratio_max();
    constexpr double kMaxRatio = 1000;
    if (!(low >= 1 / kMaxRatio && low <= high && high <= kMaxRatio)) {
      return Invalid(kName, place,
                     absl::StrCat("ratio is ", low, " to ", high,
                                  "; it must rise within 0.001 to 1000"));
    }
    d.log_ratio_min = PortableLog(low);
    d.log_ratio_max = PortableLog(high);
  }
  return op;
}

absl::StatusOr<GeometryOp> ReadResize(const Resize& resize, uint32_t place) {
  constexpr char kName[] = "resize";
  MR_RETURN_IF_ERROR(CheckBilinear(kName, place, resize.interpolation()));
  const bool both = resize.height() != 0 && resize.width() != 0;
  const bool any = resize.height() != 0 || resize.width() != 0;
  if (resize.short_side() != 0 ? any : !both) {
    return Invalid(kName, place,
                   "give either short_side or both height and width");
  }
  GeometryOp op;
  op.place = place;
  op.antialias = !resize.no_antialias();
  op.kind =
      both ? GeometryOp::Kind::kResize : GeometryOp::Kind::kResizeShortSide;
  op.size = {resize.width(), resize.height()};
  op.short_side = resize.short_side();
  return op;
}

absl::StatusOr<GeometryOp> ReadFlip(const HorizontalFlip& flip,
                                    uint32_t place) {
  GeometryOp op;
  op.kind = GeometryOp::Kind::kHorizontalFlip;
  op.place = place;
  if (flip.has_p()) op.probability = flip.p();
  if (!(op.probability >= 0 && op.probability <= 1)) {
    return Invalid(
        "horizontal_flip", place,
        absl::StrCat("p is ", op.probability, "; it must be 0 to 1"));
  }
  return op;
}

absl::Status CheckNormalize(const Normalize& normalize, uint32_t place,
                            int64_t channels) {
  if (normalize.placement() != PLACEMENT_CLIENT) {
    return NotBuilt("normalize", place, "placement PLACEMENT_SERVER");
  }
  auto fits = [&](int n) { return n == channels || n == 1; };
  if (!fits(normalize.mean_size()) || !fits(normalize.stddev_size())) {
    return Invalid(
        "normalize", place,
        absl::StrCat("has ", normalize.mean_size(), " means and ",
                     normalize.stddev_size(), " stddevs; the image has ",
                     channels, " channels"));
  }
  for (float value : normalize.stddev()) {
    if (!(value > 0)) {
      return Invalid("normalize", place,
                     absl::StrCat("stddev ", value, " is not above 0"));
    }
  }
  return absl::OkStatus();
}

// Reads the transforms of one field in their order.
class ChainReader {
 public:
  ChainReader(bool encoded, BuiltImageStage::Config& config)
      : encoded_(encoded), config_(config) {}

  absl::Status Read(const PlacedTransform& placed) {
    const Transform& transform = *placed.transform;
    const uint32_t place = placed.place;
    switch (transform.kind_case()) {
      case Transform::kDecodeImage:
        return ReadDecode(transform.decode_image(), place);
      case Transform::kRandomResizedCrop:
        return Add(
            ReadRandomResizedCrop(transform.random_resized_crop(), place),
            "random_resized_crop", place);
      case Transform::kResize:
        return Add(ReadResize(transform.resize(), place), "resize", place);
      case Transform::kCenterCrop: {
        GeometryOp op;
        op.kind = GeometryOp::Kind::kCenterCrop;
        op.place = place;
        op.size = {transform.center_crop().width(),
                   transform.center_crop().height()};
        return Add(op, "center_crop", place);
      }
      case Transform::kHorizontalFlip: {
        // Mirrors what is normalised or not: the same result.
        MR_ASSIGN_OR_RETURN(GeometryOp op,
                            ReadFlip(transform.horizontal_flip(), place));
        ops_.push_back(op);
        return absl::OkStatus();
      }
      case Transform::kNormalize:
        normalized_ = true;
        return CheckNormalize(transform.normalize(), place, config_.channels);
      case Transform::kCustom:
        return NotBuilt(
            "custom", place,
            absl::StrCat("the transform \"", transform.custom().name(), "\""));
      case Transform::KIND_NOT_SET:
        return Invalid("unknown transform", place,
                       "it is empty, or newer than this server");
      default:
        return NotBuilt("transform", place, "it");
    }
  }

  std::vector<GeometryOp> TakeOps() { return std::move(ops_); }

 private:
  absl::Status ReadDecode(const DecodeImage& decode, uint32_t place) {
    constexpr char kName[] = "decode_image";
    if (!encoded_) {
      return Invalid(kName, place,
                     "the field holds raw pixels; leave decode_image out");
    }
    if (decoded_ || !ops_.empty() || normalized_) {
      return Invalid(kName, place,
                     "an image is decoded once, before other transforms");
    }
    decoded_ = true;
    if (!DecodeImage::Color_IsValid(decode.color())) {
      return NotBuilt(kName, place, absl::StrCat("color ", decode.color()));
    }
    if (!DecodeImage::Mode_IsValid(decode.mode())) {
      return NotBuilt(kName, place, absl::StrCat("mode ", decode.mode()));
    }
    config_.channels = decode.color() == DecodeImage::GRAY ? 1 : 3;
    config_.exact = decode.mode() == DecodeImage::EXACT;
    config_.exif_transpose = decode.exif_transpose();
    return absl::OkStatus();
  }

  absl::Status Add(absl::StatusOr<GeometryOp> op, absl::string_view name,
                   uint32_t place) {
    if (!op.ok()) return op.status();
    if (normalized_) {
      return Invalid(name, place, "must come before normalize");
    }
    if (op->kind != GeometryOp::Kind::kCenterCrop && config_.channels != 1 &&
        config_.channels != 3) {
      return NotBuilt(name, place,
                      absl::StrCat("resizing ", config_.channels,
                                   " channels (1 and 3 are)"));
    }
    ops_.push_back(*std::move(op));
    return absl::OkStatus();
  }

  const bool encoded_;
  BuiltImageStage::Config& config_;
  std::vector<GeometryOp> ops_;
  bool decoded_ = false;
  bool normalized_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageStage>> ImageStage::Create(
    const Field& field, absl::Span<const PlacedTransform> transforms) {
  BuiltImageStage::Config config;
  std::optional<Size> input;
  if (field.kind() == FIELD_KIND_ENCODED_IMAGE) {
    config.encoded = true;
  } else if (field.kind() == FIELD_KIND_TENSOR &&
             field.dtype() == DTYPE_UINT8 && field.shape_size() == 3) {
    for (int64_t side : field.shape()) {
      if (side <= 0 || side > kMaxImageSide) {
        return absl::InvalidArgumentError(
            absl::StrCat("field \"", field.name(), "\" has the shape [",
                         absl::StrJoin(field.shape(), ", "),
                         "]; each size must be 1 to ", kMaxImageSide));
      }
    }
    config.raw = {field.shape(1), field.shape(0)};
    config.channels = field.shape(2);
    input = config.raw;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "field \"", field.name(),
        "\" is no image: image transforms work on encoded images and on uint8 "
        "tensors of shape [height, width, channels]"));
  }
  ChainReader reader(config.encoded, config);
  for (const PlacedTransform& placed : transforms) {
    MR_RETURN_IF_ERROR(reader.Read(placed));
  }
  absl::StatusOr<GeometryChain> chain =
      GeometryChain::Create(reader.TakeOps(), input);
  if (!chain.ok()) {
    return absl::Status(chain.status().code(),
                        absl::StrCat("field \"", field.name(),
                                     "\": ", chain.status().message()));
  }
  return std::make_unique<BuiltImageStage>(config, *std::move(chain));
}

}  // namespace millrace
