#include "server/storage/parquet/page_header.h"

#include <limits>

#include "server/storage/parquet/compact_reader.h"

namespace millrace::storage {
namespace {

// Field numbers of PageHeader, and of both versions of its inner headers.
constexpr int64_t kTypeField = 1;
constexpr int64_t kEncodedField = 2;
constexpr int64_t kStoredField = 3;
constexpr int64_t kDataField = 5;
constexpr int64_t kDataV2Field = 8;
constexpr int64_t kValuesField = 1;
// Of version 2.
constexpr int64_t kDefinitionBytesField = 5;
constexpr int64_t kRepetitionBytesField = 6;
constexpr int64_t kCompressedField = 7;

// A value of PageType.
constexpr int64_t kDataPageV2 = 3;

}  // namespace

std::optional<PageHeader> ParsePageHeader(absl::string_view bytes) {
  PageHeader header;
  CompactReader reader(bytes);
  int64_t id = 0;
  uint8_t type;
  int64_t definition_bytes = 0;
  int64_t repetition_bytes = 0;
  bool compressed = false;
  while (reader.NextField(&id, &type)) {
    if (type == CompactReader::kI32 && id == kTypeField) {
      header.type = reader.Int();
    } else if (type == CompactReader::kI32 && id == kEncodedField) {
      header.encoded = reader.Int();
    } else if (type == CompactReader::kI32 && id == kStoredField) {
      header.stored = reader.Int();
    } else if (type == CompactReader::kStruct &&
               (id == kDataField || id == kDataV2Field)) {
      int64_t inner = 0;
      while (reader.NextField(&inner, &type)) {
        if (type == CompactReader::kI32 && inner == kValuesField) {
          header.values = reader.Int();
        } else if (type == CompactReader::kI32 && id == kDataV2Field &&
                   inner == kDefinitionBytesField) {
          definition_bytes = reader.Int();
        } else if (type == CompactReader::kI32 && id == kDataV2Field &&
                   inner == kRepetitionBytesField) {
          repetition_bytes = reader.Int();
        } else {
          if (id == kDataV2Field && inner == kCompressedField) {
            compressed = type == CompactReader::kTrue;
          }
          reader.Skip(type);
        }
      }
    } else {
      reader.Skip(type);
    }
  }
  header.bytes = static_cast<int64_t>(bytes.size() - reader.rest().size());
  // The format has 32 bits; a larger number would overflow the position of the
  // next page.
  const auto fits = [](int64_t number) {
    return number >= 0 && number <= std::numeric_limits<int32_t>::max();
  };
  if (!reader.ok() || !fits(header.type) || !fits(header.encoded) ||
      !fits(header.stored) || !fits(header.values) || !fits(definition_bytes) ||
      !fits(repetition_bytes)) {
    return std::nullopt;
  }
  if (header.type == kDataPageV2) {
    header.levels = definition_bytes + repetition_bytes;
    header.compressed = compressed;
  }
  return header;
}

}  // namespace millrace::storage
