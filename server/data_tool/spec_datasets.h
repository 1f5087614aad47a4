// Which dataset of the command line each source of a pipeline file means: the
// first --dataset is the first name among the sources, and so on.
//
// Pure function.
//
//   MR_ASSIGN_OR_RETURN(auto named, NameDatasets(datasets, spec));

#ifndef MILLRACE_SERVER_DATA_TOOL_SPEC_DATASETS_H_
#define MILLRACE_SERVER_DATA_TOOL_SPEC_DATASETS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/storage/record_source.h"

namespace millrace {

using NamedDatasets =
    std::map<std::string, std::shared_ptr<const RecordSource>>;

// A spec without a source, or whose one source has no name, is given "NAME".
// InvalidArgument, a usage error: the spec names more or fewer datasets than
// there are, or its source is synthetic.
absl::StatusOr<NamedDatasets> NameDatasets(
    const std::vector<std::shared_ptr<const RecordSource>>& datasets,
    PipelineSpec& spec);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_SPEC_DATASETS_H_
