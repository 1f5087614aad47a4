#include "server/storage/arrow/column_layout.h"

#include <arrow/extension_type.h>

#include <memory>
#include <utility>

#include "server/storage/columns/column_map.h"
#include "server/storage/columns/foreign_schema.h"

namespace millrace::storage {
namespace {

const arrow::DataType& Storage(const arrow::DataType& type) {
  const arrow::DataType* storage = &type;
  while (storage->id() == arrow::Type::EXTENSION) {
    storage =
        static_cast<const arrow::ExtensionType&>(*storage).storage_type().get();
  }
  return *storage;
}

// The type that FieldOfColumn() knows for values that lie in another form here.
std::shared_ptr<arrow::DataType> UsualType(
    const std::shared_ptr<arrow::DataType>& type) {
  switch (type->id()) {
    case arrow::Type::EXTENSION:
      return UsualType(
          static_cast<const arrow::ExtensionType&>(*type).storage_type());
    case arrow::Type::BINARY_VIEW:
      return arrow::binary();
    case arrow::Type::STRING_VIEW:
      return arrow::utf8();
    case arrow::Type::LARGE_LIST:
      return arrow::list(
          static_cast<const arrow::LargeListType&>(*type).value_type());
    case arrow::Type::STRUCT: {
      arrow::FieldVector fields;
      for (const auto& field : type->fields()) {
        fields.push_back(field->WithType(UsualType(field->type())));
      }
      return arrow::struct_(std::move(fields));
    }
    default:
      return type;
  }
}

// `lists` levels of variable lists around numbers as lists of these sizes;
// null: the type is another one.
std::shared_ptr<arrow::DataType> FixedLists(
    const std::shared_ptr<arrow::DataType>& type,
    const std::vector<int64_t>& shape, size_t level) {
  if (level == shape.size()) return type;
  if (shape[level] < 1 || shape[level] > INT32_MAX) return nullptr;
  const arrow::DataType& storage = Storage(*type);
  if (storage.id() != arrow::Type::LIST &&
      storage.id() != arrow::Type::LARGE_LIST) {
    return nullptr;
  }
  const auto inside = FixedLists(storage.field(0)->type(), shape, level + 1);
  return inside == nullptr ? nullptr
                           : arrow::fixed_size_list(
                                 inside, static_cast<int32_t>(shape[level]));
}

// Goes through the types of a schema in the order of the arrays in a batch.
class Walk {
 public:
  BufferNumber at() const { return buffer_; }

  void Skip(const arrow::DataType& any) {
    const arrow::DataType& type = Storage(any);
    Step(type);
    if (type.id() == arrow::Type::DICTIONARY) return;
    for (const auto& field : type.fields()) Skip(*field->type());
  }

  // Skip() that notes the levels down to the values of a field. `shape`: the
  // lengths of lists that must have one; `lists`: those above.
  void Descend(const arrow::DataType& any, const std::vector<int64_t>& shape,
               ColumnLayout* layout, size_t lists = 0) {
    using Kind = ColumnLevel::Kind;
    const arrow::DataType& type = Storage(any);
    ColumnLevel level = {.node = node_, .buffer = buffer_};
    const auto go_on = [&] {
      layout->levels.push_back(level);
      Step(type);
    };
    switch (type.id()) {
      case arrow::Type::STRUCT: {
        level.kind = Kind::kStruct;
        go_on();
        bool found = false;
        for (const auto& field : type.fields()) {
          if (found || field->name() != "bytes") {
            Skip(*field->type());
            continue;
          }
          found = true;
          Descend(*field->type(), shape, layout);
        }
        return;
      }
      case arrow::Type::FIXED_SIZE_LIST:
        level.kind = Kind::kFixedList;
        level.items =
            static_cast<const arrow::FixedSizeListType&>(type).list_size();
        go_on();
        return Descend(*type.field(0)->type(), shape, layout, lists);
      case arrow::Type::LIST:
      case arrow::Type::LARGE_LIST:
        level.kind =
            type.id() == arrow::Type::LIST ? Kind::kList32 : Kind::kList64;
        if (lists < shape.size()) level.items = shape[lists];
        go_on();
        return Descend(*type.field(0)->type(), shape, layout, lists + 1);
      case arrow::Type::BINARY:
      case arrow::Type::STRING:
        level.kind = Kind::kBinary32;
        return go_on();
      case arrow::Type::LARGE_BINARY:
      case arrow::Type::LARGE_STRING:
        level.kind = Kind::kBinary64;
        return go_on();
      case arrow::Type::BINARY_VIEW:
      case arrow::Type::STRING_VIEW:
        level.kind = Kind::kViews;
        return go_on();
      case arrow::Type::BOOL:
        level.kind = Kind::kBits;
        layout->stored = type.id();
        return go_on();
      default:
        level.kind = Kind::kNumbers;
        level.items = type.byte_width();
        layout->stored = type.id();
        return go_on();
    }
  }

 private:
  // Passes the array of `type` itself.
  void Step(const arrow::DataType& type) {
    ++node_;
    const arrow::DataTypeLayout layout = type.layout();
    for (const auto& buffer : layout.buffers) {
      if (buffer.kind != arrow::DataTypeLayout::ALWAYS_NULL) ++buffer_.index;
    }
    if (layout.variadic_spec.has_value()) ++buffer_.views;
  }

  uint64_t node_ = 0;
  BufferNumber buffer_;
};

// The field of a column, and the lengths of its lists that must have one.
bool FieldOf(const arrow::Field& column, const FeatureMaps& features,
             Field* field, ColumnForm* form, std::vector<int64_t>* shape) {
  std::shared_ptr<arrow::DataType> type = UsualType(column.type());
  const auto array = features.others.arrays.find(column.name());
  if (array != features.others.arrays.end()) {
    const auto fixed = FixedLists(column.type(), array->second, 0);
    if (fixed != nullptr) {
      type = fixed;
      *shape = array->second;
    }
  }
  if (!FieldOfColumn(*column.WithType(type), features.labels, field, form)) {
    return false;
  }
  if (*form == ColumnForm::kImageStruct &&
      features.others.media.contains(column.name())) {
    field->set_kind(FIELD_KIND_RAGGED);
    field->set_dtype(DTYPE_UINT8);
  }
  return true;
}

}  // namespace

std::vector<ColumnLayout> PlanColumns(const arrow::Schema& schema,
                                      const FeatureMaps& features,
                                      DatasetInfo* info) {
  std::map<std::string, int> uses;
  for (const auto& column : schema.fields()) ++uses[column->name()];
  std::vector<ColumnLayout> layouts;
  Walk walk;
  for (const auto& column : schema.fields()) {
    Field field;
    ColumnForm form = ColumnForm::kScalar;
    std::vector<int64_t> shape;
    const int same = uses[column->name()];
    if (same > 1 || !FieldOf(*column, features, &field, &form, &shape)) {
      AddLeftOut(column->name(),
                 same > 1
                     ? WhySharedName(same)
                     : WhyLeftOut(*column->WithType(UsualType(column->type()))),
                 info);
      walk.Skip(*column->type());
      continue;
    }
    ColumnLayout& layout = layouts.emplace_back();
    layout.name = column->name();
    layout.image = form == ColumnForm::kImageStruct;
    layout.dtype = field.dtype();
    layout.begin = walk.at();
    walk.Descend(*column->type(), shape, &layout);
    layout.end = walk.at();
    *info->mutable_schema()->add_fields() = std::move(field);
  }
  return layouts;
}

}  // namespace millrace::storage
