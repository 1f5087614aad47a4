#include "server/storage/imagefolder/image_names.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace millrace::storage {
namespace {

bool EndsWithAny(absl::string_view name,
                 std::initializer_list<absl::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [name](absl::string_view suffix) {
                       return absl::EndsWithIgnoreCase(name, suffix);
                     });
}

}  // namespace

bool HasImageName(absl::string_view name) {
  return EndsWithAny(name, {".jpg", ".jpeg", ".png", ".webp"});
}

bool HasForeignImageName(absl::string_view name) {
  return EndsWithAny(
      name, {".bmp", ".gif", ".tif", ".tiff", ".jfif", ".jpe", ".jp2", ".jxl",
             ".heic", ".heif", ".avif", ".ppm", ".pgm"});
}

bool HasTableName(absl::string_view name) {
  if (EndsWithAny(name, {".csv", ".csv.gz", ".tsv", ".tsv.gz", ".json",
                         ".jsonl", ".parquet", ".feather", ".xls", ".xlsx",
                         ".xml", ".yaml", ".yml"})) {
    return true;
  }
  const std::string lower = absl::AsciiStrToLower(name);
  const absl::string_view file =
      absl::string_view(lower).substr(lower.rfind('/') + 1);
  return absl::EndsWith(file, ".txt") && !absl::StartsWith(file, "readme") &&
         !absl::StartsWith(file, "licen") &&
         !absl::StartsWith(file, "citation");
}

absl::string_view WhyNoImage(absl::string_view start) {
  if (start.empty()) return "is empty";
  if (absl::StartsWith(start, "\xFF\xD8\xFF") ||
      absl::StartsWith(start, "\x89PNG\r\n\x1A\n") ||
      (absl::StartsWith(start, "RIFF") && start.size() >= 12 &&
       start.substr(8, 4) == "WEBP")) {
    return "";
  }
  return "is not a JPEG, PNG or WebP image, although its name says so";
}

}  // namespace millrace::storage
