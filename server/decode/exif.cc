#include "server/decode/exif.h"

#include "absl/base/casts.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace millrace::decode {
namespace {

constexpr int kUpright = 1;

int Sane(uint64_t value) {
  return value >= 1 && value <= 8 ? static_cast<int>(value) : kUpright;
}

// Reads numbers of a TIFF block in the block's byte order. Never reads outside
// the block.
class TiffBlock {
 public:
  explicit TiffBlock(absl::Span<const uint8_t> bytes)
      : bytes_(bytes),
        little_(bytes.size() >= 2 && bytes[0] == 'I' && bytes[1] == 'I') {}

  bool has_header() const {
    return bytes_.size() >= 8 &&
           (little_ || (bytes_[0] == 'M' && bytes_[1] == 'M')) &&
           Read(2, 2) == 42;
  }

  // Whether bytes [at, at + size) are inside the block.
  bool Holds(uint64_t at, uint64_t size) const {
    return at <= bytes_.size() && size <= bytes_.size() - at;
  }

  // The unsigned number of `size` bytes (1, 2, 4 or 8), which must be inside
  // the block.
  uint64_t Read(uint64_t at, int size) const {
    uint64_t value = 0;
    for (int i = 0; i < size; ++i) {
      value = value << 8 | bytes_[at + (little_ ? size - 1 - i : i)];
    }
    return value;
  }

 private:
  const absl::Span<const uint8_t> bytes_;
  const bool little_;
};

// Numbers of the types of TIFF 6.0, and of LONG8 of BigTIFF.
enum TiffType : uint32_t {
  kByte = 1,
  kAscii = 2,
  kShort = 3,
  kLong = 4,
  kRational = 5,
  kSignedByte = 6,
  kUndefined = 7,
  kSignedShort = 8,
  kSignedLong = 9,
  kSignedRational = 10,
  kFloat = 11,
  kDouble = 12,
  kDirectory = 13,
  kLong8 = 16,
};

// Bytes of one value; 0: unknown type.
int SizeOf(uint32_t type) {
  switch (type) {
    case kByte:
    case kAscii:
    case kSignedByte:
    case kUndefined:
      return 1;
    case kShort:
    case kSignedShort:
      return 2;
    case kLong:
    case kSignedLong:
    case kFloat:
    case kDirectory:
      return 4;
    case kRational:
    case kSignedRational:
    case kDouble:
    case kLong8:
      return 8;
    default:
      return 0;
  }
}

// Returns a value of 1 to 8, or upright. A fraction counts if it is a whole
// number.
int SaneReal(double value) {
  return value >= 1 && value <= 8 && value == static_cast<int>(value)
             ? static_cast<int>(value)
             : kUpright;
}

// Reads the value of `type` at `at`, which must be inside the block. A negative
// number read as an unsigned one is far above 8.
int OrientationAt(const TiffBlock& tiff, uint32_t type, uint64_t at) {
  switch (type) {
    case kAscii:
    case kUndefined:
      return kUpright;
    case kFloat:
      return SaneReal(
          absl::bit_cast<float>(static_cast<uint32_t>(tiff.Read(at, 4))));
    case kDouble:
      return SaneReal(absl::bit_cast<double>(tiff.Read(at, 8)));
    case kRational:
    case kSignedRational: {
      auto top = static_cast<int64_t>(tiff.Read(at, 4));
      auto bottom = static_cast<int64_t>(tiff.Read(at + 4, 4));
      if (type == kSignedRational) {
        top = static_cast<int32_t>(top);
        bottom = static_cast<int32_t>(bottom);
      }
      if (bottom == 0 || top % bottom != 0) return kUpright;
      return SaneReal(static_cast<double>(top / bottom));
    }
    default:
      return Sane(tiff.Read(at, SizeOf(type)));
  }
}

// Returns 0 if the block has no orientation, or one that Pillow ignores: of
// unknown type, without a value, or outside the block.
int FindInTiff(absl::Span<const uint8_t> bytes) {
  constexpr uint32_t kOrientationTag = 0x0112;
  constexpr uint64_t kInlineBytes = 4;
  const TiffBlock tiff(bytes);
  if (!tiff.has_header()) return 0;
  const uint64_t directory = tiff.Read(4, 4);
  if (!tiff.Holds(directory, 2)) return 0;
  const uint64_t entries = tiff.Read(directory, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + uint64_t{12} * i;
    if (!tiff.Holds(entry, 12)) return 0;
    if (tiff.Read(entry, 2) != kOrientationTag) continue;
    const auto type = static_cast<uint32_t>(tiff.Read(entry + 2, 2));
    const uint64_t count = tiff.Read(entry + 4, 4);
    const uint64_t size = count * SizeOf(type);
    if (size == 0) continue;
    // A larger value is stored elsewhere in the block.
    const uint64_t at =
        size <= kInlineBytes ? entry + 8 : tiff.Read(entry + 8, 4);
    if (!tiff.Holds(at, size)) continue;
    // With several values the first one counts; with several bytes none counts.
    if (type == kByte && count > 1) return kUpright;
    return OrientationAt(tiff, type, at);
  }
  return 0;
}

}  // namespace

int ImageOrientation(absl::Span<const uint8_t> exif,
                     absl::Span<const uint8_t> xmp) {
  constexpr absl::string_view kPrefix("Exif\0\0", 6);
  constexpr absl::string_view kProperty = "tiff:Orientation";
  absl::string_view block(reinterpret_cast<const char*>(exif.data()),
                          exif.size());
  while (absl::StartsWith(block, kPrefix)) {
    block.remove_prefix(kPrefix.size());
    exif.remove_prefix(kPrefix.size());
  }
  const int found = FindInTiff(exif);
  if (found != 0) return found;
  // Matches an attribute (tiff:Orientation="6") or an element
  // (<tiff:Orientation>6<).
  absl::string_view text(reinterpret_cast<const char*>(xmp.data()), xmp.size());
  for (size_t at = text.find(kProperty); at != absl::string_view::npos;
       at = text.find(kProperty)) {
    text.remove_prefix(at + kProperty.size());
    absl::string_view value = text;
    if (absl::StartsWith(value, "=\"")) {
      value.remove_prefix(2);
    } else if (absl::StartsWith(value, ">")) {
      value.remove_prefix(1);
    } else {
      continue;
    }
    if (!value.empty() && value[0] >= '0' && value[0] <= '9') {
      return Sane(static_cast<uint64_t>(value[0] - '0'));
    }
  }
  return kUpright;
}

}  // namespace millrace::decode
