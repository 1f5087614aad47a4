#include "common/byte_size.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace {
namespace {

struct Unit {
  absl::string_view name;
  double bytes;
};

constexpr double kKi = 1024;
constexpr Unit kUnits[] = {
    {"", 1},
    {"b", 1},
    {"kib", kKi},
    {"k", kKi},
    {"mib", kKi* kKi},
    {"m", kKi* kKi},
    {"gib", kKi* kKi* kKi},
    {"g", kKi* kKi* kKi},
    {"tib", kKi* kKi* kKi* kKi},
    {"t", kKi* kKi* kKi* kKi},
    {"kb", 1e3},
    {"mb", 1e6},
    {"gb", 1e9},
    {"tb", 1e12},
};

}  // namespace

absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text) {
  const auto bad = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        "`", text, "` is not a size; write for example 512MiB or 2GiB"));
  };
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  size_t digits = 0;
  while (digits < trimmed.size() &&
         (absl::ascii_isdigit(trimmed[digits]) || trimmed[digits] == '.')) {
    ++digits;
  }
  const absl::string_view unit =
      absl::StripAsciiWhitespace(trimmed.substr(digits));
  double number = 0;
  if (digits == 0 || !absl::SimpleAtod(trimmed.substr(0, digits), &number)) {
    return bad();
  }
  for (const Unit& known : kUnits) {
    if (!absl::EqualsIgnoreCase(unit, known.name)) continue;
    // A whole number of bytes is read as one: a double has only 53 bits.
    uint64_t bytes = 0;
    if (known.bytes == 1 &&
        absl::SimpleAtoi(trimmed.substr(0, digits), &bytes)) {
      return bytes > INT64_MAX ? absl::StatusOr<uint64_t>(bad()) : bytes;
    }
    const double value = std::floor(number * known.bytes);
    if (!(value < 9223372036854775808.0)) return bad();
    return static_cast<uint64_t>(value);
  }
  return bad();
}

std::string FormatByteSize(uint64_t bytes) {
  static constexpr absl::string_view kNames[] = {"B",   "KiB", "MiB", "GiB",
                                                 "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < std::size(kNames)) {
    value /= 1024;
    ++unit;
  }
  std::string number = value >= 100 ? absl::StrFormat("%.0f", value)
                                    : absl::StrFormat("%.1f", value);
  if (absl::EndsWith(number, ".0")) number.resize(number.size() - 2);
  return absl::StrCat(number, " ", kNames[unit]);
}

std::string FormatExactByteSize(uint64_t bytes) {
  const std::string text = FormatByteSize(bytes);
  const absl::StatusOr<uint64_t> shown = ParseByteSize(text);
  if (shown.ok() && *shown == bytes) return text;
  return absl::StrCat(text, " (", bytes, " bytes)");
}

}  // namespace millrace
