// The chunks of LitData (litdata 0.2): a folder with index.json and chunk
// files. A chunk is
//
//   u32 N | u32 offset[N + 1] | N samples | (a copy of the rows for pyarrow)
//
// and a sample is a record with the leaves of a tree of Python objects as its
// columns, all with their sizes (chunks/column_rule.h). Encrypted chunks,
// chunks of tokens and rows that are stored in Arrow's format alone are
// refused. Compressed chunks are raw ones once they are decompressed
// (unpack/unpacked_objects.h, litdata_batches.h). docs/formats.md lists the
// kinds of leaves and the fields that they become.
//
// Stateless, thread-safe.
//
//   MR_ASSIGN_OR_RETURN(ObjectList chunks, LitdataFormat().List("/data", {}));

#ifndef MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_FORMAT_H_
#define MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_FORMAT_H_

#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

const ExtentFormat& LitdataFormat();

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_FORMAT_H_
