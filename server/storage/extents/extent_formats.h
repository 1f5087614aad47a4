// The list of formats whose records are byte ranges of files. A new format is a
// folder beside this one and a line in extent_formats.cc.

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_FORMATS_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_FORMATS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

absl::Span<const ExtentFormat* const> ExtentFormats();

// The format of that scheme; null: there is none.
const ExtentFormat* FindExtentFormat(absl::string_view scheme);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_FORMATS_H_
