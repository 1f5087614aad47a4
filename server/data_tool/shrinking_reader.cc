#include "server/data_tool/shrinking_reader.h"

#include <algorithm>
#include <any>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/pipeline.pb.h"
#include "server/data_tool/alpha_channel.h"
#include "server/data_tool/parallel_reader.h"
#include "server/data_tool/report.h"
#include "server/decode/image_decoder.h"
#include "server/decode/jpeg_encoder.h"
#include "server/pipeline/stage/image_stage.h"

namespace millrace::data_tool {
namespace {

// What became of an image.
enum class Outcome { kEncoded, kFits, kOfOperators };

struct Image {
  Outcome outcome = Outcome::kEncoded;
  bool alpha = false;
  int64_t bytes_before = 0;
  int64_t bytes_after = 0;
};

// The size in which an image of `size` is stored.
augment::Size ShrunkSize(augment::Size size, int64_t max_side) {
  const int64_t longer = std::max(size.width, size.height);
  if (max_side == 0 || longer <= max_side) return size;
  const auto side = [&](int64_t of) {  // rounded, ties up
    return std::max<int64_t>(1, (2 * of * max_side + longer) / (2 * longer));
  };
  return {side(size.width), side(size.height)};
}

// R = G = B in all pixels: the grey values, one channel.
bool MakeGrey(std::vector<uint8_t>& pixels) {
  for (size_t i = 0; i < pixels.size(); i += 3) {
    if (pixels[i] != pixels[i + 1] || pixels[i] != pixels[i + 2]) return false;
  }
  for (size_t i = 0; i * 3 < pixels.size(); ++i) pixels[i] = pixels[3 * i];
  pixels.resize(pixels.size() / 3);
  return true;
}

// Of one thread at a time.
class Shrinker {
 public:
  absl::StatusOr<Image> Shrink(const Field& field, const ShrinkOptions& options,
                               std::string& stored) {
    const absl::Span<const uint8_t> bytes = {
        reinterpret_cast<const uint8_t*>(stored.data()), stored.size()};
    Image image;
    image.bytes_before = image.bytes_after = static_cast<int64_t>(bytes.size());
    if (options.operators != nullptr &&
        options.operators->SniffedBy(bytes) != nullptr) {
      image.outcome = Outcome::kOfOperators;
      return image;
    }
    MR_ASSIGN_OR_RETURN(const decode::ImageHeader header,
                        decoder_.Open(bytes, /*exif_transpose=*/true));
    // Stored as it lies in the file: the orientation is written beside it.
    augment::Size size = {header.width, header.height};
    if (header.orientation >= 5) std::swap(size.width, size.height);
    const augment::Size shrunk = ShrunkSize(size, options.max_side);
    if (options.max_side > 0 && shrunk == size) {
      image.outcome = Outcome::kFits;
      return image;
    }
    decode::JpegEncoding encoding;
    encoding.width = shrunk.width;
    encoding.height = shrunk.height;
    encoding.quality = options.quality;
    encoding.orientation = header.orientation;
    MR_RETURN_IF_ERROR(Resize(field, bytes, shrunk));
    if (MakeGrey(pixels_)) encoding.channels = 1;
    image.alpha = HasAlpha(bytes);
    MR_RETURN_IF_ERROR(decode::EncodeJpeg(pixels_, encoding, &stored));
    image.bytes_after = static_cast<int64_t>(stored.size());
    decoder_.ReleaseAbove(kKeptBytes);
    return image;
  }

 private:
  // Max bytes that a decoder keeps for the next image.
  static constexpr size_t kKeptBytes = size_t{16} << 20;

  // Leaves the pixels, RGB, in pixels_.
  absl::Status Resize(const Field& field, absl::Span<const uint8_t> bytes,
                      augment::Size to) {
    absl::Status status = Resize(field, bytes, to, DecodeImage::EXACT);
    // An image that is too large to be decoded at full size may be decoded at a
    // part of it.
    if (absl::IsDataLoss(status)) {
      const absl::Status scaled = Resize(field, bytes, to, DecodeImage::SCALED);
      if (scaled.ok()) return scaled;
    }
    return status;
  }

  absl::Status Resize(const Field& field, absl::Span<const uint8_t> bytes,
                      augment::Size to, DecodeImage::Mode mode) {
    Transform decode;
    decode.mutable_decode_image()->set_field(field.name());
    decode.mutable_decode_image()->set_mode(mode);
    Transform resize;
    resize.mutable_resize()->add_fields(field.name());
    resize.mutable_resize()->set_width(static_cast<uint32_t>(to.width));
    resize.mutable_resize()->set_height(static_cast<uint32_t>(to.height));
    const pipeline::PlacedTransform both[] = {{&decode, 0}, {&resize, 1}};
    MR_ASSIGN_OR_RETURN(const auto stage,
                        pipeline::ImageStage::Create(field, both));
    pixels_.resize(to.width * to.height * 3);
    return stage->Run(bytes, 0, *scratch_, absl::MakeSpan(pixels_));
  }

