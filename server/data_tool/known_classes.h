// Opens a dataset for commands that compare or copy its schema: the number of
// classes of records in files may be known only after all records were read
// (docs/formats.md, "Records in files").
//
// Thread-safe.
//
//   MR_ASSIGN_OR_RETURN(auto opened, OpenWithClasses(uri, options, false));
//   Use(*opened.source);
//   if (!opened.doubt.empty()) Warn("diff", {opened.doubt});

#ifndef MILLRACE_SERVER_DATA_TOOL_KNOWN_CLASSES_H_
#define MILLRACE_SERVER_DATA_TOOL_KNOWN_CLASSES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"

namespace millrace::data_tool {

struct OpenedSource {
  std::unique_ptr<storage::RecordSource> source;
  // Why the number of classes is not known: a sentence; empty: it is known, or
  // no field can be a class index.
  std::string doubt;
};

// Opens `uri`. Makes the index with the content, as `millrace-data index` does,
// if the classes are not known without it; shows the progress. `skip_bad`:
// damaged records leave the classes unknown; otherwise they are an error
// (DataLoss). Cancelled: interrupted. Others as OpenRecordSource().
absl::StatusOr<OpenedSource> OpenWithClasses(
    const std::string& uri, const storage::OpenSourceOptions& options,
    bool skip_bad);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_KNOWN_CLASSES_H_
