#include "server/storage/columns/column_map.h"

#include <arrow/type_traits.h>

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "proto/dtype.h"

namespace millrace::storage {
namespace {

// Max depth of nested fixed-size lists that become one tensor.
constexpr int kMaxListDepth = 4;
// Max bytes of a type name in a message.
constexpr size_t kMaxTypeBytes = 200;

bool IsBinary(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BINARY:
    case arrow::Type::STRING:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::LARGE_STRING:
      return true;
    default:
      return false;
  }
}

// The element type of a numeric column; unspecified: the column is not numeric.
DType NumberOf(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BOOL:
      return DTYPE_BOOL;
    case arrow::Type::UINT8:
      return DTYPE_UINT8;
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::UINT16:
    case arrow::Type::INT32:
      return DTYPE_INT32;
    case arrow::Type::UINT32:
    case arrow::Type::INT64:
      return DTYPE_INT64;
    case arrow::Type::HALF_FLOAT:
      return DTYPE_FLOAT16;
    case arrow::Type::FLOAT:
      return DTYPE_FLOAT32;
    case arrow::Type::DOUBLE:
      return DTYPE_FLOAT64;
    default:
      return DTYPE_UNSPECIFIED;
  }
}

bool IsInteger(DType dtype) {
  return dtype == DTYPE_UINT8 || dtype == DTYPE_INT32 || dtype == DTYPE_INT64;
}

// The element type of lists. Lists are returned in place, so their elements
// must not need widening.
DType ListNumberOf(const arrow::DataType& type) {
  const DType dtype = NumberOf(type);
  switch (type.id()) {
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::UINT16:
    case arrow::Type::UINT32:
      return DTYPE_UNSPECIFIED;
    default:
      return dtype;
  }
}

std::shared_ptr<arrow::DataType> ArrowNumber(DType dtype) {
  switch (dtype) {
    case DTYPE_UINT8:
      return arrow::uint8();
    case DTYPE_BOOL:
      return arrow::boolean();
    case DTYPE_INT32:
      return arrow::int32();
    case DTYPE_INT64:
      return arrow::int64();
    case DTYPE_FLOAT16:
      return arrow::float16();
    case DTYPE_FLOAT32:
      return arrow::float32();
    case DTYPE_FLOAT64:
      return arrow::float64();
    default:
      return nullptr;
  }
}

// Sets the shape and element type of nested fixed-size lists, such as rows of
// boxes or pixels. False: the lists cannot be a tensor.
bool TensorOfFixedLists(const arrow::DataType& type, Field* field) {
  const arrow::DataType* level = &type;
  int64_t elements = 1;
  while (level->id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& list = static_cast<const arrow::FixedSizeListType&>(*level);
    const int64_t extent = list.list_size();
    // The sizes are values from the file, so their product must not overflow.
    if (field->shape_size() == kMaxListDepth || extent <= 0 ||
        extent > INT32_MAX / elements) {
      return false;
    }
    elements *= extent;
    field->add_shape(extent);
    level = list.value_type().get();
  }
  field->set_kind(FIELD_KIND_TENSOR);
  field->set_dtype(ListNumberOf(*level));
  return field->dtype() != DTYPE_UNSPECIFIED;
}

// What to write instead of a column of `type`; empty: no number holds its
// values.
std::string HowToWrite(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    const arrow::DataType& values =
        *static_cast<const arrow::DictionaryType&>(type).value_type();
    if (IsBinary(values)) {
      return ": write class names as int64 class numbers "
             "(docs/formats.md#labels-in-other-columns)";
    }
    return NumberOf(values) == DTYPE_UNSPECIFIED
               ? ""
               : absl::StrCat(": write the column as ", values.ToString(),
                              " without a dictionary");
  }
  if (arrow::is_temporal(type.id())) return ": write the column as int64";
  if (arrow::is_decimal(type.id())) return ": write the column as float64";
  return "";
}

void SetLabel(const std::map<std::string, ClassLabelFeature>& labels,
              Field* field) {
  const auto label = labels.find(field->name());
  if (label == labels.end() || !IsInteger(field->dtype())) return;
  field->set_dtype(DTYPE_INT64);
  field->set_num_classes(label->second.num_classes);
  for (const std::string& name : label->second.names) {
    field->add_class_names(name);
  }
}

}  // namespace

