// Fields of a dataset and their values as people read them, and as JSON.
//
// The functions are pure. FieldPrinter belongs to
// one thread at a time.
//
//   FieldTypeText(field)  ->  "tensor float32 [3, 4]"
//   FieldPrinter printer(nullptr);
//   printer.Text(field, bytes)  ->  "8 bytes, 3 (cat)"

#ifndef MILLRACE_SERVER_DATA_TOOL_FIELD_TEXT_H_
#define MILLRACE_SERVER_DATA_TOOL_FIELD_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/json_text.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/decode/image_decoder.h"
#include "server/operators/operators.h"

namespace millrace::data_tool {

// "encoded_image", "tensor", "ragged".
absl::string_view KindName(FieldKind kind);

// The field with the class index; null: there is none, or its number of classes
// is not known.
const Field* ClassField(const DatasetInfo& info);

// Kind, and as far as the kind has them element type and shape.
std::string FieldTypeText(const Field& field);

// A tensor without dimensions: "3 (cat)", with the name of the class if it is
// known. `bytes` fit the field.
std::string ScalarText(const Field& field, absl::Span<const uint8_t> bytes);

class FieldPrinter {
 public:
  // Images that a decoder of `operators` knows are read by it; null: none, else
  // they outlive the printer.
  explicit FieldPrinter(const operators::Operators* operators)
      : operators_(operators) {}

  // One line: the size, then of an image format, width and height (from its
  // header); of a tensor or ragged field its first elements; of a class index
  // the name of the class; of ragged uint8 that is text its beginning in
  // quotes. `bytes` fit the field (server/storage/sample_check.h).
  std::string Text(const Field& field, absl::Span<const uint8_t> bytes);

  // The same as an object: name, kind, bytes, and dtype, shape, value or
  // values, elements, class_name, text, format, width, height, error as far as
  // the field has them.
  JsonObject Json(const Field& field, absl::Span<const uint8_t> bytes);

 private:
  struct Image {
    std::string format;  // "JPEG"
    std::string error;   // empty: width and height are known
    int64_t width = 0;
    int64_t height = 0;
  };
  Image ReadImage(absl::Span<const uint8_t> bytes);

  const operators::Operators* const operators_;
  decode::ImageDecoder decoder_;
};

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_FIELD_TEXT_H_
