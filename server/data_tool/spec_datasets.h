// Which dataset of the command line each source of a pipeline file means: the
// first --dataset is the first name among the sources, and so on.
//
// Pure functions.
//
//   NameSource(uris[0], spec);
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

namespace millrace::data_tool {

using NamedDatasets =
    std::map<std::string, std::shared_ptr<const storage::RecordSource>>;

// Names the source of a spec that names none after the file or folder of `uri`,
// as a person would: "photos" of "lmdb:/data/photos.lmdb".
void NameSource(const std::string& uri, PipelineSpec& spec);

// A spec without a source, or whose one source has no name, is given "NAME".
// InvalidArgument, a usage error: the spec names more or fewer datasets than
// there are, or its source is synthetic.
absl::StatusOr<NamedDatasets> NameDatasets(
    const std::vector<std::shared_ptr<const storage::RecordSource>>& datasets,
    PipelineSpec& spec);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_SPEC_DATASETS_H_
