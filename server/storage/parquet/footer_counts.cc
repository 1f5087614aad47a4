#include "server/storage/parquet/footer_counts.h"

#include <vector>

#include "server/storage/parquet/compact_reader.h"

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

// Fields of FileMetaData and SchemaElement.
constexpr int64_t kSchemaField = 2;
constexpr int64_t kRowGroupsField = 4;
constexpr int64_t kChildrenField = 5;

// The schema is a list of its elements, each before its children. False: it is
// no tree.
bool CountSchema(CompactReader& reader, FooterCounts* counts) {
  uint8_t type;
  const uint64_t elements = reader.ListHead(&type);
  if (type != CompactReader::kStruct || elements == 0) return false;
  // Children that are still to come of each element on the way to the next one.
  std::vector<int64_t> open;
  for (uint64_t i = 0; i < elements; ++i) {
    int64_t children = 0;
    int64_t id = 0;
    uint8_t field;
    while (reader.NextField(&id, &field)) {
      if (id == kChildrenField && field == CompactReader::kI32) {
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
    if (id == kSchemaField && type == CompactReader::kList) {
      schema = CountSchema(reader, &counts);
      if (!schema) return std::nullopt;
    } else if (id == kRowGroupsField && type == CompactReader::kList) {
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
