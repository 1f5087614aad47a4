#include "server/decode/png_decoder.h"

#include <png.h>

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/decode/limits.h"
#include "server/decode/memory_limit.h"
#include "server/decode/memory_text.h"
#include "server/decode/pixel_rows.h"
#include "server/decode/png_orientation.h"

namespace millrace::decode {
namespace {

// Max memory of libpng for one image: its structs, zlib's window and state
// (about 60 KB together), and a few rows of at most 8 bytes a pixel. Chunks
// other than the pixels get no memory.
constexpr int64_t kFixedBytes = 256 << 10;
constexpr int64_t kRowBytesPerColumn = 8 * 4;
// The maximum of every server's transforms (augment::kMaxImageSide), and that
// of the JPEG format.
constexpr int64_t kMaxSide = 65535;

struct Source {
  const uint8_t* next;
  size_t left;
};

struct Failure {
  jmp_buf jump;
  char message[160];
};

void ReadBytes(png_structp png, png_bytep to, size_t n) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (n > source->left) png_error(png, "the data ends early");
  std::memcpy(to, source->next, n);
  source->next += n;
  source->left -= n;
}

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* failure = static_cast<Failure*>(png_get_error_ptr(png));
  std::snprintf(failure->message, sizeof(failure->message), "%s", message);
  std::longjmp(failure->jump, 1);
}

// All warnings concern chunks other than the pixels.
void OnWarning(png_structp, png_const_charp) {}

// Memory for libpng. Each block starts with its size.
constexpr size_t kBlockHeader = alignof(std::max_align_t);
static_assert(kBlockHeader >= sizeof(size_t));

png_voidp Allocate(png_structp png, png_alloc_size_t bytes) {
  auto* limit = static_cast<MemoryLimit*>(png_get_mem_ptr(png));
  if (bytes > SIZE_MAX - kBlockHeader || !limit->Take(bytes + kBlockHeader)) {
    return nullptr;
  }
  auto* block = static_cast<uint8_t*>(std::malloc(bytes + kBlockHeader));
  if (block == nullptr) {
    limit->Give(bytes + kBlockHeader);
    return nullptr;
  }
  const size_t size = bytes + kBlockHeader;
  std::memcpy(block, &size, sizeof(size));
  return block + kBlockHeader;
}

void Free(png_structp png, png_voidp memory) {
  if (memory == nullptr) return;
  uint8_t* const block = static_cast<uint8_t*>(memory) - kBlockHeader;
  size_t size;
  std::memcpy(&size, block, sizeof(size));
  static_cast<MemoryLimit*>(png_get_mem_ptr(png))->Give(size);
  std::free(block);
}

}  // namespace

struct PngDecoder::State {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Source source{};
  Failure failure{};
  MemoryLimit memory;
  int channels = 0;  // of libpng's output

