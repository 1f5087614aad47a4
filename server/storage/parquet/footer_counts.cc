#include "server/storage/parquet/footer_counts.h"

#include <vector>

#include "server/storage/parquet/compact_reader.h"

namespace millrace::storage {
namespace {

// Upper bounds of the memory that Arrow 26 takes for a parsed footer, as
// mallinfo2() counts it: for each column chunk of a row group, for each name in
// the path of its column, for each row group, and for each element of the
// schema (several objects hold its name). Statistics and other fields take
// about their size in the file.
constexpr uint64_t kChunkBytes = 870;
constexpr uint64_t kPathNameBytes = 40;
constexpr uint64_t kGroupBytes = 130;
constexpr uint64_t kElementBytes = 900;
constexpr uint64_t kNameCopies = 5;

// A column chunk has eight mandatory fields of two bytes or more.
constexpr uint64_t kMinEncodedChunkBytes = 16;
// An element of the schema has a name (at least two bytes) and an end marker; a
// leaf also has a type.
constexpr uint64_t kMinEncodedElementBytes = 4;

// Field numbers of FileMetaData, SchemaElement, RowGroup, ColumnChunk and
// ColumnMetaData.
constexpr int64_t kSchemaField = 2;
constexpr int64_t kRowGroupsField = 4;
constexpr int64_t kNameField = 4;
constexpr int64_t kChildrenField = 5;
constexpr int64_t kChunksField = 1;
constexpr int64_t kChunkField = 3;
constexpr int64_t kPathField = 3;

// The schema is a list of elements, each before its children. False: the list
// is not a tree.
bool CountSchema(CompactReader& reader, FooterCounts* counts) {
  uint8_t type;
  const uint64_t elements = reader.ListHead(&type);
  if (type != CompactReader::kStruct || elements == 0) return false;
  // Sums, as for columns: a damaged footer may have two schemas.
  counts->elements += elements;
  // For each open element of the path: the number of children that are still to
  // come.
  std::vector<int64_t> open;
  absl::string_view column;
  for (uint64_t i = 0; i < elements; ++i) {
    absl::string_view name;
    int64_t children = 0;
    int64_t id = 0;
    uint8_t field;
    while (reader.NextField(&id, &field)) {
      if (id == kChildrenField && field == CompactReader::kI32) {
        children = reader.Int();
      } else if (id == kNameField && field == CompactReader::kBinary) {
        name = reader.Binary();
        counts->name_bytes += name.size();
      } else {
        reader.Skip(field);
      }
    }
    if (!reader.ok() || children < 0) return false;
    if (i > 0) {
      if (open.empty()) return false;
      --open.back();
    }
    if (open.size() == 1) column = name;
    if (children > 0) {
      open.push_back(children);
      continue;
    }
    ++counts->columns;
    counts->path_names += open.size();
    if (open.size() > counts->max_path_names) {
      counts->max_path_names = open.size();
      counts->deepest_column = std::string(column);
    }
    while (!open.empty() && open.back() == 0) open.pop_back();
  }
  return open.empty();
}

// The number of elements in lists, by the list headers: the parser allocates
// that many elements before it reads the first one.
struct Lists {
  uint64_t row_groups = 0;
  uint64_t chunks = 0;
  uint64_t path_names = 0;
  uint64_t elements = 0;
  uint64_t name_bytes = 0;  // bytes of these names
};

// Adds the number of elements to `*sum`, then skips the elements or calls
// `read` for each. False: the list is cut off.
template <typename Read>
bool CountList(CompactReader& reader, uint64_t* sum, Read read) {
  uint8_t element;
  const uint64_t count = reader.ListHead(&element);
  // Each element takes at least one byte.
  if (!reader.ok() || count > reader.rest().size()) return false;
  *sum += count;
  for (uint64_t i = 0; i < count && reader.ok(); ++i) read(element);
  return reader.ok();
}

// Calls `read` for the field `wanted` of a struct if the field has type
// `of_type`, and skips all other fields.
template <typename Read>
void ForField(CompactReader& reader, int64_t wanted, uint8_t of_type,
              Read read) {
  int64_t id = 0;
  uint8_t type;
  while (reader.NextField(&id, &type)) {
    if (id == wanted && type == of_type) {
      read();
    } else {
      reader.Skip(type);
    }
  }
}

bool CountRowGroups(CompactReader& reader, Lists* lists) {
  bool sound = true;
  const auto path = [&] {
    sound &= CountList(reader, &lists->path_names,
                       [&](uint8_t element) { reader.SkipElement(element); });
  };
  const auto chunk = [&](uint8_t) {
    ForField(reader, kChunkField, CompactReader::kStruct,
             [&] { ForField(reader, kPathField, CompactReader::kList, path); });
  };
  const auto row_group = [&](uint8_t) {
    ForField(reader, kChunksField, CompactReader::kList,
             [&] { sound &= CountList(reader, &lists->chunks, chunk); });
  };
  return CountList(reader, &lists->row_groups, row_group) && sound;
}

}  // namespace

uint64_t FooterCounts::ParsedBytes(uint64_t footer_bytes) const {
  return footer_bytes + elements * kElementBytes + name_bytes * kNameCopies +
         row_groups * (kGroupBytes + columns * kChunkBytes +
                       path_names * kPathNameBytes);
}

std::optional<FooterCounts> CountFooter(absl::string_view start,
                                        uint64_t footer_bytes) {
  CompactReader reader(start);
  FooterCounts counts;
  bool schema = false;
  bool row_groups = false;
  int64_t id = 0;
  uint8_t type;
  // Writers write fields in the order of their numbers; parsers accept any
  // order.
  while (!(schema && row_groups) && reader.NextField(&id, &type)) {
    if (id == kSchemaField && type == CompactReader::kList) {
      schema = CountSchema(reader, &counts);
      if (!schema) return std::nullopt;
    } else if (id == kRowGroupsField && type == CompactReader::kList) {
      uint8_t element;
      counts.row_groups = reader.ListHead(&element);
      row_groups = reader.ok();
      for (uint64_t i = 0; !schema && i < counts.row_groups && reader.ok();
           ++i) {
        reader.SkipElement(element);
      }
    } else {
      reader.Skip(type);
    }
  }
  if (!reader.ok() || !schema || !row_groups || counts.columns == 0 ||
      counts.row_groups >
          footer_bytes / kMinEncodedChunkBytes / counts.columns) {
    return std::nullopt;
  }
  return counts;
}

FooterCounts MaxFooterCounts(uint64_t footer_bytes) {
  return {.row_groups = 1,
          .columns = footer_bytes / kMinEncodedChunkBytes,
          .elements = footer_bytes / kMinEncodedElementBytes,
          .name_bytes = footer_bytes};
}

std::optional<uint64_t> ParsedBytesOf(absl::string_view footer) {
  CompactReader reader(footer);
  Lists lists;
  int64_t id = 0;
  uint8_t type;
  while (reader.NextField(&id, &type)) {
    if (id == kSchemaField && type == CompactReader::kList) {
      const auto element = [&](uint8_t) {
        ForField(reader, kNameField, CompactReader::kBinary,
                 [&] { lists.name_bytes += reader.Binary().size(); });
      };
      if (!CountList(reader, &lists.elements, element)) return std::nullopt;
    } else if (id == kRowGroupsField && type == CompactReader::kList) {
      if (!CountRowGroups(reader, &lists)) return std::nullopt;
    } else {
      reader.Skip(type);
    }
  }
  if (!reader.ok()) return std::nullopt;
  return footer.size() + lists.elements * kElementBytes +
         lists.name_bytes * kNameCopies + lists.row_groups * kGroupBytes +
         lists.chunks * kChunkBytes + lists.path_names * kPathNameBytes;
}

}  // namespace millrace::storage
