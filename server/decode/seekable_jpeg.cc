#include "server/decode/seekable_jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// After stdio.h, which they need.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "server/decode/image_format.h"
#include "server/decode/jpeg_error.h"
#include "server/decode/jpeg_memory.h"
#include "server/decode/limits.h"
#include "server/decode/orientation_block.h"
#include "server/decode/seek_index.h"

namespace millrace::decode {
namespace {

constexpr int kExifApp = JPEG_APP0 + 1;
constexpr int kIccApp = JPEG_APP0 + 2;
// Max bytes that a decoder's buffers keep from image to image.
constexpr size_t kKeptBytes = 4 << 20;
constexpr char kIccName[12] = "ICC_PROFILE";  // with its zero

// An image is not rewritten after any warning of libjpeg, even if it decodes,
// except for extra bytes between two markers.
void EmitMessage(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA) {
    JpegErrorExit(info);
  }
}

// Memory that grows as libjpeg writes. It uses malloc, because an error jumps
// past all destructors.
struct Destination {
  jpeg_destination_mgr base;
  uint8_t* data;
  size_t capacity;
};

void GrowOrExit(j_compress_ptr info, size_t used) {
  auto* to = reinterpret_cast<Destination*>(info->dest);
  const size_t capacity = std::max<size_t>(size_t{64} << 10, to->capacity * 2);
  auto* data = static_cast<uint8_t*>(std::realloc(to->data, capacity));
  if (data == nullptr) {
    info->err->msg_code = JERR_OUT_OF_MEMORY;
    info->err->msg_parm.i[0] = 0;
    JpegErrorExit(reinterpret_cast<j_common_ptr>(info));
  }
  to->data = data;
  to->capacity = capacity;
  to->base.next_output_byte = data + used;
  to->base.free_in_buffer = capacity - used;
}

void InitDestination(j_compress_ptr info) {
  auto* to = reinterpret_cast<Destination*>(info->dest);
  to->base.next_output_byte = to->data;
  to->base.free_in_buffer = to->capacity;
  if (to->capacity == 0) GrowOrExit(info, 0);
}

boolean EmptyOutputBuffer(j_compress_ptr info) {
  GrowOrExit(info, reinterpret_cast<Destination*>(info->dest)->capacity);
  return TRUE;
}

void TermDestination(j_compress_ptr) {}

}  // namespace

struct SeekableJpeg::State {
  jpeg_decompress_struct from;
  jpeg_compress_struct to;
  jpeg_decompress_struct check;  // reads what was written
  JpegMemory from_memory;
  JpegMemory check_memory;
  JpegErrors error;  // of all three
  jpeg_progress_mgr scans;
  Destination destination;
  size_t line_bytes = 0;
  uint8_t* lines[2] = {nullptr, nullptr};
  Outcome outcome = Outcome::kNotJpeg;

  State() {
    std::memset(&from, 0, sizeof(from));
    std::memset(&to, 0, sizeof(to));
    std::memset(&check, 0, sizeof(check));
    std::memset(&scans, 0, sizeof(scans));
    std::memset(&destination, 0, sizeof(destination));
    from.err = to.err = check.err = error.Install(EmitMessage);
    scans.progress_monitor = CheckJpegScans;
    destination.base.init_destination = InitDestination;
    destination.base.empty_output_buffer = EmptyOutputBuffer;
    destination.base.term_destination = TermDestination;
  }

  ~State() {
    DestroyAll();
    std::free(destination.data);
    std::free(lines[0]);
    std::free(lines[1]);
  }

  // Harmless for a struct that was never created.
  void DestroyAll() {
    jpeg_destroy_decompress(&from);
    jpeg_destroy_compress(&to);
    jpeg_destroy_decompress(&check);
  }

  // The segments that are kept are copied.
  static int64_t HeaderBytes(size_t size) {
    return kJpegHeaderBytes + static_cast<int64_t>(size);
  }

  static void Create(jpeg_decompress_struct* info, jpeg_progress_mgr* scans,
                     JpegMemory* memory, const uint8_t* data, size_t size) {
    jpeg_create_decompress(info);
    memory->Attach(info, HeaderBytes(size));
    info->progress = scans;
    jpeg_mem_src(info, data, size);
  }

  // Called after the header was read.
  static void AllowImage(const jpeg_decompress_struct& info, size_t size,
                         JpegMemory* memory) {
    const int64_t coefficients = JpegCoefficientBytes(info);
    memory->Allow(HeaderBytes(size) + kJpegHeaderBytes + coefficients +
                  coefficients / 4 + 2 * JpegRowBytes(info));
  }

  // The reason why the image whose header was read must not be rewritten, or
  // kRewritten.
  static Outcome Judge(const jpeg_decompress_struct& info) {
    if (info.num_components == 4) return Outcome::kCmyk;
    if (info.arith_code) return Outcome::kArithmetic;
    if ((info.num_components != 1 && info.num_components != 3) ||
        info.data_precision != 8) {
      return Outcome::kUnusual;
    }
    const int64_t pixels =
        static_cast<int64_t>(info.image_width) * info.image_height;
    if (pixels > std::min(kMaxImagePixels, kMaxDecodedBytes / 3) ||
        JpegCoefficientBytes(info) > kMaxDecodedBytes) {
      return Outcome::kTooLarge;
    }
    return Outcome::kRewritten;
  }

