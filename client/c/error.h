// Where C++ ends: what every function of millrace.h runs in. Statuses and
// exceptions become a millrace_status and a millrace_error; nothing is thrown
// out of Guarded().
//
// Safe from any thread.
//
//   millrace_status millrace_loader_seek(..., millrace_error** error) {
//     return c::Guarded(error, [&] { return loader->Seek({epoch, step}); });
//   }

#ifndef MILLRACE_CLIENT_C_ERROR_H_
#define MILLRACE_CLIENT_C_ERROR_H_

#include <cstddef>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/c/millrace.h"

namespace millrace::c {

// A function that may wait: false when its time is over without a result.
using Ready = absl::StatusOr<bool>;

// The exception that is being handled, as a status. Only in a catch block.
absl::Status StatusOfException() noexcept;

// The code of `status`; sets `*error`, if there is one, as millrace.h says.
millrace_status Report(const absl::Status& status,
                       millrace_error** error) noexcept;

// Runs `body`, which returns absl::Status or Ready.
template <typename Body>
millrace_status Guarded(millrace_error** error, const Body& body) noexcept {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<Body>, Ready>) {
      const Ready ready = body();
      const millrace_status status = Report(ready.status(), error);
      return ready.ok() && !*ready ? MILLRACE_STATUS_NOT_READY : status;
    } else {
      return Report(body(), error);
    }
  } catch (...) {
    return Report(StatusOfException(), error);
  }
}

// InvalidArgument: "NAME is NULL" unless the pointer is there.
absl::Status CheckArgument(const void* pointer, absl::string_view name);

// A copy of `text` that millrace_text_free() frees. ResourceExhausted: no
// memory. Text that a peer has sent may hold a 0 byte: the copy ends there.
absl::StatusOr<char*> CopyText(absl::string_view text);

// The part of FillStruct() that does not depend on the type.
absl::Status FillStructBytes(const void* from, size_t from_bytes, void* to,
                             size_t first_bytes, absl::string_view name);

// Copies as much of `from` to `*to` as its caller knows (to->struct_size), and
// clears what this release does not know. InvalidArgument: `to` is null, or
// smaller than `first_bytes`, the size of the struct in its first release.
template <typename Struct>
absl::Status FillStruct(const Struct& from, Struct* to, size_t first_bytes,
                        absl::string_view name) {
  return FillStructBytes(&from, sizeof(from), to, first_bytes, name);
}

}  // namespace millrace::c

#endif  // MILLRACE_CLIENT_C_ERROR_H_
