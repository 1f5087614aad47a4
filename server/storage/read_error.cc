#include "server/storage/read_error.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/error_detail.h"

namespace millrace::storage {

absl::Status NoSuchSample(int64_t index, int64_t samples) {
  return absl::OutOfRangeError(absl::StrCat("there is no sample ", index,
                                            ": the dataset has ", samples,
                                            ", counted from 0"));
}

absl::Status AtSample(absl::Status status, absl::string_view shard, int64_t row,
                      int64_t index) {
  if (status.ok()) return status;
  ErrorDetail detail = MakeErrorDetail("storage");
  detail.set_shard(std::string(shard));
  detail.set_row(row);
  detail.set_sample(index);
  return WithErrorDetail(std::move(status), detail);
}

}  // namespace millrace::storage
