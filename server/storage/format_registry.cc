#include "server/storage/format_registry.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/storage/arrow/arrow_format.h"
#include "server/storage/lmdb/lmdb_format.h"
#include "server/storage/parquet/parquet_format.h"
#include "server/storage/schemes.h"

namespace millrace::storage {

absl::StatusOr<const ShardFormat*> FindFormat(absl::string_view scheme) {
  if (scheme == "lmdb") return &LmdbFormat();
  if (scheme == "parquet") {
    if (const ShardFormat* parquet = ParquetFormat()) return parquet;
    return absl::UnimplementedError(
        "this program was built without Parquet (--define=parquet=off); use a "
        "build with it, or pack the data as lmdb:PATH");
  }
  if (scheme == "arrow") {
    if (const ShardFormat* arrow = ArrowFormat()) return arrow;
    return absl::UnimplementedError(
        "this program was built without Arrow (--define=parquet=off); use a "
        "build with it, or pack the data as lmdb:PATH");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown storage format '", scheme, "'; write ", SchemesText("PATH"),
      ", or load the library of a source of that name with "
      "--operators=FILE.so"));
}

absl::string_view SchemeOfStart(absl::string_view start) {
  // Encrypted files begin with "PARE".
  if (absl::StartsWith(start, "PAR1") || absl::StartsWith(start, "PARE")) {
    return "parquet";
  }
  if (absl::StartsWith(start, "ARROW1") || absl::StartsWith(start, "FEA1")) {
    return "arrow";
  }
  if (absl::ClippedSubstr(start, 257, 5) == "ustar") return "tar";
  // The magic number of a meta page comes after the page header.
  return absl::ClippedSubstr(start, 16, 4) == "\xDE\xC0\xEF\xBE" ? "lmdb" : "";
}

absl::StatusOr<DatasetUri> ParseDatasetUri(absl::string_view uri) {
  const size_t colon = uri.find(':');
  if (colon == uri.npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", uri, "' does not say its format; write ", SchemesText(uri)));
  }
  return DatasetUri{.scheme = std::string(uri.substr(0, colon)),
                    .path = std::string(uri.substr(colon + 1))};
}

}  // namespace millrace::storage