bool FieldOfColumn(const arrow::Field& column,
                   const std::map<std::string, ClassLabelFeature>& labels,
                   Field* field, ColumnForm* form) {
  const arrow::DataType& type = *column.type();
  field->Clear();
  field->set_name(column.name());
  if (column.name().empty() || !IsUtf8(column.name())) return false;
  if (type.id() == arrow::Type::STRUCT) {
    const auto bytes =
        static_cast<const arrow::StructType&>(type).GetFieldByName("bytes");
    if (bytes == nullptr || !IsBinary(*bytes->type())) return false;
    *form = ColumnForm::kImageStruct;
    field->set_kind(FIELD_KIND_ENCODED_IMAGE);
    return true;
  }
  if (IsBinary(type)) {
    *form = ColumnForm::kBinary;
    const bool text = type.id() == arrow::Type::STRING ||
                      type.id() == arrow::Type::LARGE_STRING;
    if (column.name() == "image" && !text) {
      field->set_kind(FIELD_KIND_ENCODED_IMAGE);
    } else {
      field->set_kind(FIELD_KIND_RAGGED);
      field->set_dtype(DTYPE_UINT8);
    }
    return true;
  }
  if (type.id() == arrow::Type::FIXED_SIZE_LIST) {
    *form = ColumnForm::kFixedList;
    return TensorOfFixedLists(type, field);
  }
  if (type.id() == arrow::Type::LIST) {
    const auto& list = static_cast<const arrow::ListType&>(type);
    *form = ColumnForm::kList;
    field->set_kind(FIELD_KIND_RAGGED);
    field->set_dtype(ListNumberOf(*list.value_type()));
    return field->dtype() != DTYPE_UNSPECIFIED && field->dtype() != DTYPE_BOOL;
  }
  *form = ColumnForm::kScalar;
  field->set_kind(FIELD_KIND_TENSOR);
  field->set_dtype(NumberOf(type));
  SetLabel(labels, field);
  return field->dtype() != DTYPE_UNSPECIFIED;
}

std::string WhyLeftOut(const arrow::Field& column) {
  if (column.name().empty()) return "it has no name";
  if (!IsUtf8(column.name())) return "its name is not UTF-8";
  if (column.type()->id() == arrow::Type::UINT64) {
    return "tensors have no type uint64: write the column as int64";
  }
  // The type of a struct contains the names of its fields.
  return absl::StrCat("its type ",
                      CleanText(column.type()->ToString(), kMaxTypeBytes),
                      " cannot become a field", HowToWrite(*column.type()));
}

absl::Status NullInRow(absl::string_view column, bool image) {
  return absl::DataLossError(absl::StrCat(
      "column '", column,
      image ? "' has no image bytes in this row, at most a path; write the "
              "file with the images in it"
            : "' has a null in this row; fill in a value, or remove the row"));
}

ColumnForm PackedForm(const Field& field) {
  switch (field.kind()) {
    case FIELD_KIND_ENCODED_IMAGE:
      return ColumnForm::kImageStruct;
    case FIELD_KIND_RAGGED:
      return ColumnForm::kBinary;
    default:
      return field.shape().empty() ? ColumnForm::kScalar
                                   : ColumnForm::kFixedList;
  }
}

absl::StatusOr<std::shared_ptr<arrow::DataType>> ColumnTypeOf(
    const Field& field) {
  switch (PackedForm(field)) {
    case ColumnForm::kImageStruct:
      return arrow::struct_({arrow::field("bytes", arrow::binary()),
                             arrow::field("path", arrow::utf8())});
    case ColumnForm::kBinary:
      return arrow::binary();
    default:
      break;
  }
  std::shared_ptr<arrow::DataType> number = ArrowNumber(field.dtype());
  if (number == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("Parquet has no type for field '", field.name(), "' of ",
                     DTypeName(field.dtype()), "; pack it as lmdb:PATH"));
  }
  if (field.shape().empty()) return number;
  int64_t elements = 1;
  for (const int64_t extent : field.shape()) elements *= extent;
  if (elements > INT32_MAX) {
    return absl::UnimplementedError(
        absl::StrCat("field '", field.name(),
                     "' is too large for Parquet; pack it as lmdb:PATH"));
  }
  return arrow::fixed_size_list(number, static_cast<int32_t>(elements));
}

}  // namespace millrace::storage
