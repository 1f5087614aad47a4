#include "server/storage/arrow/batch_column.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/dtype.h"
#include "server/storage/columns/column_map.h"
#include "server/storage/page_load.h"

namespace millrace::storage {
namespace {

using Kind = ColumnLevel::Kind;

// Of one view: i32 length; then up to 12 bytes, or 4 bytes, i32 buffer and i32
// offset.
constexpr int64_t kViewBytes = 16;
constexpr int32_t kInlineBytes = 12;

// An array without elements may have no memory.
constexpr uint8_t kNothing = 0;

bool IsValid(const uint8_t* bits, int64_t i) {
  return (PageLoad<uint8_t>(bits + i / 8) >> (i % 8) & 1) != 0;
}

// Whether `bytes` hold `count` elements of `width` bytes.
bool Holds(absl::Span<const uint8_t> bytes, int64_t count, int64_t width) {
  return count <= static_cast<int64_t>(bytes.size()) / width;
}

bool HoldsBits(absl::Span<const uint8_t> bytes, int64_t count) {
  return count / 8 + (count % 8 != 0) <= static_cast<int64_t>(bytes.size());
}

// Whether numbers of the file are what the field has, without widening.
bool Fits(arrow::Type::type stored, DType dtype) {
  switch (stored) {
    case arrow::Type::UINT8:
      return dtype == DTYPE_UINT8;
    case arrow::Type::INT32:
      return dtype == DTYPE_INT32;
    case arrow::Type::INT64:
      return dtype == DTYPE_INT64;
    case arrow::Type::HALF_FLOAT:
      return dtype == DTYPE_FLOAT16;
    case arrow::Type::FLOAT:
      return dtype == DTYPE_FLOAT32;
    case arrow::Type::DOUBLE:
      return dtype == DTYPE_FLOAT64;
    default:
      return false;
  }
}

int64_t IntegerAt(arrow::Type::type stored, const uint8_t* at) {
  switch (stored) {
    case arrow::Type::UINT8:
      return PageLoad<uint8_t>(at);
    case arrow::Type::INT8:
      return PageLoad<int8_t>(at);
    case arrow::Type::UINT16:
      return PageLoad<uint16_t>(at);
    case arrow::Type::INT16:
      return PageLoad<int16_t>(at);
    case arrow::Type::UINT32:
      return PageLoad<uint32_t>(at);
    case arrow::Type::INT32:
      return PageLoad<int32_t>(at);
    default:
      return PageLoad<int64_t>(at);
  }
}

}  // namespace

std::optional<uint64_t> BufferIndex(const IpcMessage& message,
                                    const BufferNumber& number) {
  uint64_t index = number.index;
  for (uint64_t i = 0; i < number.views; ++i) {
    const std::optional<uint64_t> more = message.VariadicAt(i);
    if (!more.has_value()) return std::nullopt;
    index += *more;
  }
  return index;
}

bool BatchColumn::ForEachBuffer(const ColumnLayout& layout,
                                const IpcMessage& message,
                                absl::FunctionRef<bool(uint64_t)> use) {
  for (const ColumnLevel& level : layout.levels) {
    const std::optional<uint64_t> first = BufferIndex(message, level.buffer);
    if (!first.has_value()) return false;
    uint64_t count = 2;
    switch (level.kind) {
      case Kind::kStruct:
      case Kind::kFixedList:
        count = 1;
        break;
      case Kind::kBinary32:
      case Kind::kBinary64:
        count = 3;
        break;
      case Kind::kViews: {
        const auto values = message.VariadicAt(level.buffer.views);
        if (!values.has_value()) return false;
        count += *values;
        break;
      }
      default:
        break;
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (!use(*first + i)) return false;
    }
  }
  return true;
}

absl::Status BatchColumn::Damaged() const {
  return absl::DataLossError(
      absl::StrCat("column '", layout_->name,
                   "' is damaged: lengths, offsets and buffers of its record "
                   "batch do not fit together; copy the file again, or write "
                   "it again"));
}

absl::Status BatchColumn::Resolve(const ColumnLayout& layout,
                                  const IpcMessage& message, Buffers buffers) {
  layout_ = &layout;
  levels_.clear();
  view_bytes_.clear();
  // Elements that the array must have: those that the one above it needs.
  int64_t needed = message.rows;
  for (const ColumnLevel& from : layout.levels) {
    Level level = {.kind = from.kind, .items = from.items};
    const std::optional<IpcNode> node = message.NodeAt(from.node);
    const std::optional<uint64_t> first = BufferIndex(message, from.buffer);
    if (!node.has_value() || !first.has_value() || node->length < needed) {
      return Damaged();
    }
    level.length = node->length;
    const auto validity = buffers(*first);
    if (!validity.has_value()) return Damaged();
    if (node->nulls != 0) {
      if (!HoldsBits(*validity, level.length)) return Damaged();
      level.validity = validity->data();
    }
    needed = 0;
    if (from.kind == Kind::kStruct) {
      needed = level.length;
    } else if (from.kind == Kind::kFixedList) {
      if (level.length > INT64_MAX / from.items) return Damaged();
      needed = level.length * from.items;
    } else {
      const auto values = buffers(*first + 1);
      if (!values.has_value()) return Damaged();
      level.values = *values;
      bool fits = false;
      switch (from.kind) {
        case Kind::kNumbers:
          fits = Holds(*values, level.length, from.items);
          break;
        case Kind::kBits:
          fits = HoldsBits(*values, level.length);
          break;
        case Kind::kViews:
          fits = Holds(*values, level.length, kViewBytes);
          break;
        case Kind::kList64:
        case Kind::kBinary64:
          // One offset more than elements; none where there is no element.
          fits = level.length == 0 || (level.length < INT64_MAX &&
                                       Holds(*values, level.length + 1, 8));
          break;
        default:
          fits = level.length == 0 || (level.length < INT64_MAX &&
                                       Holds(*values, level.length + 1, 4));
      }
      if (!fits) return Damaged();
    }
    if (from.kind == Kind::kBinary32 || from.kind == Kind::kBinary64) {
      const auto bytes = buffers(*first + 2);
      if (!bytes.has_value()) return Damaged();
      level.bytes = *bytes;
    }
    if (from.kind == Kind::kViews) {
      const auto count = message.VariadicAt(from.buffer.views);
      if (!count.has_value()) return Damaged();
      for (uint64_t i = 0; i < *count; ++i) {
        const auto bytes = buffers(*first + 2 + i);
        if (!bytes.has_value()) return Damaged();
        view_bytes_.push_back(*bytes);
      }
    }
    levels_.push_back(level);
  }
  return absl::OkStatus();
}

template <typename Offset>
bool BatchColumn::EnterLists(const Level& level, Range* range) const {
  const uint8_t* const offsets = level.values.data();
  const auto at = [offsets](int64_t i) {
    return static_cast<int64_t>(
        PageLoad<Offset>(offsets + static_cast<uint64_t>(i) * sizeof(Offset)));
  };
  const int64_t first = at(range->begin);
  int64_t last = first;
  for (int64_t i = range->begin; i < range->end; ++i) {
    const int64_t next = at(i + 1);
    if (next < last) return false;
    if (level.items >= 0 && next - last != level.items) return false;
    last = next;
  }
  if (first < 0) return false;
  *range = {.begin = first, .end = last};
  return true;
}

template <typename Offset>
bool BatchColumn::ReadBinary(const Level& level, int64_t at,
                             absl::Span<const uint8_t>* view) const {
  const uint8_t* const offset =
      level.values.data() + static_cast<uint64_t>(at) * sizeof(Offset);
  const auto begin = static_cast<int64_t>(PageLoad<Offset>(offset));
  const auto end =
      static_cast<int64_t>(PageLoad<Offset>(offset + sizeof(Offset)));
  if (begin < 0 || end < begin ||
      end > static_cast<int64_t>(level.bytes.size())) {
    return false;
  }
  *view = level.bytes.subspan(static_cast<size_t>(begin),
                              static_cast<size_t>(end - begin));
  return true;
}

bool BatchColumn::ReadView(const Level& level, int64_t at,
                           absl::Span<const uint8_t>* view) const {
  const uint8_t* const place =
      level.values.data() + static_cast<uint64_t>(at) * kViewBytes;
  const auto size = PageLoad<int32_t>(place);
  if (size < 0) return false;
  if (size <= kInlineBytes) {
    *view = {place + sizeof(size), static_cast<size_t>(size)};
    return true;
  }
  const auto buffer = PageLoad<int32_t>(place + 8);
  const auto offset = PageLoad<int32_t>(place + 12);
  if (buffer < 0 || offset < 0 ||
      static_cast<size_t>(buffer) >= view_bytes_.size()) {
    return false;
  }
  const absl::Span<const uint8_t> bytes = view_bytes_[buffer];
  if (static_cast<size_t>(offset) > bytes.size() ||
      static_cast<size_t>(size) > bytes.size() - offset) {
    return false;
  }
  *view = bytes.subspan(offset, size);
  return true;
}

bool BatchColumn::ReadNumbers(const Level& level, const Range& range,
                              std::vector<uint8_t>* scratch,
                              absl::Span<const uint8_t>* view) const {
  const int64_t count = range.end - range.begin;
  if (level.kind == Kind::kBits) {
    scratch->resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      (*scratch)[i] = IsValid(level.values.data(), range.begin + i);
    }
    *view = *scratch;
    return true;
  }
  const auto begin =
      static_cast<size_t>(range.begin) * static_cast<size_t>(level.items);
  const absl::Span<const uint8_t> numbers = level.values.subspan(
      begin, static_cast<size_t>(count) * static_cast<size_t>(level.items));
  if (Fits(layout_->stored, layout_->dtype)) {
    *view = numbers;
    return true;
  }
  // Only single integers are widened.
  const uint64_t width = ElementBytes(layout_->dtype);
  if (count != 1 || width > sizeof(int64_t)) return false;
  const int64_t value = IntegerAt(layout_->stored, numbers.data());
  scratch->resize(width);
  std::memcpy(scratch->data(), &value, width);
  *view = *scratch;
  return true;
}

