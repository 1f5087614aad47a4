// Names the columns of a chunk data set whose values the server does not
// interpret, though the writer stored more than bytes or text: pickled objects,
// lists, arrays of odd types. Their fields hold the stored bytes.
//
// Pure function, safe from any thread.

#ifndef MILLRACE_SERVER_STORAGE_CHUNKS_BYTES_NOTE_H_
#define MILLRACE_SERVER_STORAGE_CHUNKS_BYTES_NOTE_H_

#include <string>
#include <vector>

#include "server/storage/chunks/column_rule.h"
#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

struct StoredColumn {
  std::string name;
  std::string encoding;  // as the writer calls it
  // Bytes or text: no more is expected of it.
  bool plain = false;
};

// For ExtentFormat::Notes(): one sentence about those of `columns` whose field
// is bytes, though they are not plain and the option `ragged` does not name
// them; none: there are none.
std::vector<std::string> BytesNotes(const std::vector<StoredColumn>& columns,
                                    const FormatOptions& options,
                                    const ColumnRule& rule);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CHUNKS_BYTES_NOTE_H_
