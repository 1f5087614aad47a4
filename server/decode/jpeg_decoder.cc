#include "server/decode/jpeg_decoder.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

// After stdio.h, which they need.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "server/decode/exif.h"
#include "server/decode/jpeg_error.h"
#include "server/decode/jpeg_memory.h"
#include "server/decode/limits.h"
#include "server/decode/memory_text.h"
#include "server/decode/pixel_rows.h"
#include "server/decode/seek_index.h"

namespace millrace::decode {
namespace {

// Max rows per call of libjpeg, which fills at most the rows of an iMCU row.
constexpr int kRowsPerCall = 8;

// FastEntropy copies the file. Larger files use libjpeg's decoder.
constexpr size_t kMaxFastBytes = 16 << 20;

// The prefixes of the APP1 blocks.
constexpr absl::string_view kExifName("Exif\0\0", 6);
constexpr absl::string_view kXmpName("http://ns.adobe.com/xap/1.0/\0", 29);

struct SourceManager {
  jpeg_source_mgr base;
  bool ended;  // libjpeg needs more bytes than there are
  // Payloads of segments in the file: the first EXIF block, the first XMP
  // block, and the last seek index, which is unverified.
  absl::Span<const uint8_t> exif;
  absl::Span<const uint8_t> xmp;
  absl::Span<const uint8_t> index;
};

// Warnings after which all pixels are still right.
bool IsHarmless(int code) {
  switch (code) {
    case JWRN_EXTRANEOUS_DATA:  // bytes between two markers
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_BOGUS_ICC:
      return true;
    default:
      return false;
  }
}

// After a warning libjpeg would continue with grey pixels. Training must not
// use a damaged sample unnoticed.
void EmitMessage(j_common_ptr info, int level) {
  if (level < 0 && !IsHarmless(info->err->msg_code)) JpegErrorExit(info);
}

void NoSourceCall(j_decompress_ptr) {}

// Past the end of the data libjpeg gets an end marker. If pixels are missing,
// it warns that the data ended early.
boolean FillInputBuffer(j_decompress_ptr info) {
  static const JOCTET kEndOfImage[2] = {0xFF, JPEG_EOI};
  auto* source = reinterpret_cast<SourceManager*>(info->src);
  source->ended = true;
  source->base.next_input_byte = kEndOfImage;
  source->base.bytes_in_buffer = 2;
  return TRUE;
}

void SkipInputData(j_decompress_ptr info, long count) {  // NOLINT: libjpeg's
  if (count <= 0) return;
  jpeg_source_mgr* source = info->src;
  if (static_cast<size_t>(count) <= source->bytes_in_buffer) {
    source->next_input_byte += count;
    source->bytes_in_buffer -= count;
  } else {
    FillInputBuffer(info);
  }
}

int NextByte(j_decompress_ptr info) {
  jpeg_source_mgr* source = info->src;
  if (source->bytes_in_buffer == 0) FillInputBuffer(info);
  --source->bytes_in_buffer;
  return *source->next_input_byte++;
}

// Replaces libjpeg's function, which would copy every segment of the kind,
// whatever their number. This one records only the positions of the needed
// segments.
boolean ReadSegment(j_decompress_ptr info) {
  auto* source = reinterpret_cast<SourceManager*>(info->src);
  const int marker = info->unread_marker;
  const int high = NextByte(info);
  const int length = (high << 8 | NextByte(info)) - 2;  // it counts itself
  if (length <= 0) return TRUE;
  const auto size = static_cast<size_t>(length);
  if (!source->ended && size <= source->base.bytes_in_buffer) {
    const absl::Span<const uint8_t> payload(source->base.next_input_byte, size);
    const absl::string_view text(reinterpret_cast<const char*>(payload.data()),
                                 size);
    if (marker == JPEG_APP0 + kSeekIndexApp) {
      if (IsSeekIndex(payload)) source->index = payload;
    } else if (source->exif.empty() && absl::StartsWith(text, kExifName)) {
      source->exif = payload;
    } else if (source->xmp.empty() && absl::StartsWith(text, kXmpName)) {
      source->xmp = payload;
    }
  }
  SkipInputData(info, length);
  return TRUE;
}

// The state of ReadOrJump(). It has no destructors.
struct Target {
  int divisor;
  JDIMENSION crop_left;  // multiple of an iMCU's width
  JDIMENSION crop_width;
  JDIMENSION top;
  JDIMENSION bottom;
  bool cropped;
  bool skips;     // skips the rows above the region; else decodes them
  uint8_t* rows;  // (bottom - top) rows of `stride` bytes
  ptrdiff_t stride;
  bool converted;
  // libjpeg's row if its pixels are converted or dropped; else null. The
  // region's begin at `line_offset`.
  uint8_t* line;
  ptrdiff_t line_offset;
  FastEntropy* entropy;  // null: libjpeg's own decoder
  const uint8_t* index;  // seek index of the scan, unverified
  size_t index_bytes;
  int channels;
};

// Whether jpeg_crop_scanline() is right for the image at 1/divisor of its size.
// It computes too small a width for a component whose inverse DCT is larger
// than the smallest one and that is also interpolated in either direction
// (4:1:0 at 1/2, or 1x1 below 2x4). The pixels beyond that width are then
// wrong.
bool CanCrop(const jpeg_decompress_struct& info, int divisor) {
  const int smallest = DCTSIZE / divisor;
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    const int width = info.max_h_samp_factor * smallest;
    const int height = info.max_v_samp_factor * smallest;
    int size = smallest;  // as jpeg_calc_output_dimensions() finds it
    while (size < DCTSIZE &&
           width % (component.h_samp_factor * size * 2) == 0 &&
           height % (component.v_samp_factor * size * 2) == 0) {
      size *= 2;
    }
    if (size > smallest && (width > component.h_samp_factor * size ||
                            height > component.v_samp_factor * size)) {
      return false;
    }
  }
  return true;
}

// Whether libjpeg smooths over blocks because refinement scans are missing. The
// pixels then depend on neighbours outside any crop. Valid after
// jpeg_start_decompress().
bool IsSmoothed(const jpeg_decompress_struct& info) {
  if (!info.progressive_mode || info.coef_bits == nullptr) return false;
  for (int c = 0; c < info.num_components; ++c) {
    for (int k = 0; k < DCTSIZE2; ++k) {
      if (info.coef_bits[c][k] != 0) return true;  // 0: all bits are known
    }
  }
  return false;
}

// Columns [left, right) of the image at 1/divisor of its size.
struct Columns {
  int64_t left;
  int64_t right;

