// tar: shards as the webdataset library writes them. Consecutive members whose
// names agree up to the first dot form a sample (docs/formats.md, "Tar
// shards").

#ifndef MILLRACE_SERVER_STORAGE_TAR_TAR_FORMAT_H_
#define MILLRACE_SERVER_STORAGE_TAR_TAR_FORMAT_H_

#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

const ExtentFormat& TarFormat();

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TAR_TAR_FORMAT_H_
