// Where an error arose, attached to an absl::Status and carried over gRPC in
// the details of the grpc::Status.

#ifndef MILLRACE_PROTO_ERROR_DETAIL_H_
#define MILLRACE_PROTO_ERROR_DETAIL_H_

#include "absl/status/status.h"
#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace {

// Fills `row` and `sample` with "not known".
ErrorDetail MakeErrorDetail(absl::string_view stage);

// The detail of `status`; all unknown when it carries none.
ErrorDetail GetErrorDetail(const absl::Status& status);

// Whether `status` carries one. What a data server answers over gRPC always
// does; a status without one was made by gRPC or by a proxy on the way.
bool HasErrorDetail(const absl::Status& status);

// `status` with the fields of `detail` that are known; those that an inner
// stage has set already are kept. OK stays OK.
absl::Status WithErrorDetail(absl::Status status, const ErrorDetail& detail);

// "decode error in dataset photos, shard part-00001.parquet, row 17: ..."
std::string FormatError(const absl::Status& status);

}  // namespace millrace

#endif  // MILLRACE_PROTO_ERROR_DETAIL_H_