absl::Status BatchColumn::Read(int64_t row, std::vector<uint8_t>* scratch,
                               absl::Span<const uint8_t>* view) const {
  Range range = {.begin = row, .end = row + 1};
  for (const Level& level : levels_) {
    if (range.end > level.length) return Damaged();
    for (int64_t i = range.begin; level.validity != nullptr && i < range.end;
         ++i) {
      if (!IsValid(level.validity, i)) {
        return NullInRow(layout_->name, layout_->image);
      }
    }
    bool good = true;
    switch (level.kind) {
      case Kind::kStruct:
        break;
      case Kind::kFixedList:
        // Resolve() has checked the largest product.
        range = {.begin = range.begin * level.items,
                 .end = range.end * level.items};
        break;
      case Kind::kList32:
        good = EnterLists<int32_t>(level, &range);
        break;
      case Kind::kList64:
        good = EnterLists<int64_t>(level, &range);
        break;
      case Kind::kBinary32:
        good = ReadBinary<int32_t>(level, range.begin, view);
        break;
      case Kind::kBinary64:
        good = ReadBinary<int64_t>(level, range.begin, view);
        break;
      case Kind::kViews:
        good = ReadView(level, range.begin, view);
        break;
      case Kind::kNumbers:
      case Kind::kBits:
        good = ReadNumbers(level, range, scratch, view);
        break;
    }
    if (!good) return Damaged();
  }
  if (view->data() == nullptr) *view = {&kNothing, 0};
  return absl::OkStatus();
}

}  // namespace millrace::storage
