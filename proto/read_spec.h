// A pipeline spec from a text file: the value of --pipeline=FILE.
//
// Safe from any thread; reads the disk.
//
//   MR_ASSIGN_OR_RETURN(PipelineSpec spec, ReadSpecFile("my.textproto"));

#ifndef MILLRACE_PROTO_READ_SPEC_H_
#define MILLRACE_PROTO_READ_SPEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

// Errors have the mark of UsageError(): the file cannot be read, or is no
// pipeline ("FILE:LINE:COLUMN: what is wrong").
absl::StatusOr<PipelineSpec> ReadSpecFile(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_PROTO_READ_SPEC_H_
