// Which fields the columns of a chunk data set become: names, kinds, the image
// and the label. One rule for all formats of chunk files (docs/formats.md):
//
// - `image` is the column of that name, otherwise the only column of encoded
//   images. Option image=COLUMN, or image= for none.
// - `label`, the class index, is the column of that name if it is an integer,
//   otherwise the only integer named class, cls, y or target, or without a name
//   (in a tuple). Option label=COLUMN, or label= for none.
// - A column named `image` or `label` in whose place the option chose another
//   one keeps its values as `image_column`, `label_column`; with the first
//   number from 2 on behind it where a column has that name.
// - `image` and `label` come first, the other columns by name, as those of tar
//   shards.
// - Arrays are tensors of the shape that the first sample has; arrays without a
//   stored shape are RAGGED. Options ragged=A,B and tensor=A,B.
//
// Pure functions and plain data.

#ifndef MILLRACE_SERVER_STORAGE_CHUNKS_COLUMN_CHOICE_H_
#define MILLRACE_SERVER_STORAGE_CHUNKS_COLUMN_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/chunks/column_rule.h"
#include "server/storage/chunks/stored_type.h"
#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

// What the beginning of an array's value says of the rest.
struct ArrayHeader {
  size_t bytes = 0;  // of the header
  StoredType stored = StoredType::kBytes;
  std::vector<int64_t> shape;
};

// nullopt: an array, but of numbers that no field can have. DataLoss: the value
// is no array; a part of a sentence.
using ParseArrayHeader =
    std::function<absl::StatusOr<std::optional<ArrayHeader>>(
        absl::Span<const uint8_t> value)>;

enum class ColumnKind {
  kBytes,
  kImage,        // an encoded image
  kScalar,       // a number of `stored`
  kArray,        // numbers of `stored` in `shape`
  kPlainArray,   // any number of numbers of `stored`
  kHeaderArray,  // type and shape are in each value
};

struct ColumnDraft {
  std::string name;
  uint64_t bytes = 0;  // as ChunkColumn::bytes
  ColumnKind kind = ColumnKind::kBytes;
  StoredType stored = StoredType::kBytes;
  std::vector<int64_t> shape;
  ParseArrayHeader parse_header;  // kHeaderArray
  // The name is a place in a tuple or list.
  bool unnamed = false;
};

// InvalidArgument: an option that formats of chunk files do not have; names it.
absl::Status CheckChunkOptions(absl::string_view scheme,
                               const FormatOptions& options);

// Whether a file whose name ends so ("jpg", without a dot) is an encoded image
// that the server decodes.
bool IsImageSuffix(absl::string_view suffix);

// A column of bytes; an encoded image if it is named `image`, as in Parquet
// files.
ColumnDraft BytesColumn(std::string name);

// The rule for records with these columns. `first_record`: of the dataset.
// InvalidArgument: an option that does not fit the columns; names both.
// DataLoss: the record has no such columns.
absl::StatusOr<std::unique_ptr<ColumnRule>> ChooseFields(
    std::vector<ColumnDraft> drafts, const FormatOptions& options,
    absl::Span<const uint8_t> first_record);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CHUNKS_COLUMN_CHOICE_H_
