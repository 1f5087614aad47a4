// BoxColumn turns the cells of a table into the boxes of each row: left, top,
// right, bottom in pixels, as float32.
//
//   four columns        one box a row
//   one column          "10 20 30 40", "[10, 20, 30, 40]", or a list of such
//                       lists: "[[10, 20, 30, 40], [1, 2, 3, 4]]"; an empty
//                       cell or "[]": no box
//
// When all rows have the same number K of boxes, the field is a TENSOR of shape
// [K, 4], which pipelines take as boxes; otherwise it is RAGGED.
//
// Not thread-safe.
//
//   BoxColumn boxes;
//   for (...) MR_RETURN_IF_ERROR(boxes.Add(cell));
//   const BoxValues values = std::move(boxes).Finish();

#ifndef MILLRACE_SERVER_STORAGE_CSV_BOX_COLUMN_H_
#define MILLRACE_SERVER_STORAGE_CSV_BOX_COLUMN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

struct BoxValues {
  Field field;
  std::string bytes;           // of all rows, one value behind another
  std::vector<uint64_t> ends;  // RAGGED: of the values, in `bytes`
};

class BoxColumn {
 public:
  // The cell of the next row. DataLoss: it is no list of boxes; a part of a
  // sentence ("has boxes that ..."). The column must not be used then.
  absl::Status Add(absl::string_view cell);

  // The same for one number in each of four cells.
  absl::Status AddCorners(absl::Span<const absl::string_view> cells);

  // The values of all rows, at least one. The column is used up.
  BoxValues Finish() &&;

 private:
  absl::Status AddNumber(absl::string_view text, absl::string_view cell);
  void EndRow();

  std::string bytes_;
  std::vector<uint64_t> ends_;
  bool same_ = true;  // as many boxes in each row as in the first
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CSV_BOX_COLUMN_H_
