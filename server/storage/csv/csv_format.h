// csv: serves the image files that a table names as they are
// (docs/formats.md, "Tables of paths and labels").
//
// Thread-safe.

#ifndef MILLRACE_SERVER_STORAGE_CSV_CSV_FORMAT_H_
#define MILLRACE_SERVER_STORAGE_CSV_CSV_FORMAT_H_

#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

const ExtentFormat& CsvFormat();

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CSV_CSV_FORMAT_H_
