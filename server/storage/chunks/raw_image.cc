#include "server/storage/chunks/raw_image.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/storage/little_endian.h"

namespace millrace::storage {
namespace {

struct Mode {
  absl::string_view name;
  StoredType stored;
  int64_t channels;
};

// Modes of PIL. Palettes ("P") are not stored, and "1" has 8 pixels a byte.
constexpr std::array<Mode, 11> kModes = {{
    {"L", StoredType::kUint8, 1},
    {"LA", StoredType::kUint8, 2},
    {"La", StoredType::kUint8, 2},
    {"RGB", StoredType::kUint8, 3},
    {"YCbCr", StoredType::kUint8, 3},
    {"HSV", StoredType::kUint8, 3},
    {"RGBA", StoredType::kUint8, 4},
    {"CMYK", StoredType::kUint8, 4},
    {"I", StoredType::kInt32, 1},
    {"F", StoredType::kFloat32, 1},
    {"I;16", StoredType::kUint16, 1},
}};

constexpr size_t kNumbers = 3 * sizeof(uint32_t);

}  // namespace

absl::StatusOr<std::optional<ArrayHeader>> ParseRawImage(
    absl::Span<const uint8_t> value) {
  const auto damaged = [](const auto&... what) {
    return absl::DataLossError(absl::StrCat("the raw image ", what...));
  };
  if (value.size() < kNumbers) {
    return damaged("has ", value.size(), " bytes, and its header has ",
                   kNumbers);
  }
  const int64_t width = LoadU32(value.data());
  const int64_t height = LoadU32(value.data() + 4);
  const uint64_t mode_bytes = LoadU32(value.data() + 8);
  if (mode_bytes > value.size() - kNumbers) {
    return damaged("has a mode of ", mode_bytes, " bytes, and ", value.size(),
                   " bytes in all");
  }
  const absl::string_view name(
      reinterpret_cast<const char*>(value.data()) + kNumbers, mode_bytes);
  for (const Mode& mode : kModes) {
    if (mode.name != name) continue;
    ArrayHeader header;
    header.bytes = kNumbers + mode_bytes;
    header.stored = mode.stored;
    header.shape = {height, width};
    if (mode.channels > 1) header.shape.push_back(mode.channels);
    return header;
  }
  return std::nullopt;
}

}  // namespace millrace::storage
