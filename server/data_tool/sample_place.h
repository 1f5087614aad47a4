// Where a sample lies, as sentences name it.
//
// Pure functions, safe from any thread.
//
//   PlaceOf(*source, 17)  ->  "shard part-00001-of-00002.lmdb, row 3"

#ifndef MILLRACE_SERVER_DATA_TOOL_SAMPLE_PLACE_H_
#define MILLRACE_SERVER_DATA_TOOL_SAMPLE_PLACE_H_

#include <cstdint>
#include <string>

#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/record_source.h"

namespace millrace::data_tool {

// Index of the shard that contains `sample`, which exists.
int ShardOf(const DatasetInfo& info, int64_t sample);

// The shard and the row, or the file where each sample is a file of its own
// ("file cat/1.jpg").
std::string PlaceOf(const storage::RecordSource& source, int64_t sample);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_SAMPLE_PLACE_H_