  // Functions that libjpeg's errors jump out of. They have nothing to destroy.
  // False: s->outcome has the reason.

  // Writes the new file to s->destination, without its index.
  static bool RecodeOrJump(State* s, const uint8_t* data, size_t size,
                           int orientation) {
    s->outcome = Outcome::kDamaged;
    if (setjmp(s->error.jump) != 0) {
      if (s->from_memory.exceeded()) s->outcome = Outcome::kTooLarge;
      switch (s->error.base.msg_code) {
        case JERR_BAD_PRECISION:
        case JERR_SOF_UNSUPPORTED:
        case JERR_MISMATCHED_QUANT_TABLE:
        case JERR_BAD_MCU_SIZE:
        case JERR_CCIR601_NOTIMPL:
        case JERR_FRACT_SAMPLE_NOTIMPL:
          s->outcome = Outcome::kUnusual;
      }
      return false;
    }
    jpeg_decompress_struct* from = &s->from;
    Create(from, &s->scans, &s->from_memory, data, size);
    jpeg_save_markers(from, kIccApp, 0xFFFF);
    jpeg_read_header(from, TRUE);
    s->outcome = Judge(*from);
    if (s->outcome != Outcome::kRewritten) return false;
    s->outcome = Outcome::kDamaged;
    AllowImage(*from, size, &s->from_memory);
    jvirt_barray_ptr* coefficients = jpeg_read_coefficients(from);

    jpeg_compress_struct* to = &s->to;
    jpeg_create_compress(to);
    to->dest = &s->destination.base;
    jpeg_copy_critical_parameters(from, to);
    to->optimize_coding = TRUE;
    to->restart_in_rows = 1;
    jpeg_write_coefficients(to, coefficients);
    WriteMarkers(from->marker_list, orientation, to);
    jpeg_finish_compress(to);
    jpeg_finish_decompress(from);
    s->outcome = Outcome::kRewritten;
    return true;
  }

  static void WriteMarkers(jpeg_saved_marker_ptr profiles, int orientation,
                           jpeg_compress_struct* to) {
    if (orientation != 1) {
      const OrientationBlock block(orientation);
      jpeg_write_marker(to, kExifApp, block.bytes, sizeof(block.bytes));
    }
    for (jpeg_saved_marker_ptr m = profiles; m != nullptr; m = m->next) {
      if (m->data_length > sizeof(kIccName) &&
          std::memcmp(m->data, kIccName, sizeof(kIccName)) == 0) {
        jpeg_write_marker(to, m->marker, m->data, m->data_length);
      }
    }
  }

  // Decodes both files with libjpeg's defaults and compares them row by row.
  static bool CompareOrJump(State* s, const uint8_t* data, size_t size,
                            const uint8_t* new_data, size_t new_size) {
    s->outcome = Outcome::kDamaged;
    if (setjmp(s->error.jump) != 0) return false;
    jpeg_decompress_struct* infos[2] = {&s->from, &s->check};
    JpegMemory* memories[2] = {&s->from_memory, &s->check_memory};
    const size_t sizes[2] = {size, new_size};
    Create(infos[0], &s->scans, memories[0], data, size);
    Create(infos[1], &s->scans, memories[1], new_data, new_size);
    for (int i = 0; i < 2; ++i) {
      jpeg_read_header(infos[i], TRUE);
      AllowImage(*infos[i], sizes[i], memories[i]);
      jpeg_start_decompress(infos[i]);
    }
    const jpeg_decompress_struct& a = s->from;
    const jpeg_decompress_struct& b = s->check;
    s->outcome = Outcome::kDifferent;
    if (a.output_width != b.output_width ||
        a.output_height != b.output_height ||
        a.jpeg_color_space != b.jpeg_color_space ||
        a.output_components != b.output_components) {
      return false;
    }
    const size_t line_bytes =
        static_cast<size_t>(a.output_width) * a.output_components;
    if (line_bytes > s->line_bytes) {
      for (uint8_t*& line : s->lines) {
        std::free(line);
        line = static_cast<uint8_t*>(std::malloc(line_bytes));
      }
      s->line_bytes =
          s->lines[0] != nullptr && s->lines[1] != nullptr ? line_bytes : 0;
      if (s->line_bytes == 0) {
        s->outcome = Outcome::kTooLarge;
        return false;
      }
    }
    while (a.output_scanline < a.output_height) {
      for (int i = 0; i < 2; ++i) {
        s->outcome = i == 0 ? Outcome::kDamaged : Outcome::kDifferent;
        jpeg_read_scanlines(infos[i], &s->lines[i], 1);
      }
      if (std::memcmp(s->lines[0], s->lines[1], line_bytes) != 0) {
        s->outcome = Outcome::kDifferent;
        return false;
      }
    }
    s->outcome = Outcome::kRewritten;
    return true;
  }
};

