#include "server/storage/parquet/page_rows.h"

#include <parquet/column_page.h>

#include <optional>
#include <utility>

namespace millrace::storage {
namespace {

// Of a map's and a list's node, beside what they hold.
constexpr uint64_t kNodeBytes = 128;

// The lists that begin in a page of version 1. Absent: the page begins inside a
// list, or its levels are damaged.
std::optional<int64_t> RowsOf(const parquet::DataPageV1& page,
                              int16_t max_repetition_level) {
  const int values = page.num_values();
  if (values == 0) return 0;
  parquet::LevelDecoder levels;
  levels.SetData(page.repetition_level_encoding(), max_repetition_level, values,
                 page.data(), page.size());
  int16_t first = -1;
  if (levels.Decode(1, &first) != 1 || first != 0) return std::nullopt;
  const auto rest = levels.CountUpTo(0, values - 1);
  if (rest.processed_count != values - 1) return std::nullopt;
  return 1 + rest.matching_count;
}

}  // namespace

uint64_t PageRows::BytesOf(const Bounds& bounds) {
  return bounds->capacity() * sizeof(int64_t) + sizeof(Entry) +
         2 * sizeof(Key) + kNodeBytes;
}

PageRows::Bounds PageRows::Find(const Key& key) {
  MutexLock lock(mu_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  lru_.splice(lru_.end(), lru_, found->second.place);
  return found->second.bounds;
}

void PageRows::Keep(const Key& key, Bounds bounds) {
  const uint64_t bytes = BytesOf(bounds);
  if (bytes > max_bytes_) return;
  MutexLock lock(mu_);
  // Another thread may have counted the same chunk.
  if (entries_.contains(key)) return;
  while (bytes > max_bytes_ - bytes_) {
    const auto oldest = entries_.find(lru_.front());
    bytes_ -= BytesOf(oldest->second.bounds);
    entries_.erase(oldest);
    lru_.pop_front();
  }
  bytes_ += bytes;
  entries_[key] = {.bounds = std::move(bounds),
                   .place = lru_.insert(lru_.end(), key)};
}

uint64_t PageRows::bytes() const {
  MutexLock lock(mu_);
  return bytes_;
}

PageRows::Bounds CountPageRows(parquet::PageReader& pages,
                               int16_t max_repetition_level, int64_t rows) {
  auto bounds = std::make_shared<std::vector<int64_t>>();
  int64_t at = 0;
  while (const std::shared_ptr<parquet::Page> page = pages.NextPage()) {
    std::optional<int64_t> in_page;
    if (page->type() == parquet::PageType::DATA_PAGE) {
      in_page = RowsOf(static_cast<const parquet::DataPageV1&>(*page),
                       max_repetition_level);
    } else if (page->type() == parquet::PageType::DATA_PAGE_V2) {
      in_page = static_cast<const parquet::DataPageV2&>(*page).num_rows();
    } else {
      continue;
    }
    if (!in_page.has_value()) return nullptr;
    bounds->push_back(at);
    at += *in_page;
  }
  if (at != rows) return nullptr;
  bounds->push_back(at);
  bounds->shrink_to_fit();
  return bounds;
}

}  // namespace millrace::storage
