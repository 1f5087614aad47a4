#include "server/storage/lmdb/lmdb_header.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/status_macros.h"
#include "server/storage/page_load.h"

namespace millrace::storage {
namespace {

// A meta page of LMDB's data format 1 on a 64-bit machine: 16 bytes of page
// header, then magic u32, version u32, address u64, map size u64, two database
// records of 48 bytes (the free list and the main database), last page u64,
// transaction u64. In each record, the flags u16 follow the first u32; the
// first u32 of the first record is the page size.
constexpr uint32_t kMagic = 0xBEEFC0DE;
constexpr uint32_t kVersion = 1;
constexpr uint16_t kMetaPageFlag = 0x08;
constexpr uint64_t kFlagsAt = 10;
constexpr uint64_t kMagicAt = 16;
constexpr uint64_t kVersionAt = 20;
constexpr uint64_t kPageSizeAt = 40;
constexpr uint64_t kMainAt = kPageSizeAt + 48;
constexpr uint64_t kMainFlagsAt = kMainAt + 4;
constexpr uint64_t kMainEntriesAt = kMainAt + 32;
constexpr uint64_t kMainRootAt = kMainAt + 40;
constexpr uint64_t kLastPageAt = kMainAt + 48;
constexpr uint64_t kTransactionAt = kLastPageAt + 8;
constexpr uint64_t kMetaBytes = kTransactionAt + 8;

struct Meta {
  uint32_t page_size;
  uint16_t flags;
  uint64_t entries;
  uint64_t root;
  uint64_t last_page;
  uint64_t transaction;
};

std::optional<Meta> ParseMeta(absl::Span<const uint8_t> start, uint64_t at) {
  if (start.size() < kMetaBytes || at > start.size() - kMetaBytes) {
    return std::nullopt;
  }
  const uint8_t* page = start.data() + at;
  if ((PageLoad<uint16_t>(page + kFlagsAt) & kMetaPageFlag) == 0 ||
      PageLoad<uint32_t>(page + kMagicAt) != kMagic ||
      PageLoad<uint32_t>(page + kVersionAt) != kVersion) {
    return std::nullopt;
  }
  return Meta{.page_size = PageLoad<uint32_t>(page + kPageSizeAt),
              .flags = PageLoad<uint16_t>(page + kMainFlagsAt),
              .entries = PageLoad<uint64_t>(page + kMainEntriesAt),
              .root = PageLoad<uint64_t>(page + kMainRootAt),
              .last_page = PageLoad<uint64_t>(page + kLastPageAt),
              .transaction = PageLoad<uint64_t>(page + kTransactionAt)};
}

}  // namespace

absl::StatusOr<LmdbHeader> ParseLmdbHeader(absl::Span<const uint8_t> start,
                                           uint64_t file_bytes) {
  if (file_bytes == 0) return absl::DataLossError("the file is empty");
  const std::optional<Meta> first = ParseMeta(start, 0);
  if (!first.has_value()) {
    return absl::DataLossError(
        start.size() < kMetaBytes
            ? "the file is too short for an LMDB file"
            : "the file is not an LMDB file of this kind of machine");
  }
  const uint64_t page_size = first->page_size;
  if (page_size < 512 || page_size > 65536 || !std::has_single_bit(page_size)) {
    return absl::DataLossError("the LMDB file's first page is damaged");
  }
  const std::optional<Meta> second = ParseMeta(start, page_size);
  if (!second.has_value() || second->page_size != page_size) {
    return absl::DataLossError(file_bytes < 2 * page_size
                                   ? "the LMDB file is truncated"
                                   : "the LMDB file's second page is damaged");
  }
  // LMDB uses the newer of the two meta pages.
  const Meta& meta =
      first->transaction >= second->transaction ? *first : *second;
  if (meta.last_page >= UINT64_MAX / page_size ||
      (meta.last_page + 1) * page_size > file_bytes) {
    return absl::DataLossError(absl::StrCat(
        "the LMDB file is truncated: it has ", FormatExactByteSize(file_bytes),
        ", and its last page is number ", meta.last_page, " of pages of ",
        FormatByteSize(page_size)));
  }
  if (meta.flags != 0) {
    return absl::DataLossError(
        "the LMDB file has another order of keys or several values for a key: "
        "its first pages are damaged, or another program wrote the file");
  }
  // The root UINT64_MAX marks an empty tree.
  if (meta.root != UINT64_MAX &&
      (meta.root > meta.last_page || meta.root < 2)) {
    return absl::DataLossError("the LMDB file's tree has no root");
  }
  return LmdbHeader{.page_size = first->page_size,
                    .pages = meta.last_page + 1,
                    .entries = meta.entries,
                    .root = meta.root,
                    .transaction = meta.transaction};
}

absl::StatusOr<LmdbHeader> ReadLmdbHeader(const MappedFile& file) {
  // Copied, because the file may change between two reads.
  std::vector<uint8_t> start(
      std::min<uint64_t>(kLmdbHeaderBytes, file.data().size()));
  MR_ASSIGN_OR_RETURN(const uint64_t length,
                      file.Read(0, absl::MakeSpan(start)));
  absl::StatusOr<LmdbHeader> header = ParseLmdbHeader(
      absl::MakeConstSpan(start).first(length), file.data().size());
  if (!header.ok()) {
    return absl::Status(
        header.status().code(),
        absl::StrCat(file.path(), ": ", header.status().message(),
                     "; copy the file again, or write it with `millrace-data "
                     "pack`"));
  }
  return header;
}

}  // namespace millrace::storage
