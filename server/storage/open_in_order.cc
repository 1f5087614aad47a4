#include "server/storage/open_in_order.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/storage/hdf5/hdf5_source.h"
#include "server/storage/open.h"

namespace millrace::storage {

absl::StatusOr<std::unique_ptr<RecordSource>> OpenInOrder(
    absl::string_view uri, const OpenSourceOptions& options) {
  absl::string_view rest = uri;
  // No library of --operators can have the name of this format.
  if (absl::ConsumePrefix(&rest, absl::StrCat(kHdf5Scheme, ":"))) {
    return OpenHdf5(rest, options, Hdf5Use::kInOrder);
  }
  return OpenRecordSource(uri, options);
}

}  // namespace millrace::storage
