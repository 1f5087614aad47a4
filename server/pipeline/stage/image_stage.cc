#include "server/pipeline/stage/image_stage.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/aligned_buffer.h"
#include "common/byte_size.h"
#include "common/status_macros.h"
#include "server/decode/large_image_gate.h"
#include "server/decode/limits.h"
#include "server/decode/memory_text.h"
#include "server/pipeline/stage/box_stage.h"
#include "server/pipeline/stage/image_memory.h"
#include "server/pipeline/stage/image_program.h"
#include "server/pipeline/stage/segment_painter.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::pipeline {
namespace {

// Typical scratch memory: decoded pixels, rotated pixels, transposed columns,
// intermediate images and libjpeg's own rows.
constexpr int64_t kTypicalScratchBytes = 16 << 20;
// Max bytes that a worker's buffers keep together from image to image: enough
// for an image of 2048 x 1024, for which new pages would take some
// milliseconds. Above that, the buffers of more than kKeptBytesEach are freed,
// and then all.
constexpr size_t kKeptBytes = kTypicalScratchBytes / 2;
constexpr size_t kKeptBytesEach = 4 << 20;

// The gate for threads that belong to no engine: their large images together
// take at most the memory of one image of the max size.
decode::LargeImageGate& GateOfProcess() {
  static decode::LargeImageGate& gate =
      *new decode::LargeImageGate(kMaxImageBytes);
  return gate;
}

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

class StageScratch : public ImageStage::Scratch {
 public:
  Times TakeTimes() override {
    times.augment_seconds += std::exchange(operator_seconds, 0);
    return std::exchange(times, Times{});
  }

  // Frees the buffers that are larger.
  void Release(size_t above) {
    painter.ReleaseAbove(above);
    for (AlignedBuffer& buffer : images) buffer.ReleaseAbove(above);
    pixel_op.ReleaseAbove(above);
  }

  // Bytes of the buffers.
  size_t KeptBytes() const {
    return painter.kept_bytes() + images[0].capacity() + images[1].capacity() +
           pixel_op.capacity();
  }

  // After an image.
  void ReleaseSurplus() {
    if (KeptBytes() <= kKeptBytes) return;
    Release(kKeptBytesEach);
    if (KeptBytes() > kKeptBytes) Release(0);
  }

  SegmentPainter painter;
  AlignedBuffer images[2];                  // between segments, alternating
  AlignedBuffer pixel_op;                   // for the pixel operations
  std::vector<augment::SegmentList> plans;  // of the geometry phases, in order
  Times times;
};

class BuiltImageStage : public ImageStage {
 public:
  explicit BuiltImageStage(ImageProgram program)
      : program_(std::move(program)),
        output_shape_{program_.output.height, program_.output.width,
                      program_.channels} {
    for (size_t i = 0; i < program_.phases.size(); ++i) {
      if (program_.phases[i].geometry.has_value()) last_geometry_ = i;
    }
  }

  const std::vector<int64_t>& output_shape() const override {
    return output_shape_;
  }

  uint64_t max_scratch_bytes() const override { return kTypicalScratchBytes; }

  std::unique_ptr<Scratch> NewScratch() const override {
    return NewImageScratch();
  }

  absl::StatusOr<augment::Size> ReadSize(absl::Span<const uint8_t> stored,
                                         Scratch& scratch) const override {
    MR_ASSIGN_OR_RETURN(const decode::ImageHeader header,
                        Open(stored, static_cast<StageScratch&>(scratch)));
    return augment::Size{header.width, header.height};
  }

  bool leaves_size() const override { return program_.role != FieldRole::MASK; }

  absl::Status Run(absl::Span<const uint8_t> stored, uint64_t sample_key,
                   Scratch& scratch, absl::Span<uint8_t> out) const override {
    auto& s = static_cast<StageScratch&>(scratch);
    const Clock::time_point start = Clock::now();
    Clock::duration decoding{};
    decode::LargeImageGate::Admission large;  // held until the memory is freed
    absl::Status status = Fill(stored, sample_key, s, out, large, decoding);
    s.times.decode_seconds += Seconds(decoding);
    s.times.augment_seconds += Seconds(Clock::now() - start - decoding);
    s.ReleaseSurplus();
    return status;
  }

