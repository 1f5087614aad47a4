// The outputs of a pipeline as a flag names them: --outputs=image,label. The
// server says what is wrong with a field; only the form is checked here.
//
// Pure function, safe from any thread.
//
//   MR_RETURN_IF_ERROR(SelectOutputs("image,label", spec));

#ifndef MILLRACE_PROTO_OUTPUT_NAMES_H_
#define MILLRACE_PROTO_OUTPUT_NAMES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

// Makes the fields of `names`, separated by commas, the outputs of `spec`, in
// that order. A field that the spec lists already keeps its name, type and
// layout; every other output goes. Empty `names`: the spec stays as it is.
// InvalidArgument: an empty name, or one twice.
absl::Status SelectOutputs(absl::string_view names, PipelineSpec& spec);

}  // namespace millrace

#endif  // MILLRACE_PROTO_OUTPUT_NAMES_H_