  decode::ImageDecoder decoder_;
  const std::unique_ptr<pipeline::ImageStage::Scratch> scratch_ =
      pipeline::NewImageScratch();
  std::vector<uint8_t> pixels_;
};

class ShrinkingReaderImpl final : public ShrinkingReader {
 public:
  ShrinkingReaderImpl(std::unique_ptr<SampleReader> reader, int field,
                      const ShrinkOptions& options)
      : options_(options),
        index_(field),
        field_(reader->description().schema().fields(field)),
        reader_(std::move(reader),
                {.threads = options.threads, .name = "mr-shrink"},
                [this](ParallelReader::Work& work) { Convert(work); }) {}

  const DatasetInfo& description() const override {
    return reader_.description();
  }

  absl::Status Next(Sample* sample) override {
    MR_RETURN_IF_ERROR(reader_.Next(sample));
    const auto& image = std::any_cast<const Image&>(reader_.given().note);
    ++counts_[static_cast<int>(image.outcome)];
    if (image.outcome != Outcome::kEncoded) return absl::OkStatus();
    if (image.alpha) ++alpha_;
    bytes_before_ += image.bytes_before;
    bytes_after_ += image.bytes_after;
    return absl::OkStatus();
  }

  std::vector<std::string> Warnings() const override {
    std::vector<std::string> warnings = reader_.Warnings();
    if (alpha_ > 0) {
      warnings.push_back(absl::StrCat(
          alpha_, alpha_ == 1 ? " image has" : " images have",
          " an alpha channel, which JPEG does not store: the colours under "
          "transparent pixels show, as they do in a pipeline"));
    }
    return warnings;
  }

  std::string Summary() const override {
    const int64_t encoded = counts_[static_cast<int>(Outcome::kEncoded)];
    const int64_t fits = counts_[static_cast<int>(Outcome::kFits)];
    const int64_t foreign = counts_[static_cast<int>(Outcome::kOfOperators)];
    const int64_t all = encoded + fits + foreign;
    std::string text =
        options_.max_side > 0
            ? absl::StrFormat("made %d of %d images smaller", encoded, all)
            : absl::StrFormat("encoded %d of %d images again", encoded, all);
    if (encoded > 0) {
      absl::StrAppendFormat(&text, ": %s became %s (%+.1f %%)",
                            SizeText(bytes_before_), SizeText(bytes_after_),
                            100.0 * (bytes_after_ - bytes_before_) /
                                static_cast<double>(bytes_before_));
    }
    std::vector<std::string> kept;
    if (fits > 0) kept.push_back(absl::StrCat(fits, " small enough"));
    if (foreign > 0) {
      kept.push_back(absl::StrCat(foreign, " for a decoder of --operators"));
    }
    if (!kept.empty()) {
      absl::StrAppend(&text, "; stored unchanged: ", absl::StrJoin(kept, ", "));
    }
    return text;
  }

 private:
  void Convert(ParallelReader::Work& work) {
    std::unique_ptr<Shrinker> shrinker = shrinkers_.Take();
    const absl::StatusOr<Image> image =
        shrinker->Shrink(field_, options_, work.fields[index_]);
    shrinkers_.Give(std::move(shrinker));
    if (image.ok()) {
      work.note = *image;
    } else {
      work.status = absl::Status(
          image.status().code(),
          absl::StrCat("cannot make ",
                       work.origin.empty() ? "an image" : work.origin,
                       " smaller: ", image.status().message(),
                       "; repair or remove it, or leave damaged images out "
                       "with --skip_bad"));
    }
  }

  const ShrinkOptions options_;
  const int index_;  // of the image in the schema
  const Field field_;
  int64_t counts_[3] = {};  // by Outcome
  int64_t alpha_ = 0;
  int64_t bytes_before_ = 0;  // of the encoded images
  int64_t bytes_after_ = 0;
  SpareStates<Shrinker> shrinkers_;
  ParallelReader reader_;  // last, because its threads use the members above
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShrinkingReader>> MakeShrinking(
    std::unique_ptr<SampleReader> reader, const ShrinkOptions& options) {
  const Schema& schema = reader->description().schema();
  std::vector<std::string> names;
  int field = -1;
  for (int i = 0; i < schema.fields_size(); ++i) {
    if (schema.fields(i).kind() != FIELD_KIND_ENCODED_IMAGE) continue;
    field = i;
    names.push_back(schema.fields(i).name());
  }
  if (names.size() != 1) {
    return UsageError(absl::InvalidArgumentError(
        names.empty()
            ? "--max_side and --quality need encoded images; the samples have "
              "none"
            : absl::StrCat("the samples have several images (",
                           absl::StrJoin(names, ", "),
                           "), of which one may be a mask, which JPEG would "
                           "spoil; use --apply with a pipeline that resizes "
                           "them together")));
  }
  return std::make_unique<ShrinkingReaderImpl>(std::move(reader), field,
                                               options);
}

std::string ShrinkLine(const ShrinkOptions& options) {
  return options.max_side > 0
             ? absl::StrCat("images with a side above ", options.max_side,
                            " pixels: longer side resized to ",
                            options.max_side, ", JPEG of quality ",
                            options.quality)
             : absl::StrCat("images: JPEG of quality ", options.quality);
}

}  // namespace millrace::data_tool