  // Functions that libpng's errors jump out of. They have nothing to destroy.
  // False: `failure.message` has the reason.
  static bool OpenOrJump(State* s) {
    if (setjmp(s->failure.jump) != 0) return false;
    png_set_read_fn(s->png, &s->source, ReadBytes);
    // No limit of libpng: Open() names the size and the maximum.
    png_set_user_limits(s->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // All chunks except IHDR, PLTE, tRNS, IDAT and IEND are skipped: they
    // contain no samples, there may be any number of them, and they may inflate
    // to a thousand times their size or claim any length.
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_chunk_malloc_max(s->png, kFixedBytes);
    png_set_chunk_cache_max(s->png, 64);
    png_read_info(s->png, s->info);
    return true;
  }

  static bool StartOrJump(State* s, bool index) {
    if (setjmp(s->failure.jump) != 0) return false;
    png_structp png = s->png;
    const int type = png_get_color_type(png, s->info);
    if (index) {
      png_set_packing(png);
    } else {
      if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
      if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
      png_set_strip_16(png);
      png_set_strip_alpha(png);
    }
    if (s->IsInterlaced()) png_set_interlace_handling(png);
    png_read_update_info(png, s->info);
    s->channels = png_get_channels(png, s->info);
    return true;
  }

  // Reads `rows` rows to `to`, `stride` bytes apart (0: each row overwrites the
  // last).
  static bool ReadRowsOrJump(State* s, uint8_t* to, ptrdiff_t stride,
                             int64_t rows, int passes) {
    if (setjmp(s->failure.jump) != 0) return false;
    for (int pass = 0; pass < passes; ++pass) {
      for (int64_t i = 0; i < rows; ++i) {
        png_read_row(s->png, to + i * stride, nullptr);
      }
    }
    return true;
  }

  void Destroy() {
    if (png != nullptr) png_destroy_read_struct(&png, &info, nullptr);
    png = nullptr;
    info = nullptr;
  }

  // Whether the samples are one-byte class numbers.
  absl::Status CheckIndex() const {
    const int type = png_get_color_type(png, info);
    const int depth = png_get_bit_depth(png, info);
    if (type == PNG_COLOR_TYPE_PALETTE ||
        (type == PNG_COLOR_TYPE_GRAY && depth <= 8)) {
      return absl::OkStatus();
    }
    const char* const kind = type == PNG_COLOR_TYPE_GRAY ? "grey"
                             : type == PNG_COLOR_TYPE_GRAY_ALPHA
                                 ? "grey and alpha"
                             : type == PNG_COLOR_TYPE_RGB ? "RGB"
                                                          : "RGB and alpha";
    return absl::DataLossError(absl::StrCat(
        "the PNG stores ", kind, " of ", depth,
        " bits; color: INDEX reads the class numbers of a palette PNG, or of a "
        "grey PNG of up to 8 bits: convert the image"));
  }

  bool IsInterlaced() const {
    return png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
  }

  // All pixels of an interlaced image, and a few rows of any.
  int64_t WholeBytes() const {
    const int64_t width = png_get_image_width(png, info);
    const int64_t height = png_get_image_height(png, info);
    return width * kRowBytesPerColumn +
           (IsInterlaced() ? width * height * 3 : 0);
  }

  absl::Status Error() const {
    if (memory.exceeded()) {
      return absl::DataLossError(
          "the PNG needs more memory than an image of its size should; it is "
          "damaged or malicious");
    }
    return absl::DataLossError(
        absl::StrCat("the PNG is truncated or damaged: ", failure.message));
  }
};

PngDecoder::PngDecoder() : state_(std::make_unique<State>()) {}

PngDecoder::~PngDecoder() { state_->Destroy(); }

void PngDecoder::ReleaseAbove(size_t bytes) {
  pixels_.ReleaseAbove(bytes);
  whole_.ReleaseAbove(bytes);
}

absl::StatusOr<ImageHeader> PngDecoder::Open(absl::Span<const uint8_t> bytes,
                                             bool read_orientation) {
  State& s = *state_;
  s.Destroy();
  s.source = {bytes.data(), bytes.size()};
  s.memory.Start(kFixedBytes);
  s.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s.failure, OnError,
                                   OnWarning, &s.memory, Allocate, Free);
  if (s.png != nullptr) s.info = png_create_info_struct(s.png);
  if (s.info == nullptr) {
    s.Destroy();
    return absl::ResourceExhaustedError("no memory for a PNG decoder");
  }
  if (!State::OpenOrJump(&s)) {
    absl::Status status = s.Error();
    s.Destroy();
    return status;
  }
  ImageHeader header;
  header.width = png_get_image_width(s.png, s.info);
  header.height = png_get_image_height(s.png, s.info);
  if (header.width > kMaxSide || header.height > kMaxSide) {
    return absl::DataLossError(
        absl::StrCat("the PNG claims ", header.width, " x ", header.height,
                     " pixels; each side must have 1 to ", kMaxSide));
  }
  if (header.width * header.height > kMaxImagePixels) {
    return absl::DataLossError(
        absl::StrCat("the PNG claims ", header.width, " x ", header.height,
                     " pixels; the maximum is ", kMaxImagePixels));
  }
  s.memory.Allow(kFixedBytes + header.width * kRowBytesPerColumn);
  header.whole_bytes = s.WholeBytes();
  if (read_orientation) header.orientation = PngOrientation(bytes);
  return header;
}

int64_t PngDecoder::BytesFor(const DecodeRegion& region) const {
  return region.width * region.channels * region.height + state_->WholeBytes();
}

absl::StatusOr<DecodedImage> PngDecoder::Decode(const DecodeRegion& region) {
  State& s = *state_;
  const int64_t width = png_get_image_width(s.png, s.info);
  const int64_t height = png_get_image_height(s.png, s.info);
  const int64_t stride = region.width * region.channels;
  if (region.index) {
    if (absl::Status status = s.CheckIndex(); !status.ok()) {
      s.Destroy();
      return status;
    }
  }
  // Checked before libpng allocates its rows.
  const bool interlaced = s.IsInterlaced();
  const int64_t needed = BytesFor(region);
  if (needed > kMaxDecodedBytes) {
    return absl::DataLossError(absl::StrCat(
        "decoding the PNG of ", width, " x ", height, " pixels",
        interlaced ? " (interlaced)" : "", " needs ", AboveMaximum(needed)));
  }
  if (!State::StartOrJump(&s, region.index)) {
    absl::Status status = s.Error();
    s.Destroy();
    return status;
  }
  const int64_t row_bytes = width * s.channels;
  uint8_t* const pixels =
      pixels_.Reserve(stride * region.height + kDecodedReadSlack);
  uint8_t* const whole = whole_.Reserve(row_bytes * (interlaced ? height : 1));
  if (pixels == nullptr || whole == nullptr) {
    return NoMemoryForPixels(needed);
  }
  bool ok = true;
  if (interlaced) {
    constexpr int kAdam7Passes = 7;
    ok = State::ReadRowsOrJump(&s, whole, row_bytes, height, kAdam7Passes);
  } else if (region.top > 0) {
    ok = State::ReadRowsOrJump(&s, whole, 0, region.top, 1);
  }
  for (int64_t y = 0; ok && y < region.height; ++y) {
    const uint8_t* row = whole;
    if (interlaced) {
      row += (region.top + y) * row_bytes;
    } else {
      ok = State::ReadRowsOrJump(&s, whole, 0, 1, 1);
      if (!ok) break;
    }
    row += region.left * s.channels;
    uint8_t* const to = pixels + y * stride;
    if (s.channels == region.channels) {
      std::memcpy(to, row, stride);
    } else if (s.channels == 1) {
      GrayRowToRgb(row, region.width, to);
    } else {
      RgbRowToGray(row, region.width, to);
    }
  }
  absl::Status status = ok ? absl::OkStatus() : s.Error();
  s.Destroy();
  if (!status.ok()) return status;
  return DecodedImage{pixels, stride};
}

}  // namespace millrace::decode
