#include "server/data_tool/field_text.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/count_text.h"
#include "common/utf8.h"
#include "proto/dtype.h"
#include "proto/element_at.h"
#include "server/data_tool/report.h"
#include "server/decode/image_format.h"

namespace millrace::data_tool {
namespace {

// Max elements of a field that are shown.
constexpr int64_t kMaxElements = 8;
// Max bytes of a text that are shown.
constexpr size_t kMaxTextBytes = 60;

absl::string_view AsText(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Without control characters other than white space, which bytes of other
// kinds usually have.
bool IsText(absl::string_view text) {
  return !text.empty() && IsUtf8(text) &&
         std::none_of(text.begin(), text.end(), [](char c) {
           const auto byte = static_cast<uint8_t>(c);
           return (byte < ' ' && c != '\n' && c != '\r' && c != '\t') ||
                  byte == 127;
         });
}

// The beginning of UTF-8 text, cut between two characters.
absl::string_view Beginning(absl::string_view text) {
  if (text.size() <= kMaxTextBytes) return text;
  size_t end = kMaxTextBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

// JSON, too.
std::string ElementText(const uint8_t* data, DType dtype, int64_t index) {
  if (dtype == DTYPE_INT64) {
    int64_t value;
    std::memcpy(&value, data + index * sizeof(value), sizeof(value));
    return absl::StrCat(value);
  }
  const double value = ElementAt(data, dtype, index);
  if (dtype == DTYPE_BOOL) return value != 0 ? "true" : "false";
  if (IsInteger(dtype)) return absl::StrCat(static_cast<int64_t>(value));
  return JsonNumber(value, 9);
}

int64_t Elements(const Field& field, absl::Span<const uint8_t> bytes) {
  const uint64_t each = ElementBytes(field.dtype());
  return each == 0 ? 0 : static_cast<int64_t>(bytes.size() / each);
}

std::vector<std::string> FirstElements(const Field& field,
                                       absl::Span<const uint8_t> bytes) {
  std::vector<std::string> elements;
  const int64_t count = std::min(Elements(field, bytes), kMaxElements);
  for (int64_t i = 0; i < count; ++i) {
    elements.push_back(ElementText(bytes.data(), field.dtype(), i));
  }
  return elements;
}

bool IsScalar(const Field& field) {
  return field.kind() == FIELD_KIND_TENSOR && field.shape().empty();
}

// Null: no class index, or no name is known.
const std::string* ClassName(const Field& field,
                             absl::Span<const uint8_t> bytes) {
  if (!IsScalar(field) || field.num_classes() == 0 ||
      bytes.size() != sizeof(int64_t)) {
    return nullptr;
  }
  int64_t index;
  std::memcpy(&index, bytes.data(), sizeof(index));
  return index >= 0 && index < field.class_names_size()
             ? &field.class_names(static_cast<int>(index))
             : nullptr;
}

bool IsTextField(const Field& field, absl::Span<const uint8_t> bytes) {
  return field.kind() == FIELD_KIND_RAGGED && field.dtype() == DTYPE_UINT8 &&
         IsText(AsText(bytes));
}

}  // namespace

const Field* ClassField(const DatasetInfo& info) {
  for (const Field& field : info.schema().fields()) {
    if (field.num_classes() > 0) return &field;
  }
  return nullptr;
}

absl::string_view KindName(FieldKind kind) {
  switch (kind) {
    case FIELD_KIND_ENCODED_IMAGE:
      return "encoded_image";
    case FIELD_KIND_TENSOR:
      return "tensor";
    case FIELD_KIND_RAGGED:
      return "ragged";
    default:
      return "unknown";
  }
}

std::string FieldTypeText(const Field& field) {
  std::string text(KindName(field.kind()));
  if (field.kind() != FIELD_KIND_ENCODED_IMAGE) {
    absl::StrAppend(&text, " ", DTypeName(field.dtype()));
  }
  if (field.kind() == FIELD_KIND_TENSOR) {
    absl::StrAppend(&text, " [", absl::StrJoin(field.shape(), ", "), "]");
  }
  return text;
}

std::string ScalarText(const Field& field, absl::Span<const uint8_t> bytes) {
  std::string text = absl::StrJoin(FirstElements(field, bytes), ", ");
  if (const std::string* const name = ClassName(field, bytes)) {
    absl::StrAppend(&text, " (", Readable(*name), ")");
  }
  return text;
}

FieldPrinter::Image FieldPrinter::ReadImage(absl::Span<const uint8_t> bytes) {
  Image image;
  const operators::Operators::Decoder* const own =
      operators_ == nullptr ? nullptr : operators_->SniffedBy(bytes);
  switch (decode::DetectImageFormat(bytes)) {
    case decode::ImageFormat::kJpeg:
      image.format = "JPEG";
      break;
    case decode::ImageFormat::kPng:
      image.format = "PNG";
      break;
    case decode::ImageFormat::kWebp:
      image.format = "WebP";
      break;
    case decode::ImageFormat::kUnknown:
      image.format = own == nullptr ? "" : "image of --operators";
      break;
  }
  const auto header = decoder_.Open(
      bytes, /*exif_transpose=*/false,
      own == nullptr ? absl::Span<const operators::Operators::Decoder* const>()
                     : absl::MakeConstSpan(&own, 1));
  if (header.ok()) {
    image.width = header->width;
    image.height = header->height;
  } else {
    image.error = std::string(header.status().message());
  }
  return image;
}

std::string FieldPrinter::Text(const Field& field,
                               absl::Span<const uint8_t> bytes) {
  std::string text = CountText(bytes.size(), "byte");
  if (field.kind() == FIELD_KIND_ENCODED_IMAGE) {
    const Image image = ReadImage(bytes);
    absl::StrAppend(&text, image.format.empty() ? "" : ", ", image.format);
    if (image.error.empty()) {
      absl::StrAppend(&text, " ", image.width, " x ", image.height);
    } else {
      absl::StrAppend(&text, ", damaged: ", image.error);
    }
    return text;
  }
  if (IsTextField(field, bytes)) {
    const absl::string_view shown = Beginning(AsText(bytes));
    return absl::StrCat(text, ", \"", Readable(shown), "\"",
                        shown.size() < bytes.size() ? " ..." : "");
  }
  if (IsScalar(field)) {
    return absl::StrCat(text, ", ", ScalarText(field, bytes));
  }
  const int64_t count = Elements(field, bytes);
  if (field.kind() == FIELD_KIND_RAGGED) {
    absl::StrAppend(&text, ", ", CountText(count, "element"));
  }
  if (count > 0) {
    absl::StrAppend(&text, ": ",
                    absl::StrJoin(FirstElements(field, bytes), ", "),
                    count > kMaxElements ? ", ..." : "");
  }
  return text;
}

JsonObject FieldPrinter::Json(const Field& field,
                              absl::Span<const uint8_t> bytes) {
  JsonObject json;
  json.Add("name", field.name()).Add("kind", KindName(field.kind()));
  if (field.kind() == FIELD_KIND_ENCODED_IMAGE) {
    const Image image = ReadImage(bytes);
    json.Add("bytes", bytes.size()).Add("format", image.format);
    if (!image.error.empty()) return json.Add("error", image.error);
    return json.Add("width", image.width).Add("height", image.height);
  }
  json.Add("dtype", DTypeName(field.dtype()));
  if (field.kind() == FIELD_KIND_TENSOR) json.Add("shape", field.shape());
  json.Add("bytes", bytes.size());
  const std::vector<std::string> first = FirstElements(field, bytes);
  if (IsScalar(field)) {
    if (!first.empty()) json.AddJson("value", first[0]);
    if (const std::string* const name = ClassName(field, bytes)) {
      json.Add("class_name", *name);
    }
    return json;
  }
  json.Add("elements", Elements(field, bytes));
  if (IsTextField(field, bytes)) {
    return json.Add("text", Beginning(AsText(bytes)));
  }
  return json.AddJson(
      "values", JsonList(first, [](const std::string& each) { return each; }));
}

}  // namespace millrace::data_tool