namespace {

// Inserts the index after the JFIF segment, which must be the first.
bool AddIndex(absl::Span<const uint8_t> jpeg, std::string* out) {
  size_t at = 2;
  size_t place = at;
  size_t scan = 0;
  while (at + 4 <= jpeg.size() && jpeg[at] == 0xFF) {
    const uint8_t marker = jpeg[at + 1];
    at += 2 + (size_t{jpeg[at + 2]} << 8 | jpeg[at + 3]);
    if (marker == JPEG_APP0) place = at;
    if (marker == 0xDA) {
      scan = at;
      break;
    }
  }
  if (scan == 0 || scan >= jpeg.size()) return false;
  const std::string index = SeekIndexOf(jpeg.subspan(scan));
  if (index.empty() || index.size() + 2 > 0xFFFF) return false;
  const size_t length = index.size() + 2;
  const auto* chars = reinterpret_cast<const char*>(jpeg.data());
  out->clear();
  out->reserve(jpeg.size() + 2 + length);
  out->append(chars, place);
  out->push_back('\xFF');
  out->push_back(static_cast<char>(JPEG_APP0 + kSeekIndexApp));
  out->push_back(static_cast<char>(length >> 8));
  out->push_back(static_cast<char>(length & 255));
  out->append(index);
  out->append(chars + place, jpeg.size() - place);
  return true;
}

}  // namespace

absl::string_view SeekableJpeg::Reason(Outcome outcome) {
  switch (outcome) {
    case Outcome::kRewritten:
      return "rewritten";
    case Outcome::kNotJpeg:
      return "not a JPEG";
    case Outcome::kCmyk:
      return "CMYK";
    case Outcome::kArithmetic:
      return "arithmetic-coded";
    case Outcome::kUnusual:
      return "of an unusual kind";
    case Outcome::kTooLarge:
      return "too large";
    case Outcome::kDamaged:
      return "damaged";
    case Outcome::kDifferent:
      return "would have changed";
  }
  return "unknown";
}

SeekableJpeg::SeekableJpeg() : state_(std::make_unique<State>()) {}

SeekableJpeg::~SeekableJpeg() = default;

absl::string_view SeekableJpeg::message() const { return message_; }

// The server is stricter than libjpeg with damaged data, and libjpeg replaces
// some damaged data with its own pixels. A rewritten file must hide neither.
bool SeekableJpeg::ServerReadsTheSame(absl::Span<const uint8_t> jpeg,
                                      absl::Span<const uint8_t> rewritten) {
  absl::StatusOr<DecodedImage> images[2] = {DecodedImage{}, DecodedImage{}};
  DecodeRegion all;
  for (int i = 0; i < 2; ++i) {
    auto header = readers_[i].Open(i == 0 ? jpeg : rewritten, false);
    if (header.ok()) {
      all.width = header->width;
      all.height = header->height;
      images[i] = readers_[i].Decode(all);
    } else {
      images[i] = header.status();
    }
    if (!images[i].ok()) {
      message_ = std::string(images[i].status().message());
      return false;
    }
  }
  for (int64_t y = 0; y < all.height; ++y) {
    if (std::memcmp(images[0]->data + y * images[0]->stride,
                    images[1]->data + y * images[1]->stride,
                    all.width * all.channels) != 0) {
      message_ = "other decoders decode its data to other pixels";
      return false;
    }
  }
  return true;
}

SeekableJpeg::Outcome SeekableJpeg::Rewrite(absl::Span<const uint8_t> jpeg,
                                            std::string* out) {
  message_.clear();
  if (DetectImageFormat(jpeg) != ImageFormat::kJpeg) return Outcome::kNotJpeg;
  // The orientation that the server reads, from EXIF or XMP.
  const auto header = readers_[0].Open(jpeg, true);
  const int orientation = header.ok() ? header->orientation : 1;
  State& s = *state_;
  s.error.message[0] = '\0';
  const bool recoded =
      State::RecodeOrJump(&s, jpeg.data(), jpeg.size(), orientation);
  const size_t bytes =
      recoded ? s.destination.capacity - s.destination.base.free_in_buffer : 0;
  s.DestroyAll();
  if (recoded) {
    if (!AddIndex({s.destination.data, bytes}, out)) return Outcome::kUnusual;
    const absl::Span<const uint8_t> rewritten = {
        reinterpret_cast<const uint8_t*>(out->data()), out->size()};
    State::CompareOrJump(&s, jpeg.data(), jpeg.size(), rewritten.data(),
                         rewritten.size());
    s.DestroyAll();
    if (s.outcome == Outcome::kRewritten) {
      const bool same = ServerReadsTheSame(jpeg, rewritten);
      // A packer has one of these objects for each thread.
      for (JpegDecoder& reader : readers_) reader.ReleaseAbove(kKeptBytes);
      if (!same) return Outcome::kDamaged;
    }
  }
  message_ = s.error.message;
  return s.outcome;
}

}  // namespace millrace::decode
