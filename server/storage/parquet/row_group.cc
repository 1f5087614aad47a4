#include "server/storage/parquet/row_group.h"

#include <arrow/array/concatenate.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/dtype.h"

namespace millrace::storage {
namespace {

absl::Status WrongType(const ColumnPlan& plan, const arrow::Array& array) {
  return absl::DataLossError(absl::StrCat("column '", plan.name,
                                          "' has the unexpected type ",
                                          array.type()->ToString()));
}

// Marks rows with a null in the row itself or in the elements [begin(row),
// end(row)) of `elements`.
template <typename Begin, typename End>
void FindNulls(const arrow::Array& array, const arrow::Array* elements,
               Begin begin, End end, std::vector<bool>* nulls) {
  const bool in_elements = elements != nullptr && elements->null_count() != 0;
  if (array.null_count() == 0 && !in_elements) return;
  nulls->assign(array.length(), false);
  for (int64_t row = 0; row < array.length(); ++row) {
    bool null = array.IsNull(row);
    for (int64_t i = begin(row); in_elements && !null && i < end(row); ++i) {
      null = elements->IsNull(i);
    }
    (*nulls)[row] = null;
  }
}

void FindNulls(const arrow::Array& array, std::vector<bool>* nulls) {
  const auto none = [](int64_t) { return int64_t{0}; };
  FindNulls(array, nullptr, none, none, nulls);
}

// The numbers inside fixed-size lists, at any depth of nesting.
struct ListContents {
  std::shared_ptr<arrow::Array> values;
  int64_t first = 0;    // element of the first row
  int64_t per_row = 1;  // elements
};

// Marks rows with a null at any depth.
ListContents OpenFixedLists(std::shared_ptr<arrow::Array> rows,
                            std::vector<bool>* nulls) {
  ListContents inside{.values = rows};
  while (true) {
    if (inside.values->null_count() != 0) {
      nulls->resize(rows->length(), false);
      for (int64_t row = 0; row < rows->length(); ++row) {
        const int64_t begin = inside.first + row * inside.per_row;
        for (int64_t i = begin; i < begin + inside.per_row; ++i) {
          if (inside.values->IsNull(i)) (*nulls)[row] = true;
        }
      }
    }
    if (inside.values->type_id() != arrow::Type::FIXED_SIZE_LIST) return inside;
    const auto list =
        std::static_pointer_cast<arrow::FixedSizeListArray>(inside.values);
    // A list that is a slice begins inside its elements.
    inside.first = list->value_offset(inside.first);
    inside.per_row *= list->value_length();
    inside.values = list->values();
  }
}

template <typename From, typename To>
void Widen(const arrow::Array& array, std::vector<uint8_t>* out) {
  const From* from = array.data()->GetValues<From>(1);
  out->resize(array.length() * sizeof(To));
  To* to = reinterpret_cast<To*>(out->data());
  for (int64_t i = 0; i < array.length(); ++i) to[i] = static_cast<To>(from[i]);
}

template <typename To>
bool WidenInteger(const arrow::Array& array, std::vector<uint8_t>* out) {
  switch (array.type_id()) {
    case arrow::Type::UINT8:
      return Widen<uint8_t, To>(array, out), true;
    case arrow::Type::INT8:
      return Widen<int8_t, To>(array, out), true;
    case arrow::Type::UINT16:
      return Widen<uint16_t, To>(array, out), true;
    case arrow::Type::INT16:
      return Widen<int16_t, To>(array, out), true;
    case arrow::Type::UINT32:
      return Widen<uint32_t, To>(array, out), true;
    case arrow::Type::INT32:
      return Widen<int32_t, To>(array, out), true;
    default:
      return false;
  }
}

// Converts each bit to one byte.
void WidenBits(const arrow::BooleanArray& array, std::vector<uint8_t>* out) {
  out->resize(array.length());
  for (int64_t i = 0; i < array.length(); ++i) (*out)[i] = array.Value(i);
}

// Whether the numbers can be used without widening.
bool TypeMatches(arrow::Type::type id, DType to) {
  switch (id) {
    case arrow::Type::UINT8:
      return to == DTYPE_UINT8;
    case arrow::Type::INT32:
      return to == DTYPE_INT32;
    case arrow::Type::INT64:
      return to == DTYPE_INT64;
    case arrow::Type::HALF_FLOAT:
      return to == DTYPE_FLOAT16;
    case arrow::Type::FLOAT:
      return to == DTYPE_FLOAT32;
    case arrow::Type::DOUBLE:
      return to == DTYPE_FLOAT64;
    default:
      return false;
  }
}

// The bytes of the numbers in place; null: the numbers need widening.
const uint8_t* NumbersInPlace(const arrow::Array& array, DType dtype) {
  if (!TypeMatches(array.type_id(), dtype)) return nullptr;
  const uint8_t* values = array.data()->GetValues<uint8_t>(1, 0);
  // An array without elements may have no memory.
  static constexpr uint8_t kNothing = 0;
  return values == nullptr ? &kNothing
                           : values + array.offset() * ElementBytes(dtype);
}

}  // namespace

uint64_t WidenedBytes(const ColumnPlan& plan, const arrow::DataType& type) {
  const uint64_t width = ElementBytes(plan.dtype);
  switch (plan.form) {
    case ColumnForm::kScalar:
      return TypeMatches(type.id(), plan.dtype) ? 0 : width;
    case ColumnForm::kFixedList: {
      uint64_t elements = 1;
      const arrow::DataType* level = &type;
      while (level->id() == arrow::Type::FIXED_SIZE_LIST) {
        const auto& list = static_cast<const arrow::FixedSizeListType&>(*level);
        elements *= list.list_size();
        level = list.value_type().get();
      }
      return TypeMatches(level->id(), plan.dtype) ? 0 : elements * width;
    }
    default:
      return 0;
  }
}

bool MayBeDictionary(const ColumnPlan& plan, const arrow::DataType& type) {
  const arrow::DataType* strings = &type;
  if (plan.form == ColumnForm::kImageStruct &&
      type.id() == arrow::Type::STRUCT) {
    const auto bytes =
        static_cast<const arrow::StructType&>(type).GetFieldByName("bytes");
    if (bytes == nullptr) return false;
    strings = bytes->type().get();
  } else if (plan.form != ColumnForm::kBinary) {
    return false;
  }
  return strings->id() == arrow::Type::BINARY ||
         strings->id() == arrow::Type::STRING;
}

absl::Status RowGroup::Add(int field, arrow::ArrayVector chunks,
                           const ColumnPlan& plan) {
  std::shared_ptr<arrow::Array> array;
  if (chunks.size() == 1) {
    array = std::move(chunks.front());
  } else {
    auto joined = arrow::Concatenate(chunks, pool_.get());
    if (!joined.ok()) {
      if (joined.status().IsOutOfMemory()) {
        return absl::ResourceExhaustedError(joined.status().message());
      }
      return absl::UnimplementedError(absl::StrCat(
          "a row group of column '", plan.name, "' is too large for one read (",
          joined.status().message(),
          "); write the file with smaller row groups"));
    }
    array = *std::move(joined);
  }
  if (array->length() != rows_) {
    return absl::DataLossError(
        absl::StrCat("column '", plan.name, "' has ", array->length(),
                     " rows, but its row group has ", rows_));
  }
  Column& column = columns_.emplace_back();
  column.field = field;
  column.name = plan.name;
  return MakeColumn(std::move(array), plan, &column);
}

uint64_t RowGroup::bytes() const {
  uint64_t bytes = pool_->bytes_allocated() + sizeof(RowGroup);
  for (const Column& column : columns_) {
    bytes += sizeof(Column) + column.widened.capacity() +
             column.nulls.capacity() / 8;
  }
  return bytes;
}

absl::Status RowGroup::MakeColumn(std::shared_ptr<arrow::Array> array,
                                  const ColumnPlan& plan, Column* column) {
  if (plan.form == ColumnForm::kImageStruct) {
    if (array->type_id() != arrow::Type::STRUCT) {
      return WrongType(plan, *array);
    }
    const auto& image = static_cast<const arrow::StructArray&>(*array);
    std::shared_ptr<arrow::Array> bytes = image.GetFieldByName("bytes");
    if (bytes == nullptr) return WrongType(plan, *array);
    array = std::move(bytes);  // null where the struct is null
    column->image = true;
  }
  column->array = array;
  switch (plan.form) {
    case ColumnForm::kImageStruct:
    case ColumnForm::kBinary:
      column->stride = 1;
      FindNulls(*array, &column->nulls);
      if (array->type_id() == arrow::Type::DICTIONARY) {
        const auto& coded = static_cast<const arrow::DictionaryArray&>(*array);
        if (coded.indices()->type_id() != arrow::Type::INT32) {
          return WrongType(plan, *array);
        }
        const auto& indices =
            static_cast<const arrow::Int32Array&>(*coded.indices());
        const auto values = static_cast<uint32_t>(coded.dictionary()->length());
        // The indices are values from the file, so they are checked.
        for (int64_t row = 0; row < indices.length(); ++row) {
          if (indices.IsValid(row) &&
              static_cast<uint32_t>(indices.Value(row)) >= values) {
            return absl::DataLossError(
                absl::StrCat("column '", plan.name, "' refers to value ",
                             indices.Value(row), " of a dictionary of ", values,
                             "; copy the file again, or write it again"));
          }
        }
        column->indices = indices.raw_values();
        array = coded.dictionary();
      }
      switch (array->type_id()) {
        case arrow::Type::BINARY:
        case arrow::Type::STRING: {
          const auto& binary = static_cast<const arrow::BinaryArray&>(*array);
          column->offsets32 = binary.raw_value_offsets();
          column->data = binary.raw_data();
          return absl::OkStatus();
        }
        case arrow::Type::LARGE_BINARY:
        case arrow::Type::LARGE_STRING: {
          const auto& binary =
              static_cast<const arrow::LargeBinaryArray&>(*array);
          column->offsets64 = binary.raw_value_offsets();
          column->data = binary.raw_data();
          return absl::OkStatus();
        }
        default:
          return WrongType(plan, *array);
      }
    case ColumnForm::kScalar:
      column->stride = ElementBytes(plan.dtype);
      FindNulls(*array, &column->nulls);
      column->data = NumbersInPlace(*array, plan.dtype);
      if (column->data != nullptr) return absl::OkStatus();
      if (array->type_id() == arrow::Type::BOOL && plan.dtype == DTYPE_BOOL) {
        WidenBits(static_cast<const arrow::BooleanArray&>(*array),
                  &column->widened);
      } else if (!(plan.dtype == DTYPE_INT32 &&
                   WidenInteger<int32_t>(*array, &column->widened)) &&
                 !(plan.dtype == DTYPE_INT64 &&
                   WidenInteger<int64_t>(*array, &column->widened))) {
        return WrongType(plan, *array);
      }
      column->data = column->widened.data();
      return absl::OkStatus();
    case ColumnForm::kFixedList: {
      if (array->type_id() != arrow::Type::FIXED_SIZE_LIST) {
        return WrongType(plan, *array);
      }
      const ListContents inside = OpenFixedLists(array, &column->nulls);
      const arrow::Array& values = *inside.values;
      column->stride = inside.per_row * ElementBytes(plan.dtype);
      column->data = NumbersInPlace(values, plan.dtype);
      if (column->data == nullptr) {
        if (values.type_id() != arrow::Type::BOOL || plan.dtype != DTYPE_BOOL) {
          return WrongType(plan, *array);
        }
        WidenBits(static_cast<const arrow::BooleanArray&>(values),
                  &column->widened);
        column->data = column->widened.data();
      }
      column->data += inside.first * ElementBytes(plan.dtype);
      return absl::OkStatus();
    }
    case ColumnForm::kList: {
      if (array->type_id() != arrow::Type::LIST) return WrongType(plan, *array);
      const auto& list = static_cast<const arrow::ListArray&>(*array);
      const std::shared_ptr<arrow::Array> values = list.values();
      FindNulls(
          *array, values.get(),
          [&](int64_t row) { return int64_t{list.value_offset(row)}; },
          [&](int64_t row) { return int64_t{list.value_offset(row + 1)}; },
          &column->nulls);
      column->stride = ElementBytes(plan.dtype);
      column->offsets32 = list.raw_value_offsets();
      column->data = NumbersInPlace(*values, plan.dtype);
      return column->data == nullptr ? WrongType(plan, *array)
                                     : absl::OkStatus();
    }
  }
  return absl::InternalError("unknown form of a column");
}

absl::Status RowGroup::Row(int64_t row,
                           absl::Span<absl::Span<const uint8_t>> views) const {
  for (const Column& column : columns_) {
    if (!column.nulls.empty() && column.nulls[row]) {
      return NullInRow(column.name, column.image);
    }
    const int64_t value = column.indices == nullptr ? row : column.indices[row];
    uint64_t begin;
    uint64_t count;
    if (column.offsets32 != nullptr) {
      begin = column.offsets32[value];
      count = column.offsets32[value + 1] - begin;
    } else if (column.offsets64 != nullptr) {
      begin = column.offsets64[value];
      count = column.offsets64[value + 1] - begin;
    } else {
      begin = value;
      count = 1;
    }
    views[column.field] = {column.data + begin * column.stride,
                           count * column.stride};
  }
  return absl::OkStatus();
}

}  // namespace millrace::storage
