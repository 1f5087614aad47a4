// MDS, the format of MosaicML Streaming (mosaicml-streaming 0.13): a folder
// with index.json and shards. A shard is
//
//   u32 N | u32 offset[N + 1] | config as JSON | N samples
//
// and a sample is a record of sized columns (chunks/column_rule.h). Shards of
// other formats (CSV, JSON) are refused. Compressed shards are raw ones once
// they are decompressed (unpack/unpacked_objects.h). docs/formats.md lists the
// encodings of columns and the fields that they become.
//
// Stateless, thread-safe.
//
//   MR_ASSIGN_OR_RETURN(ObjectList shards, MdsFormat().List("/data/mds", {}));

#ifndef MILLRACE_SERVER_STORAGE_MDS_MDS_FORMAT_H_
#define MILLRACE_SERVER_STORAGE_MDS_MDS_FORMAT_H_

#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

const ExtentFormat& MdsFormat();

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_MDS_MDS_FORMAT_H_