 private:
  absl::StatusOr<decode::ImageHeader> Open(absl::Span<const uint8_t> stored,
                                           StageScratch& s) const {
    decode::ImageHeader header;
    if (program_.encoded) {
      MR_ASSIGN_OR_RETURN(
          header, s.painter.decoder().Open(stored, program_.exif_transpose,
                                           program_.decoders));
      if (header.width <= 0 || header.height <= 0 ||
          header.width > augment::kMaxImageSide ||
          header.height > augment::kMaxImageSide) {
        return absl::DataLossError(absl::StrCat(
            "the image claims ", header.width, " x ", header.height,
            " pixels; each side must have 1 to ", augment::kMaxImageSide));
      }
      return header;
    }
    header.width = program_.raw.width;
    header.height = program_.raw.height;
    const uint64_t expected =
        static_cast<uint64_t>(header.width) * header.height * program_.channels;
    if (stored.size() != expected) {
      return absl::DataLossError(absl::StrCat(
          "the stored pixels have ", stored.size(), " bytes instead of ",
          expected, " (", header.height, " x ", header.width, " x ",
          program_.channels, "); pack the dataset again"));
    }
    return header;
  }

  absl::Status Fill(absl::Span<const uint8_t> stored, uint64_t sample_key,
                    StageScratch& s, absl::Span<uint8_t> out,
                    decode::LargeImageGate::Admission& large,
                    Clock::duration& decoding) const {
    const int channels = program_.channels;
    const uint64_t out_bytes =
        static_cast<uint64_t>(output_shape_[0]) * output_shape_[1] * channels;
    if (out.size() != out_bytes) {
      return absl::InternalError(absl::StrCat("image stage: ", out.size(),
                                              " bytes given for a result of ",
                                              out_bytes));
    }
    const Clock::time_point start = Clock::now();
    absl::StatusOr<decode::ImageHeader> opened = Open(stored, s);
    if (!opened.ok()) {
      decoding += Clock::now() - start;
      return opened.status();
    }
    const decode::ImageHeader& header = *opened;
    const augment::Size stored_size = {header.width, header.height};
    if (program_.role != FieldRole::MASK) {
      s.image_size = stored_size;
    } else if (s.image_size != stored_size) {
      decoding += Clock::now() - start;
      return absl::DataLossError(absl::StrCat(
          "the mask is ", stored_size.height, " x ", stored_size.width,
          " pixels (height x width), its image ", s.image_size.height, " x ",
          s.image_size.width, "; mask and image must have the same size"));
    }
    absl::Status status = PlanGeometry(stored_size, sample_key, s);
    if (status.ok()) status = Admit(header, s, large);
    decoding += Clock::now() - start;
    MR_RETURN_IF_ERROR(status);

    augment::Size size = stored_size;
    Pixels pixels;
    if (!program_.encoded) {
      pixels = {stored.data(), size.width * channels, 0, 0, false};
    }
    bool decode = program_.encoded;
    int next = 0;              // index into s.images
    uint8_t* image = nullptr;  // the last segment's output
    auto plan = s.plans.begin();
    for (size_t i = 0; i < program_.phases.size(); ++i) {
      const ImageProgram::Phase& phase = program_.phases[i];
      if (phase.op != nullptr) {
        augment::OpContext context;
        context.sample_key = sample_key;
        context.scratch = &s.pixel_op;
        context.log = s.log;
        MR_RETURN_IF_ERROR(phase.op->Apply(
            {image, size.height, size.width, channels, size.width * channels},
            context));
        continue;
      }
      const augment::SegmentList& segments = *plan++;
      for (size_t k = 0; k < segments.size(); ++k) {
        const augment::Segment& segment = segments[k];
        const bool last = IsLast(i, k, segments);
        if (decode) {
          decode = false;
          const Clock::time_point begin = Clock::now();
          status = s.painter.Decode(segment, size, HowToDecode(segment, header),
                                    &pixels);
          decoding += Clock::now() - begin;
          MR_RETURN_IF_ERROR(status);
        } else {
          s.painter.Prepare(segment, size);
        }
        image = out.data();
        const int64_t stride = segment.canvas.width * channels;
        if (!last) {
          const int64_t bytes = stride * segment.canvas.height;
          image = s.images[next].Reserve(bytes + augment::kResizeReadSlack);
          if (image == nullptr) return decode::NoMemoryForPixels(bytes);
          next = 1 - next;
        }
        MR_RETURN_IF_ERROR(
            s.painter.Draw(segment, pixels, channels, image, stride));
        size = segment.canvas;
        pixels = {image, stride, 0, 0, !last};
      }
    }
    return absl::OkStatus();
  }

