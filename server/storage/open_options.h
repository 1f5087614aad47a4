// How a dataset is opened; see open.h.

#ifndef MILLRACE_SERVER_STORAGE_OPEN_OPTIONS_H_
#define MILLRACE_SERVER_STORAGE_OPEN_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "common/byte_budget.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::operators {
class Operators;
}  // namespace millrace::operators

namespace millrace::storage {

struct OpenSourceOptions {
  // Budget that decoded Parquet row groups are charged to; null: none is kept
  // beyond the one that a reader is working on. Must outlive the source.
  ByteBudget* cache_budget = nullptr;
  // Most bytes of decoded row groups that this source may keep.
  uint64_t cache_bytes = 256 << 20;
  // The setting for a cache of this size, for errors: a part of a
  // sentence; null: there is none.
  std::function<std::string(uint64_t bytes)> cache_advice;
  // Budget that what is kept of the files' footers is charged to, by an
  // estimate and before they are parsed, and the list of an image folder's
  // files and the largest of them; null: any footer or list is. Must outlive
  // the source.
  ByteBudget* metadata_budget = nullptr;
  // As cache_advice, for footers of this size, or an image folder whose list
  // and largest file have it, beside what is charged to the budget. `known`:
  // the description of the dataset; null: it is not known yet.
  std::function<std::string(uint64_t bytes, const DatasetInfo* known)>
      metadata_advice;
  // Budget for the files of an image folder that its readers hold while they
  // read them. The largest file is charged to `metadata_budget`, so that it can
  // always be read; the files that are read beside it are charged to this one.
  // Null: readers are not bounded, and nothing is charged. Must outlive the
  // source.
  ByteBudget* read_budget = nullptr;
  // Most bytes of `read_budget` that this source takes.
  uint64_t read_bytes = 0;
  // Folder for indices of image folders; empty: the user's default
  // ($XDG_CACHE_HOME/millrace, or ~/.cache/millrace); "off": none.
  std::string cache_dir;
  // An index with the hash of the content is neither replaced by one without it
  // nor removed, whatever the files are now. The dataset then has the hashes of
  // that index, to be compared with the files. DataLoss: it does not have as
  // many samples as the index.
  bool keep_content_index = false;
  // Libraries whose sources may read it; null: none.
  const operators::Operators* operators = nullptr;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_OPEN_OPTIONS_H_
