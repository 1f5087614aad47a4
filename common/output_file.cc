#include "common/output_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/write_target.h"

namespace millrace {
namespace {

constexpr size_t kEndBytes = 4096;
// More than any line of --step_losses has.
constexpr size_t kMaxLossLine = 100;
// Bytes of a ZIP archive's first entry before its name.
constexpr size_t kZipNameAt = 30;
// "{}", and the limit of the safetensors library.
constexpr uint64_t kMinSafetensorsHeader = 2;
constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;
constexpr char kMaxPickleProtocol = 5;
constexpr char kZip[] = "PK\x03\x04";
constexpr char kPng[] = "\x89PNG\r\n\x1a\n";

// The bytes `magic` at `offset`.
bool Has(absl::string_view start, size_t offset, absl::string_view magic) {
  return start.size() >= offset &&
         absl::StartsWith(start.substr(offset), magic);
}

// The first bytes of a file, and the last ones. They overlap in a small file.
struct Ends {
  std::string start;
  std::string end;
};

// An object, a list of objects or an empty list. Many other languages have
// brackets at the start of a file: [section], { echo hi; }, [1, 2].
bool IsJson(const Ends& file) {
  absl::string_view start = absl::StripLeadingAsciiWhitespace(file.start);
  const absl::string_view end = absl::StripTrailingAsciiWhitespace(file.end);
  if (start.empty() || end.empty()) return false;
  const bool object = start[0] == '{';
  if (!object && start[0] != '[') return false;
  if (end.back() != (object ? '}' : ']')) return false;
  start = absl::StripLeadingAsciiWhitespace(start.substr(1));
  return absl::StartsWith(start, object ? "\"" : "{") ||
         absl::StartsWith(start, object ? "}" : "]");
}

// The length of the header, and its first byte.
bool IsSafetensors(absl::string_view start) {
  if (!Has(start, sizeof(uint64_t), "{")) return false;
  uint64_t length = 0;
  for (size_t i = sizeof(uint64_t); i-- > 0;) {
    length = length << 8 | static_cast<uint8_t>(start[i]);
  }
  return length >= kMinSafetensorsHeader && length <= kMaxSafetensorsHeader;
}

// The first instruction names the protocol.
bool IsPickle(absl::string_view start) {
  return start.size() > 1 && start[0] == '\x80' && start[1] >= 2 &&
         start[1] <= kMaxPickleProtocol;
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

bool IsPort(absl::string_view text) {
  constexpr size_t kMaxBytes = 6;  // "65535" and a newline
  return text.size() <= kMaxBytes &&
         absl::StripSuffix(text, "\n").find_first_not_of("0123456789") ==
             absl::string_view::npos;
}

bool Is(OutputKind kind, const Ends& file) {
  const absl::string_view start = file.start;
  switch (kind) {
    case OutputKind::kJson:
      return IsJson(file);
    case OutputKind::kStepLosses:
      return IsStepLosses(start);
    case OutputKind::kCheckpoint:
      // The tensors come first, unlike in a file of torch.save.
      return absl::StartsWith(FirstEntry(start), "archive/data/");
    case OutputKind::kTorchWeights:
      return absl::EndsWith(FirstEntry(start), "/data.pkl") || IsPickle(start);
    case OutputKind::kSafetensors:
      return IsSafetensors(start);
    case OutputKind::kPng:
      return Has(start, 0, kPng);
    case OutputKind::kSvg:
      return Has(start, 0, "<") && absl::StrContains(start, "<svg");
    case OutputKind::kPort:
      return IsPort(start);
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
    case OutputKind::kPort:
      return "a port file";
  }
  return "";
}

// Empty: unknown.
absl::string_view Appearance(const Ends& file) {
  const absl::string_view start = file.start;
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
    if (Is(kind, file)) return NameOf(kind);
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
  Ends file;
  MR_ASSIGN_OR_RETURN(file.start, ReadRegularFileStart(path, kEndBytes));
  MR_ASSIGN_OR_RETURN(file.end, ReadRegularFileEnd(path, kEndBytes));
  if (file.start.empty() || Is(kind, file)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, "=", path, ": the file exists and is not ", NameOf(kind),
      " but appears to be ", Appearance(file),
      ", so it is not replaced; name another file, or remove this one first"));
}

}  // namespace millrace