  // Admits what the image needs beside the thread's scratch. DataLoss: the
  // image needs more than any image may, whatever the budget.
  absl::Status Admit(const decode::ImageHeader& header, StageScratch& s,
                     decode::LargeImageGate::Admission& large) const {
    const int64_t needed = BytesNeeded(header, s.plans);
    if (needed <= kTypicalScratchBytes) {
      // The image may use none of the buffers that keep memory.
      if (needed + static_cast<int64_t>(s.KeptBytes()) > kTypicalScratchBytes) {
        s.Release(0);
      }
      return absl::OkStatus();
    }
    // The image gets the whole scratch, without what it keeps of others.
    s.Release(0);
    MR_RETURN_IF_ERROR(CheckCanvases(header, s.plans));
    // Before any memory: the decoder refuses the image at any budget, with its
    // own words.
    if (program_.encoded && DecoderRefuses(header, s)) return absl::OkStatus();
    const int64_t bytes = needed - kTypicalScratchBytes;
    if (s.large == nullptr) {
      GateOfProcess().Enter(bytes, &large);
      return absl::OkStatus();
    }
    const decode::LargeImageGate& gate = *s.large->gate;
    if (bytes > gate.capacity()) {
      // No bad sample: a server with a larger budget decodes the image, and all
      // servers make the same batches.
      return absl::FailedPreconditionError(absl::StrCat(
          "the image of ", header.width, " x ", header.height,
          " pixels needs up to ", FormatByteSize(needed),
          " of memory to decode and augment; ", gate.AdviceFor(bytes)));
    }
    if (bytes <= s.large->admission.bytes() ||
        s.large->gate->TryEnter(bytes, &large)) {
      return absl::OkStatus();
    }
    s.large->wanted = bytes;
    return absl::UnavailableError(
        "other images use the memory for large images");
  }

  // Whether the segment, the k-th of phase i, writes the result.
  bool IsLast(size_t i, size_t k, const augment::SegmentList& segments) const {
    return i == last_geometry_ && k + 1 == segments.size();
  }

  // DataLoss: the image becomes too large between two transforms.
  absl::Status CheckCanvases(
      const decode::ImageHeader& header,
      absl::Span<const augment::SegmentList> plans) const {
    auto plan = plans.begin();
    for (size_t i = 0; i < program_.phases.size(); ++i) {
      if (program_.phases[i].op != nullptr) continue;
      const augment::SegmentList& segments = *plan++;
      for (size_t k = 0; k < segments.size(); ++k) {
        const augment::Size canvas = segments[k].canvas;
        // Sides are below 2^33, so the product fits.
        if (IsLast(i, k, segments) ||
            canvas.width * canvas.height <=
                decode::kMaxDecodedBytes / program_.channels) {
          continue;
        }
        return absl::DataLossError(absl::StrCat(
            "the image of ", header.width, " x ", header.height,
            " pixels becomes ", canvas.width, " x ", canvas.height,
            " during its transforms; the maximum is ",
            FormatByteSize(decode::kMaxDecodedBytes), " for one image"));
      }
    }
    return absl::OkStatus();
  }

  bool DecoderRefuses(const decode::ImageHeader& header,
                      StageScratch& s) const {
    const augment::Segment& first = s.plans.front().front();
    return s.painter.BytesFor(first, {header.width, header.height},
                              HowToDecode(first, header)) >
           decode::kMaxDecodedBytes;
  }

  absl::Status PlanGeometry(augment::Size size, uint64_t sample_key,
                            StageScratch& s) const {
    s.plans.clear();
    for (const ImageProgram::Phase& phase : program_.phases) {
      if (!phase.geometry.has_value()) continue;
      MR_ASSIGN_OR_RETURN(augment::SegmentList plan,
                          phase.geometry->Plan(size, sample_key, s.log));
      s.plans.push_back(std::move(plan));
      size = s.plans.back().back().canvas;
    }
    return absl::OkStatus();
  }

