#include "server/storage/parquet/page_sizes.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/storage/parquet/compact_reader.h"

namespace millrace {
namespace {

// A header is shorter in nearly all files; statistics can make it longer.
constexpr int64_t kFirstBytes = 1 << 10;
constexpr int64_t kMostBytes = 1 << 20;

// Fields of PageHeader, and of the headers of both versions in it.
constexpr int64_t kTypeField = 1;
constexpr int64_t kEncodedField = 2;
constexpr int64_t kStoredField = 3;
constexpr int64_t kDataField = 5;
constexpr int64_t kDataV2Field = 8;
constexpr int64_t kValuesField = 1;

// PageType.
constexpr int64_t kDataPage = 0;
constexpr int64_t kDictionaryPage = 2;
constexpr int64_t kDataPageV2 = 3;

struct Header {
  int64_t type = -1;
  int64_t encoded = -1;
  int64_t stored = -1;
  int64_t values = 0;
  int64_t bytes = 0;  // its own
};

bool Parse(absl::string_view bytes, Header* header) {
  CompactReader reader(bytes);
  int64_t id = 0;
  uint8_t type;
  while (reader.NextField(&id, &type)) {
    if (type == CompactReader::kI32 && id == kTypeField) {
      header->type = reader.Int();
    } else if (type == CompactReader::kI32 && id == kEncodedField) {
      header->encoded = reader.Int();
    } else if (type == CompactReader::kI32 && id == kStoredField) {
      header->stored = reader.Int();
    } else if (type == CompactReader::kStruct &&
               (id == kDataField || id == kDataV2Field)) {
      int64_t inner = 0;
      while (reader.NextField(&inner, &type)) {
        if (type == CompactReader::kI32 && inner == kValuesField) {
          header->values = reader.Int();
        } else {
          reader.Skip(type);
        }
      }
    } else {
      reader.Skip(type);
    }
  }
  header->bytes = static_cast<int64_t>(bytes.size() - reader.rest().size());
  // 32 bits in the format; more would overflow the position of the next page.
  const auto fits = [](int64_t number) {
    return number >= 0 && number <= std::numeric_limits<int32_t>::max();
  };
  return reader.ok() && fits(header->encoded) && fits(header->stored) &&
         fits(header->values);
}

// The largest, and the next one.
bool Raise(uint64_t bytes, uint64_t* largest, uint64_t* next) {
  *next = std::max(*next, std::min(bytes, *largest));
  if (bytes <= *largest) return false;
  *largest = bytes;
  return true;
}

}  // namespace

arrow::Result<PageSizes> ReadPageSizes(arrow::io::RandomAccessFile& file,
                                       const ChunkPlace& place) {
  PageSizes sizes;
  std::string bytes;
  const int64_t end = place.begin + place.bytes;
  for (int64_t at = place.begin; at < end;) {
    Header header;
    bool parsed = false;
    for (int64_t size = kFirstBytes; !parsed; size *= 4) {
      const int64_t asked = std::min(size, end - at);
      bytes.resize(asked);
      ARROW_ASSIGN_OR_RAISE(const int64_t got,
                            file.ReadAt(at, asked, bytes.data()));
      header = Header();
      parsed = Parse(absl::string_view(bytes).substr(0, got), &header);
      if (!parsed && (got < size || size >= kMostBytes)) {
        return arrow::Status::Invalid("the header of a page is invalid");
      }
    }
    const auto stored = static_cast<uint64_t>(header.stored);
    const auto encoded = static_cast<uint64_t>(header.encoded);
    if (header.type == kDictionaryPage) {
      sizes.dictionary_stored = stored;
      sizes.dictionary = encoded;
    } else if (header.type == kDataPage || header.type == kDataPageV2) {
      ++sizes.data_pages;
      Raise(stored, &sizes.stored, &sizes.stored_next);
      if (Raise(encoded, &sizes.encoded, &sizes.encoded_next)) {
        sizes.values = static_cast<uint64_t>(header.values);
      }
    }
    at += header.bytes + header.stored;
  }
  return sizes;
}

}  // namespace millrace
