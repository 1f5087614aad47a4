// The answer to Open with a digest over the request and the answer, so that a
// client tells damage on the way from a server with other data: of the answer,
// and of the request, to which the server would have given a good answer for
// another pipeline.
//
// OpenResponse.answer_xxh3 is a digest at the end (message_digest.h) with
// XXH3-64 of the request's bytes as the seed.
//
// Pure functions.

#ifndef MILLRACE_PROTO_WIRE_OPEN_ANSWER_H_
#define MILLRACE_PROTO_WIRE_OPEN_ANSWER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

// The bytes of `answer` to the OpenRequest `request` with the digest. What
// answer_xxh3 holds is ignored. The digest covers fields of `answer` that this
// version does not know, too.
std::string SerializeOpenAnswer(absl::string_view request, OpenResponse answer);

// DataLoss: the bytes are no OpenResponse, or not what the server sent to this
// request. An answer without a digest (of a server of an earlier version) is
// taken as it is; with fields that this version does not know it is not, for a
// server that has those sends a digest.
absl::Status ParseOpenAnswer(absl::string_view request, absl::string_view bytes,
                             OpenResponse* answer);

}  // namespace millrace

#endif  // MILLRACE_PROTO_WIRE_OPEN_ANSWER_H_