  int DivisorFor(const augment::Segment& segment,
                 const decode::ImageHeader& header) const {
    return ChooseDivisor(segment, program_.exact ? 1 : header.max_divisor);
  }

  SegmentPainter::Decoding HowToDecode(
      const augment::Segment& segment,
      const decode::ImageHeader& header) const {
    SegmentPainter::Decoding how;
    how.divisor = DivisorFor(segment, header);
    how.channels = program_.channels;
    how.index = program_.index;
    return how;
  }

  // Memory to process the image: what the decoder takes, the upright copy of
  // its pixels, the images between the segments, which alternate between two
  // buffers, and the operations' scratch, which is one buffer. An image that
  // takes more than kMaxImageBytes counts as kMaxImageBytes.
  int64_t BytesNeeded(const decode::ImageHeader& header,
                      absl::Span<const augment::SegmentList> plans) const {
    double decoder = header.whole_bytes;
    double bytes = 0;  // beside the decoder; sides may be just below 2^33
    double between[2] = {0, 0};  // bytes of s.images
    int next = 0;
    int64_t scratch = 0;
    bool first = true;
    auto plan = plans.begin();
    for (size_t i = 0; i < program_.phases.size(); ++i) {
      const ImageProgram::Phase& phase = program_.phases[i];
      if (phase.op != nullptr) {
        // Between operations, the size is that of the last canvas.
        scratch =
            std::max(scratch, phase.op->ScratchBytes((plan - 1)->back().canvas,
                                                     program_.channels));
        continue;
      }
      for (size_t k = 0; k < plan->size(); ++k) {
        const augment::Segment& segment = (*plan)[k];
        const bool decode = program_.encoded && first;
        const int divisor = decode ? DivisorFor(segment, header) : 1;
        const double row = static_cast<double>(segment.box.width) *
                           program_.channels / divisor;
        if (first && (decode || segment.resize)) {
          const double region = row * segment.box.height / divisor;
          (decode ? decoder : bytes) += region;
          if (decode && header.orientation != 1) bytes += region;
          const int decoded = header.decoded_channels;
          if (decode && decoded != 0 && decoded != program_.channels) {
            decoder += region / program_.channels * decoded;
          }
        }
        first = false;
        if (segment.resize) bytes += row * 64;  // transposed columns
        if (!IsLast(i, k, *plan)) {
          between[next] = std::max(
              between[next], static_cast<double>(segment.canvas.width) *
                                 segment.canvas.height * program_.channels);
          next = 1 - next;
        }
      }
      ++plan;
    }
    // A decoder refuses images that need more, or does with less.
    bytes += std::min(decoder, static_cast<double>(decode::kMaxDecodedBytes));
    bytes += between[0] + between[1] + static_cast<double>(scratch);
    return static_cast<int64_t>(
        std::min(bytes, static_cast<double>(kMaxImageBytes)));
  }

  const ImageProgram program_;
  const std::vector<int64_t> output_shape_;
  size_t last_geometry_ = 0;  // its last segment writes the result
};

}  // namespace

std::unique_ptr<ImageStage::Scratch> NewImageScratch() {
  return std::make_unique<StageScratch>();
}

absl::StatusOr<std::unique_ptr<ImageStage>> ImageStage::Create(
    const Field& field, absl::Span<const PlacedTransform> transforms,
    const ImageStageOptions& options) {
  // A resolved spec is unchanged by this. Tools and tests make their own
  // transforms.
  std::vector<Transform> written;
  written.reserve(transforms.size());
  std::vector<PlacedTransform> placed;
  for (const PlacedTransform& each : transforms) {
    plan::WriteDefaults(written.emplace_back(*each.transform));
    placed.push_back({&written.back(), each.place});
  }
  if (options.role == FieldRole::BOXES_XYXY) {
    return MakeBoxStage(field, placed);
  }
  MR_ASSIGN_OR_RETURN(ImageProgram program,
                      ImageProgram::Read(field, placed, options));
  return std::make_unique<BuiltImageStage>(std::move(program));
}

}  // namespace millrace::pipeline
