#include "server/storage/chunks/bytes_note.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/clean_text.h"
#include "common/first_of.h"
#include "proto/dataset.pb.h"

namespace millrace::storage {
namespace {

constexpr size_t kMaxQuotedBytes = 80;

// Why the values of an encoding stay bytes.
absl::string_view Reason(absl::string_view encoding) {
  if (encoding == "pkl" || encoding == "pickle") return "never unpickled";
  if (absl::StartsWith(encoding, "pil")) {
    return "a mode of PIL other than L, LA, RGB, RGBA, YCbCr, HSV, CMYK, I, F "
           "and I;16";
  }
  if (absl::StartsWith(encoding, "ndarray") || encoding == "numpy" ||
      encoding == "tensor" || absl::StartsWith(encoding, "no_header")) {
    return "a type or a shape that no field has";
  }
  return "an encoding that the server does not interpret";
}

}  // namespace

std::vector<std::string> BytesNotes(const std::vector<StoredColumn>& columns,
                                    const FormatOptions& options,
                                    const ColumnRule& rule) {
  std::vector<std::string> chosen;
  if (const auto ragged = options.find("ragged"); ragged != options.end()) {
    chosen = absl::StrSplit(ragged->second, ',');
  }
  std::vector<std::string> found;
  for (const StoredColumn& column : columns) {
    if (column.plain || absl::c_linear_search(chosen, column.name)) continue;
    for (const ChunkColumn& stored : rule.columns()) {
      if (stored.name != column.name) continue;
      const Field& field = rule.schema().fields(stored.field);
      if (field.kind() != FIELD_KIND_RAGGED ||
          stored.stored != StoredType::kBytes) {
        continue;
      }
      found.push_back(absl::StrCat("'", CleanText(column.name, kMaxQuotedBytes),
                                   "' (",
                                   CleanText(column.encoding, kMaxQuotedBytes),
                                   ": ", Reason(column.encoding), ")"));
    }
  }
  if (found.empty()) return {};
  const auto count = static_cast<int64_t>(found.size());
  return {absl::StrCat("the fields of ",
                       count == 1 ? "this column" : "these columns",
                       " are the stored bytes: ", FirstOf(found, ", ", count))};
}

}  // namespace millrace::storage
