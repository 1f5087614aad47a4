#include "client/prefetch/loader_options.h"

#include "absl/strings/str_cat.h"

namespace millrace {

absl::Status LoaderOptions::Validate() const {
  if (endpoint.empty()) {
    return absl::InvalidArgumentError(
        "endpoint is empty: give the HOST:PORT of a data server");
  }
  if (world_size == 0) {
    return absl::InvalidArgumentError("world_size is 0: give at least 1");
  }
  if (rank >= world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank is ", rank, " and world_size is ", world_size,
                     ": ranks count from 0"));
  }
  constexpr uint32_t kMaxWindow = 1 << 16;
  if (window == 1 || window > kMaxWindow) {
    return absl::InvalidArgumentError(
        absl::StrCat("window=", window,
                     " is outside the limits: give 0 for a window that adapts "
                     "to measurements, or 2 to ",
                     kMaxWindow, " batches"));
  }
  if (window != 0 && initial_window != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a fixed window of ", window, " and an initial window of ",
        initial_window,
        "; give only one: an initial window is the first size of a window that "
        "adapts to measurements"));
  }
  if (open_timeout <= absl::ZeroDuration() ||
      next_timeout <= absl::ZeroDuration() ||
      step_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("open_timeout ", absl::FormatDuration(open_timeout),
                     ", next_timeout ", absl::FormatDuration(next_timeout),
                     ", step_timeout ", absl::FormatDuration(step_timeout),
                     "; a timeout must be longer than 0"));
  }
  if (!(hedge_share >= 0 && hedge_share <= 1) ||
      hedge_floor < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "hedge_share ", hedge_share, ", hedge_floor ",
        absl::FormatDuration(hedge_floor),
        "; give a share of the steps from 0 (no hedging) to 1, and a floor "
        "that is not negative"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
