// PageRows remembers the first row of each data page of column chunks of lists.
// Neither the page headers of version 1 nor the footer contain it, so finding
// it takes a pass over the chunk (CountPageRows()).
//
// Thread-safe. Keeps at most `max_bytes`, the chunks that were used last.
//
//   PageRows rows(1 << 20);
//   PageRows::Bounds bounds = rows.Find({shard, group, leaf});
//   if (bounds == nullptr) {
//     bounds = CountPageRows(*pages, max_repetition_level, group_rows);
//     rows.Keep({shard, group, leaf}, bounds);
//   }

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_PAGE_ROWS_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_PAGE_ROWS_H_

#include <parquet/column_reader.h>

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "common/mutex.h"

namespace millrace::storage {

class PageRows {
 public:
  struct Key {
    int shard = 0;
    int group = 0;
    int leaf = 0;  // Parquet's column
    auto operator<=>(const Key&) const = default;
  };
  // The first row of each data page, followed by the number of rows.
  using Bounds = std::shared_ptr<const std::vector<int64_t>>;

  // For the chunks of one shard file.
  struct OfShard {
    PageRows* rows = nullptr;
    int shard = 0;
  };

  explicit PageRows(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Null: not known.
  Bounds Find(const Key& key) MR_EXCLUDES(mu_);
  void Keep(const Key& key, Bounds bounds) MR_EXCLUDES(mu_);

  uint64_t bytes() const MR_EXCLUDES(mu_);

 private:
  struct Entry {
    Bounds bounds;
    std::list<Key>::iterator place;  // in lru_
  };
  static uint64_t BytesOf(const Bounds& bounds);

  const uint64_t max_bytes_;
  mutable Mutex mu_;
  std::map<Key, Entry> entries_ MR_GUARDED_BY(mu_);
  std::list<Key> lru_ MR_GUARDED_BY(mu_);  // the oldest first
  uint64_t bytes_ MR_GUARDED_BY(mu_) = 0;
};

// Counts the rows of all pages of a chunk of lists from their repetition
// levels; `rows` is the number of rows of the chunk. Null: a page begins inside
// a list, or the pages have another number of rows. Throws as Parquet does.
PageRows::Bounds CountPageRows(parquet::PageReader& pages,
                               int16_t max_repetition_level, int64_t rows);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_PAGE_ROWS_H_
