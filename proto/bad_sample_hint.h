// What a user can do about a sample that cannot be read: for programs that end
// with such an error. millrace-train has a longer sentence, which names the
// flag of the pipeline that met the sample.
//
// Pure function, safe from any thread.
//
//   return Report(WithBadSampleHint(status));

#ifndef MILLRACE_PROTO_BAD_SAMPLE_HINT_H_
#define MILLRACE_PROTO_BAD_SAMPLE_HINT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// A clause for the end of an error.
inline constexpr absl::string_view kVerifyHint =
    "`millrace-data verify` names all damaged samples of a dataset";

// `status`, with kVerifyHint and the policies for damaged samples behind the
// message of a DataLoss that names a sample. Code and payloads stay; another
// status stays as it is.
absl::Status WithBadSampleHint(const absl::Status& status);

}  // namespace millrace

#endif  // MILLRACE_PROTO_BAD_SAMPLE_HINT_H_
