// What a user can do about a sample that cannot be read. The server's sentence
// fits every client. Programs that end with such an error say more in its
// place: what to write into which file. millrace-train has a longer sentence,
// which names the flag of the pipeline that met the sample.
//
// Pure functions, safe from any thread.
//
//   return WithPolicyHint(status);             // the server
//   return Report(WithBadSampleHint(status));  // a program

#ifndef MILLRACE_PROTO_BAD_SAMPLE_HINT_H_
#define MILLRACE_PROTO_BAD_SAMPLE_HINT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// A clause for the end of an error.
inline constexpr absl::string_view kVerifyHint =
    "`millrace-data verify` names all damaged samples of a dataset";

// `status`, with the policies for damaged samples behind the message of a
// DataLoss that names a sample. Code and payloads stay; another status stays as
// it is.
absl::Status WithPolicyHint(const absl::Status& status);

// The reverse.
absl::Status WithoutPolicyHint(const absl::Status& status);

// The same with kVerifyHint and what to write, in the place of the server's
// hint.
absl::Status WithBadSampleHint(const absl::Status& status);

}  // namespace millrace

#endif  // MILLRACE_PROTO_BAD_SAMPLE_HINT_H_
