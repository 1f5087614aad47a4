// Replaces Arrow's files in a build with --define=parquet=off.

#include "server/storage/arrow/arrow_format.h"

namespace millrace::storage {

const ShardFormat* ArrowFormat() { return nullptr; }

}  // namespace millrace::storage
