#include "server/storage/parquet/footer_counts.h"

#include <vector>

namespace millrace {
namespace {

// Upper bounds of what Arrow 26 takes for a parsed footer, as mallinfo2()
// counts it: for a column chunk of a row group, for each name in the path of
// its column and for a row group. Statistics, names and the rest take about
// what they have in the file.
constexpr uint64_t kChunkBytes = 870;
constexpr uint64_t kPathNameBytes = 40;
constexpr uint64_t kGroupBytes = 130;

// A column chunk has eight fields that must be there, of two bytes or more.
constexpr uint64_t kLeastEncodedChunkBytes = 16;

// Deeper structs are no footer's.
constexpr int kMaxDepth = 16;
constexpr int64_t kMaxFieldId = 32767;

// Of the compact protocol.
enum Type : uint8_t {
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12,
};

// Fields of FileMetaData and SchemaElement.
constexpr int64_t kSchemaField = 2;
constexpr int64_t kRowGroupsField = 4;
constexpr int64_t kChildrenField = 5;

// Reads the compact protocol; past the end, and past what makes no sense, it
// gives zeros and is not ok().
class CompactReader {
 public:
  explicit CompactReader(absl::string_view in) : in_(in) {}

  bool ok() const { return ok_; }

  // The next field of a struct; false at its end. `*id` is that of the field
  // before, 0 at first.
  bool NextField(int64_t* id, uint8_t* type) {
    const uint8_t head = Byte();
    if (!ok_ || head == 0) return false;
    *type = head & 0x0F;
    *id = head >> 4 == 0 ? Int() : *id + (head >> 4);
    ok_ = ok_ && *id >= 0 && *id <= kMaxFieldId;
    return ok_;
  }

  // The number of elements of a list.
  uint64_t ListHead(uint8_t* type) {
    const uint8_t head = Byte();
    *type = head & 0x0F;
    return head >> 4 == 15 ? Varint() : head >> 4;
  }

  int64_t Int() {
    const uint64_t zigzag = Varint();
    return static_cast<int64_t>(zigzag >> 1) ^
           -static_cast<int64_t>(zigzag & 1);
  }

  // A value of a field.
  void Skip(uint8_t type, int depth = 0) {
    if (depth == kMaxDepth) ok_ = false;
    if (!ok_) return;
    switch (type) {
      case kTrue:
      case kFalse:
        return;  // the type is the value
      case kByte:
        Drop(1);
        return;
      case kI16:
      case kI32:
      case kI64:
        Varint();
        return;
      case kDouble:
        Drop(8);
        return;
      case kBinary:
        Drop(Varint());
        return;
      case kList:
      case kSet: {
        uint8_t element;
        const uint64_t count = ListHead(&element);
        for (uint64_t i = 0; i < count && ok_; ++i) {
          SkipElement(element, depth);
        }
        return;
      }
      case kMap: {
        const uint64_t count = Varint();
        const uint8_t types = count == 0 ? 0 : Byte();
        for (uint64_t i = 0; i < count && ok_; ++i) {
          SkipElement(types >> 4, depth);
          SkipElement(types & 0x0F, depth);
        }
        return;
      }
      case kStruct: {
        int64_t id = 0;
        uint8_t field;
        while (NextField(&id, &field)) Skip(field, depth + 1);
        return;
      }
      default:
        ok_ = false;
    }
  }

 private:
  // Of a list or map, where a truth value is a byte.
  void SkipElement(uint8_t type, int depth) {
    if (type == kTrue || type == kFalse) {
      Drop(1);
    } else {
      Skip(type, depth + 1);
    }
  }

  uint8_t Byte() {
    if (in_.empty()) ok_ = false;
    if (!ok_) return 0;
    const auto byte = static_cast<uint8_t>(in_.front());
    in_.remove_prefix(1);
    return byte;
  }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      value |= uint64_t{byte & 0x7Fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    ok_ = false;
    return 0;
  }

  void Drop(uint64_t bytes) {
    if (bytes > in_.size()) ok_ = false;
    if (ok_) in_.remove_prefix(bytes);
  }

  absl::string_view in_;
  bool ok_ = true;
};

// The schema is a list of its elements, each before its children. False: it is
// no tree.
bool CountSchema(CompactReader& reader, FooterCounts* counts) {
  uint8_t type;
  const uint64_t elements = reader.ListHead(&type);
  if (type != kStruct || elements == 0) return false;
  // Children that are still to come of each element on the way to the next one.
  std::vector<int64_t> open;
  for (uint64_t i = 0; i < elements; ++i) {
    int64_t children = 0;
    int64_t id = 0;
    uint8_t field;
    while (reader.NextField(&id, &field)) {
      if (id == kChildrenField && field == kI32) {
        children = reader.Int();
      } else {
        reader.Skip(field);
      }
    }
    if (!reader.ok() || children < 0) return false;
    if (i > 0) {
      if (open.empty()) return false;
      --open.back();
    }
    if (children > 0) {
      open.push_back(children);
      continue;
    }
    ++counts->columns;
    counts->path_names += open.size();
    while (!open.empty() && open.back() == 0) open.pop_back();
  }
  return open.empty();
}

}  // namespace

uint64_t FooterCounts::ParsedBytes(uint64_t footer_bytes) const {
  return footer_bytes + row_groups * (kGroupBytes + columns * kChunkBytes +
                                      path_names * kPathNameBytes);
}

std::optional<FooterCounts> CountFooter(absl::string_view start,
                                        uint64_t footer_bytes) {
  CompactReader reader(start);
  FooterCounts counts;
  bool schema = false;
  int64_t id = 0;
  uint8_t type;
  // Writers put the fields in the order of their numbers.
  while (reader.NextField(&id, &type)) {
    if (id == kSchemaField && type == kList) {
      schema = CountSchema(reader, &counts);
      if (!schema) return std::nullopt;
    } else if (id == kRowGroupsField && type == kList) {
      uint8_t element;
      counts.row_groups = reader.ListHead(&element);
      if (!reader.ok() || !schema || counts.columns == 0 ||
          counts.row_groups >
              footer_bytes / kLeastEncodedChunkBytes / counts.columns) {
        return std::nullopt;
      }
      return counts;
    } else {
      reader.Skip(type);
    }
  }
  return std::nullopt;
}

}  // namespace millrace
