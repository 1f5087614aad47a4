#include "server/storage/parquet/page_sizes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/storage/parquet/codec_memory.h"
#include "server/storage/parquet/page_header.h"

namespace millrace::storage {
namespace {

// Nearly all headers are shorter; statistics can make them longer.
constexpr int64_t kFirstBytes = 1 << 10;

// Values of PageType.
constexpr int64_t kDataPage = 0;
constexpr int64_t kDictionaryPage = 2;
constexpr int64_t kDataPageV2 = 3;

// Updates the largest value and the second largest one.
bool Raise(uint64_t bytes, uint64_t* largest, uint64_t* next) {
  *next = std::max(*next, std::min(bytes, *largest));
  if (bytes <= *largest) return false;
  *largest = bytes;
  return true;
}

}  // namespace

arrow::Result<PageSizes> ReadPageSizes(arrow::io::RandomAccessFile& file,
                                       const ChunkPlace& place,
                                       arrow::Compression::type codec) {
  PageSizes sizes;
  std::string bytes;
  const int64_t end = place.begin + place.bytes;
  for (int64_t at = place.begin; at < end;) {
    std::optional<PageHeader> header;
    for (int64_t size = kFirstBytes; !header.has_value(); size *= 4) {
      const int64_t asked = std::min(size, end - at);
      bytes.resize(asked);
      ARROW_ASSIGN_OR_RAISE(const int64_t got,
                            file.ReadAt(at, asked, bytes.data()));
      header = ParsePageHeader(absl::string_view(bytes).substr(0, got));
      if (!header.has_value() && (got < size || size >= kMaxPageHeaderBytes)) {
        return arrow::Status::Invalid("the header of a page is invalid");
      }
    }
    sizes.header = std::max(sizes.header, header->bytes);
    const int64_t body = header->bytes + header->levels;
    uint8_t first = 0;
    if (body < static_cast<int64_t>(bytes.size())) {
      first = static_cast<uint8_t>(bytes[body]);
    } else {
      ARROW_RETURN_NOT_OK(file.ReadAt(at + body, 1, &first).status());
    }
    sizes.codec = std::max(sizes.codec, CodecBytes(codec, first));
    const auto stored = static_cast<uint64_t>(header->stored);
    const auto encoded = static_cast<uint64_t>(header->encoded);
    if (header->type == kDictionaryPage) {
      sizes.dictionary_stored = stored;
      sizes.dictionary = encoded;
    } else if (header->type == kDataPage || header->type == kDataPageV2) {
      ++sizes.data_pages;
      Raise(stored, &sizes.stored, &sizes.stored_next);
      if (Raise(encoded, &sizes.encoded, &sizes.encoded_next)) {
        sizes.values = static_cast<uint64_t>(header->values);
      }
    }
    at += header->bytes + header->stored;
  }
  return sizes;
}

}  // namespace millrace::storage
