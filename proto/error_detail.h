// Where an error arose, attached to an absl::Status and carried over gRPC in
// the details of the grpc::Status.

#ifndef MILLRACE_PROTO_ERROR_DETAIL_H_
#define MILLRACE_PROTO_ERROR_DETAIL_H_

#include <cstddef>

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

// Longer names are cut: they are no help, and details travel in HTTP/2 headers.
inline constexpr size_t kMaxDetailNameBytes = 256;

// `status` with the fields of `detail` that are known; those that an inner
// stage has set already are kept. Names of files are any bytes: those that are
// not readable UTF-8 are escaped (common/clean_text.h). OK stays OK.
absl::Status WithErrorDetail(absl::Status status, const ErrorDetail& detail);

// "decode error in dataset photos, shard part-00001.parquet, row 17: ..."
std::string FormatError(const absl::Status& status);

}  // namespace millrace

#endif  // MILLRACE_PROTO_ERROR_DETAIL_H_
