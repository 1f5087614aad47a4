// Replaces Parquet in a build with --define=parquet=off.

#include "server/storage/parquet/parquet_format.h"

namespace millrace::storage {

const ShardFormat* ParquetFormat() { return nullptr; }

}  // namespace millrace::storage
