// IndexWithProgress makes the index of a dataset and shows how far it is, for
// the commands that index: `index` itself, and those that need the number of
// classes.
//
// Blocking. StopSignals ends it.
//
//   MR_ASSIGN_OR_RETURN(auto indexed,
//                       IndexWithProgress("tar:/data/0.tar", {}, false));

#ifndef MILLRACE_SERVER_DATA_TOOL_INDEXING_H_
#define MILLRACE_SERVER_DATA_TOOL_INDEXING_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/storage/index_dataset.h"
#include "server/storage/open_options.h"

namespace millrace::data_tool {

// As storage::IndexDataset(). The progress line has ended when it returns.
absl::StatusOr<storage::IndexedDataset> IndexWithProgress(
    const std::string& uri, const storage::OpenSourceOptions& options,
    bool headers_only);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_INDEXING_H_
