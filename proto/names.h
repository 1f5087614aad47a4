// The generated messages live in millrace::v1; the rest of the code is written
// against the current version and says millrace::PipelineSpec.

#ifndef MILLRACE_PROTO_NAMES_H_
#define MILLRACE_PROTO_NAMES_H_

namespace millrace {
namespace v1 {}
using namespace v1;  // NOLINT: this is the one place that picks the version
}  // namespace millrace

#endif  // MILLRACE_PROTO_NAMES_H_
