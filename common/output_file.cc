#include "common/output_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/write_target.h"

namespace millrace {
namespace {

constexpr size_t kStartBytes = 4096;
// More than any line of --step_losses has.
constexpr size_t kMaxLossLine = 100;
// Bytes of a ZIP archive's first entry before its name.
constexpr size_t kZipNameAt = 30;
constexpr char kZip[] = "PK\x03\x04";
constexpr char kPng[] = "\x89PNG\r\n\x1a\n";

// The bytes `magic` at `offset`.
bool Has(absl::string_view start, size_t offset, absl::string_view magic) {
  return start.size() >= offset &&
         absl::StartsWith(start.substr(offset), magic);
}

bool IsJson(absl::string_view start) {
  start = absl::StripLeadingAsciiWhitespace(start);
  return absl::StartsWith(start, "{") || absl::StartsWith(start, "[");
}

// The name of the first entry of a ZIP archive; empty: no archive.
absl::string_view FirstEntry(absl::string_view start) {
  if (!Has(start, 0, kZip) || start.size() < kZipNameAt) return "";
  const size_t length = static_cast<uint8_t>(start[26]) |
                        size_t{static_cast<uint8_t>(start[27])} << 8;
  return start.substr(kZipNameAt, length);
}

// Whole lines, and a last one that may be cut off.
bool IsStepLosses(absl::string_view start) {
  while (true) {
    const size_t newline = start.find('\n');
    if (newline == absl::string_view::npos) {
      return start.size() <= kMaxLossLine &&
             start.find_first_not_of("0123456789 .+-einfa") ==
                 absl::string_view::npos;
    }
    const std::vector<absl::string_view> words =
        absl::StrSplit(start.substr(0, newline), ' ');
    uint64_t number = 0;
    double loss = 0;
    if (words.size() != 3 || !absl::SimpleAtoi(words[0], &number) ||
        !absl::SimpleAtoi(words[1], &number) ||
        !absl::SimpleAtod(words[2], &loss)) {
      return false;
    }
    start.remove_prefix(newline + 1);
  }
}

bool Is(OutputKind kind, absl::string_view start) {
  switch (kind) {
    case OutputKind::kJson:
      return IsJson(start);
    case OutputKind::kStepLosses:
      return IsStepLosses(start);
    case OutputKind::kCheckpoint:
      // The tensors come first, unlike in a file of torch.save.
      return absl::StartsWith(FirstEntry(start), "archive/data/");
    case OutputKind::kTorchWeights:
      return absl::EndsWith(FirstEntry(start), "/data.pkl") ||
             Has(start, 0, "\x80");
    case OutputKind::kSafetensors:
      return Has(start, 8, "{");
    case OutputKind::kPng:
      return Has(start, 0, kPng);
    case OutputKind::kSvg:
      return Has(start, 0, "<") &&
             (absl::StrContains(start, "<svg") || Has(start, 0, "<?xml"));
  }
  return false;
}

absl::string_view NameOf(OutputKind kind) {
  switch (kind) {
    case OutputKind::kJson:
      return "a JSON file";
    case OutputKind::kStepLosses:
      return "a file of \"EPOCH STEP LOSS\" lines";
    case OutputKind::kCheckpoint:
      return "a checkpoint";
    case OutputKind::kTorchWeights:
      return "a weights file of torch.save";
    case OutputKind::kSafetensors:
      return "a safetensors file";
    case OutputKind::kPng:
      return "a PNG picture";
    case OutputKind::kSvg:
      return "an SVG picture";
  }
  return "";
}

// Empty: unknown.
absl::string_view Appearance(absl::string_view start) {
  // The first page of the database holds the number after its head.
  if (Has(start, 16, "\xde\xc0\xef\xbe")) return "an LMDB database";
  if (Has(start, 0, "PAR1")) return "a Parquet file";
  if (Has(start, 0, "MRAUDIT1")) return "an audit log";
  if (Has(start, 0, "\xff\xd8\xff")) return "a JPEG picture";
  if (Has(start, 0, "\x93NUMPY")) return "a NumPy array";
  if (Has(start, 257, "ustar")) return "a tar archive";
  if (Has(start, 0, "\x1f\x8b")) return "a gzip file";
  for (const OutputKind kind :
       {OutputKind::kCheckpoint, OutputKind::kTorchWeights,
        OutputKind::kSafetensors, OutputKind::kPng, OutputKind::kJson,
        OutputKind::kSvg}) {
    if (Is(kind, start)) return NameOf(kind);
  }
  if (Has(start, 0, kZip)) return "a ZIP archive";
  const bool text = std::none_of(start.begin(), start.end(), [](char c) {
    return absl::ascii_iscntrl(c) && !absl::ascii_isspace(c);
  });
  return text ? "a text file" : "a binary file";
}

}  // namespace

absl::Status CheckOutputFile(absl::string_view flag, const std::string& path,
                             OutputKind kind) {
  struct stat info = {};
  if (path.empty() || IsSpecialFile(path) || stat(path.c_str(), &info) != 0 ||
      !S_ISREG(info.st_mode)) {
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const std::string start,
                      ReadRegularFileStart(path, kStartBytes));
  if (start.empty() || Is(kind, start)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, "=", path, ": the file exists and is not ", NameOf(kind),
      " but appears to be ", Appearance(start),
      ", so it is not replaced; name another file, or remove this one first"));
}

}  // namespace millrace