  int64_t Bytes(const DecodeRegion& region) const {
    return (right - left) * region.channels * region.height;
  }
};

int64_t WidthAt(const jpeg_decompress_struct& info, int divisor) {
  return (static_cast<int64_t>(info.image_width) + divisor - 1) / divisor;
}

// What libjpeg decodes for the region. With interpolated chroma, the columns at
// the edge of a crop lack their neighbours. So one more iMCU is decoded on each
// inner side.
Columns DecodedColumns(const jpeg_decompress_struct& info,
                       const DecodeRegion& region) {
  const int64_t width = WidthAt(info, region.divisor);
  if (!CanCrop(info, region.divisor)) return {0, width};
  const int64_t unit = int64_t{8} / region.divisor * info.max_h_samp_factor;
  return {std::max<int64_t>(0, region.left / unit - 1) * unit,
          std::min(width, ((region.left + region.width + unit - 1) / unit + 1) *
                              unit)};
}

// Bytes of the coefficients, which several scans need all at once.
int64_t CoefficientBytes(jpeg_decompress_struct& info) {
  return jpeg_has_multiple_scans(&info) ? JpegCoefficientBytes(info) : 0;
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct info;
  JpegErrors error;
  SourceManager source;
  jpeg_progress_mgr scans;
  JpegMemory memory;
  bool created = false;
  size_t bytes = 0;

  // Functions that libjpeg's errors jump out of. They have nothing to destroy.
  // False: `error.message` has the reason.
  static bool OpenOrJump(State* s, const uint8_t* data, size_t size,
                         bool find_exif) {
    if (setjmp(s->error.jump) != 0) return false;
    jpeg_create_decompress(&s->info);
    s->created = true;
    s->memory.Attach(&s->info);
    s->info.src = &s->source.base;
    s->info.progress = &s->scans;
    s->source.base.next_input_byte = data;
    s->source.base.bytes_in_buffer = size;
    s->source.ended = false;
    s->source.exif = s->source.xmp = s->source.index = {};
    if (find_exif) {
      jpeg_set_marker_processor(&s->info, JPEG_APP0 + 1, ReadSegment);
    }
    jpeg_set_marker_processor(&s->info, JPEG_APP0 + kSeekIndexApp, ReadSegment);
    jpeg_read_header(&s->info, TRUE);
    return true;
  }

  // Reads all scans if there are several.
  static bool StartOrJump(State* s, J_COLOR_SPACE color, int divisor) {
    if (setjmp(s->error.jump) != 0) return false;
    jpeg_decompress_struct* info = &s->info;
    info->scale_num = 8 / divisor;
    info->scale_denom = 8;
    info->out_color_space = color;
    info->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(info);
    return true;
  }

  static bool ReadOrJump(State* s, const Target* target) {
    if (setjmp(s->error.jump) != 0) return false;
    jpeg_decompress_struct* info = &s->info;
    if (target->cropped) {
      JDIMENSION left = target->crop_left;
      JDIMENSION width = target->crop_width;
      jpeg_crop_scanline(info, &left, &width);
      if (left != target->crop_left || width != target->crop_width) {
        std::snprintf(s->error.message, sizeof(s->error.message),
                      "libjpeg moved the crop (a bug of Millrace)");
        return false;
      }
    }
    if (target->entropy != nullptr) {
      const JDIMENSION unit =
          (info->num_components == 1 ? 1 : info->max_h_samp_factor) * 8 /
          target->divisor;
      target->entropy->Attach(
          info,
          {s->source.base.next_input_byte, s->source.base.bytes_in_buffer},
          {target->index, target->index_bytes}, target->crop_left / unit,
          (target->crop_left + target->crop_width - 1) / unit);
    }
    if (target->skips && target->top > 0) {
      jpeg_skip_scanlines(info, target->top);
    }
    while (info->output_scanline < target->top) {
      JSAMPROW line = target->line;
      jpeg_read_scanlines(info, &line, 1);
    }
    uint8_t* row = target->rows;
    while (info->output_scanline < target->bottom) {
      if (target->line == nullptr) {
        JSAMPROW rows[kRowsPerCall];
        JDIMENSION n = target->bottom - info->output_scanline;
        if (n > kRowsPerCall) n = kRowsPerCall;
        for (JDIMENSION i = 0; i < n; ++i) rows[i] = row + i * target->stride;
        row += target->stride *
               static_cast<ptrdiff_t>(jpeg_read_scanlines(info, rows, n));
        continue;
      }
      JSAMPROW line = target->line;
      jpeg_read_scanlines(info, &line, 1);
      uint8_t* const pixels = target->line + target->line_offset;
      if (info->out_color_space == JCS_CMYK) {
        // In-place conversion is safe: three bytes are written after four are
        // read.
        uint8_t* rgb = target->channels == 3 ? row : pixels;
        InvertedCmykRowToRgb(pixels, target->crop_width, rgb);
      }
      if (!target->converted) {
        std::memcpy(row, pixels, target->stride);
      } else if (target->channels == 1) {
        RgbRowToGray(pixels, target->crop_width, row);
      }
      row += target->stride;
    }
    return true;
  }

  void Destroy() {
    if (created) jpeg_destroy_decompress(&info);
    created = false;
  }

  // The name of a JPEG variant that libjpeg recognises and does not decode; ""
  // for others.
  std::string UnsupportedKind() const {
    const int number = error.base.msg_parm.i[0];
    switch (error.base.msg_code) {
      case JERR_BAD_PRECISION:
        return absl::StrCat("has ", number, " bits a sample; 8 are supported");
      case JERR_ARITH_NOTIMPL:
        return "is arithmetic-coded; Huffman-coded ones are supported";
      case JERR_SOF_UNSUPPORTED:
        switch (number) {
          case 0xC3:
          case 0xC7:
          case 0xCB:
          case 0xCF:
            return "is a lossless one (not DCT-based), which is not supported";
          default:
            return "is a hierarchical one, which is not supported";
        }
      case JERR_UNKNOWN_MARKER:
        if (number == 0xF7) return "is a JPEG-LS, which is not supported";
        return "";
      default:
        return "";
    }
  }

  absl::Status Error() const {
    if (memory.exceeded()) {
      return absl::DataLossError(
          "the JPEG needs more memory than an image of its size should; it is "
          "damaged or malicious");
    }
    if (const std::string kind = UnsupportedKind(); !kind.empty()) {
      return absl::DataLossError(
          absl::StrCat("the JPEG ", kind, ": convert it"));
    }
    if (source.ended) {
      return absl::DataLossError(absl::StrCat(
          "the JPEG is truncated: its ", bytes,
          " bytes end before the picture does (", error.message, ")"));
    }
    return absl::DataLossError(
        absl::StrCat("the JPEG is damaged or unusual: ", error.message));
  }
};

JpegDecoder::JpegDecoder(Entropy entropy)
    : fastest_(entropy), state_(std::make_unique<State>()) {
  State& s = *state_;
  std::memset(&s.info, 0, sizeof(s.info));
  std::memset(&s.source.base, 0, sizeof(s.source.base));
  std::memset(&s.scans, 0, sizeof(s.scans));
  s.info.err = s.error.Install(EmitMessage);
  s.source.base.init_source = NoSourceCall;
  s.source.base.fill_input_buffer = FillInputBuffer;
  s.source.base.skip_input_data = SkipInputData;
  s.source.base.resync_to_restart = jpeg_resync_to_restart;
  s.source.base.term_source = NoSourceCall;
  s.scans.progress_monitor = CheckJpegScans;
}

JpegDecoder::~JpegDecoder() { state_->Destroy(); }

void JpegDecoder::ReleaseAbove(size_t bytes) {
  pixels_.ReleaseAbove(bytes);
  line_.ReleaseAbove(bytes);
  entropy_.ReleaseAbove(bytes);
}

absl::StatusOr<ImageHeader> JpegDecoder::Open(absl::Span<const uint8_t> bytes,
                                              bool read_orientation) {
  State& s = *state_;
  // A new decompressor for each image: libjpeg keeps Huffman and quantisation
  // tables from one image to the next, so a damaged image without its own
  // tables would decode differently after different images. Creating a
  // decompressor takes about a microsecond.
  s.Destroy();
  s.bytes = bytes.size();
  s.error.message[0] = '\0';
  s.error.base.msg_code = 0;
  if (!State::OpenOrJump(&s, bytes.data(), bytes.size(), read_orientation)) {
    absl::Status status = s.Error();
    s.Destroy();
    return status;
  }
  const jpeg_decompress_struct& info = s.info;
  if (info.data_precision != 8) {
    s.error.base.msg_code = JERR_BAD_PRECISION;
    s.error.base.msg_parm.i[0] = info.data_precision;
    return s.Error();
  }
  if (info.arith_code) {
    return absl::DataLossError(
        "the JPEG is arithmetic-coded; Huffman-coded ones are supported: "
        "convert it (jpegtran does it without loss)");
  }
  if (info.num_components != 1 && info.num_components != 3 &&
      info.num_components != 4) {
    return absl::DataLossError(
        absl::StrCat("the JPEG has ", info.num_components,
                     " components; 1 (grey), 3 (colour) and 4 (CMYK) are "
                     "supported"));
  }
  const int64_t pixels =
      static_cast<int64_t>(info.image_width) * info.image_height;
  if (pixels > kMaxImagePixels) {
    return absl::DataLossError(absl::StrCat(
        "the JPEG claims ", info.image_width, " x ", info.image_height,
        " pixels; the maximum is ", kMaxImagePixels));
  }
  ImageHeader header;
  header.width = info.image_width;
  header.height = info.image_height;
  header.max_divisor = 8;
  if (read_orientation) {
    header.orientation = ImageOrientation(s.source.exif, s.source.xmp);
  }
  const int64_t coefficient_bytes = CoefficientBytes(s.info);
  const int64_t row_bytes = JpegRowBytes(info);
  // Allocations are rounded up, and each of their rows has a small overhead.
  s.memory.Allow(2 * kJpegHeaderBytes + coefficient_bytes +
                 coefficient_bytes / 4 + 2 * row_bytes);
  header.whole_bytes = coefficient_bytes + row_bytes;
  if (UsesFastEntropy(s)) {
    header.whole_bytes += static_cast<int64_t>(s.bytes);  // FastEntropy's copy
  }
  return header;
}

bool JpegDecoder::UsesFastEntropy(const State& state) const {
  return fastest_ == Entropy::kFast && state.bytes <= kMaxFastBytes &&
         FastEntropy::Fits(state.info);
}

int64_t JpegDecoder::BytesFor(const DecodeRegion& region) const {
  jpeg_decompress_struct& info = state_->info;
  return DecodedColumns(info, region).Bytes(region) + CoefficientBytes(info);
}

absl::StatusOr<DecodedImage> JpegDecoder::Decode(const DecodeRegion& region) {
  State& s = *state_;
  jpeg_decompress_struct& info = s.info;
  const int64_t coefficient_bytes = CoefficientBytes(info);

  J_COLOR_SPACE color = JCS_RGB;
  int samples = 3;  // of libjpeg's output, per pixel
  if (info.num_components == 4) {
    color = JCS_CMYK;
    samples = 4;
  } else if (info.jpeg_color_space == JCS_GRAYSCALE && region.channels == 1) {
    color = JCS_GRAYSCALE;
    samples = 1;
  }

  const Columns crop = DecodedColumns(info, region);
  const int64_t bytes = crop.Bytes(region);
  // Checked before libjpeg allocates.
  if (const int64_t needed = BytesFor(region); needed > kMaxDecodedBytes) {
    return absl::DataLossError(absl::StrCat(
        "decoding the JPEG of ", info.image_width, " x ", info.image_height,
        " pixels", coefficient_bytes > 0 ? " (progressive)" : "", " needs ",
        AboveMaximum(needed)));
  }

  Target target;
  target.index = s.source.index.data();
  target.index_bytes = s.source.index.size();
  const bool fast = UsesFastEntropy(s) && entropy_.Reserve(s.bytes);

  const bool started = State::StartOrJump(&s, color, region.divisor);
  bool ok = started;
  used_fast_entropy_ = fast && started && FastEntropy::LayoutIsKnown(info);
  target.entropy = used_fast_entropy_ ? &entropy_ : nullptr;
  if (started) {
    const int64_t image_width = WidthAt(info, region.divisor);
    // Whole rows are read of a smoothed image, and the region's columns kept.
    const bool smoothed = IsSmoothed(info);
    target.divisor = region.divisor;
    target.channels = region.channels;
    target.cropped = !smoothed && (crop.left > 0 || crop.right < image_width);
    target.skips = !smoothed;
    target.crop_left = static_cast<JDIMENSION>(crop.left);
    target.crop_width = static_cast<JDIMENSION>(crop.right - crop.left);
    target.top = static_cast<JDIMENSION>(region.top);
    target.bottom = static_cast<JDIMENSION>(region.top + region.height);
    target.stride = (crop.right - crop.left) * region.channels;
    target.converted = samples != region.channels;
    target.rows = pixels_.Reserve(bytes + kDecodedReadSlack);
    const bool uses_line = target.converted || smoothed;
    const Columns line = smoothed ? Columns{0, image_width} : crop;
    target.line =
        uses_line ? line_.Reserve((line.right - line.left) * samples) : nullptr;
    target.line_offset = (crop.left - line.left) * samples;
    if (target.rows == nullptr || (uses_line && target.line == nullptr)) {
      s.Destroy();
      return NoMemoryForPixels(bytes);
    }
    ok = State::ReadOrJump(&s, &target);
  }

  const bool several_scans = coefficient_bytes > 0;
  // A truncated progressive image decodes without a warning and is only
  // blurred.
  if (!ok || (several_scans && s.source.ended)) {
    if (used_fast_entropy_ && entropy_.truncated()) s.source.ended = true;
    if (ok) std::strcpy(s.error.message, "its last scans are missing");
    absl::Status status = s.Error();
    s.Destroy();
    return status;
  }
  s.Destroy();
  return DecodedImage{target.rows + (region.left - crop.left) * region.channels,
                      target.stride};
}

}  // namespace millrace::decode
