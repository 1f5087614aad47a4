#include "client/prefetch/loader_options.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {
namespace {

// Each sentence begins with the option, so that LoaderFlags can write "flag --"
// before it.
template <typename T>
absl::Status Outside(absl::string_view option, const T& value,
                     absl::string_view limits) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, "=", value, " is outside the limits: ", limits));
}

}  // namespace

absl::Status LoaderOptions::Validate() const {
  if (endpoint.empty()) {
    return absl::InvalidArgumentError(
        "endpoint is missing: give the HOST:PORT of a data server");
  }
  if (world_size == 0) {
    return Outside("world_size", world_size, "give a number of ranks from 1");
  }
  if (rank >= world_size) {
    return Outside("rank", rank,
                   absl::StrCat("there is no rank ", rank, " of ", world_size,
                                ", because ranks count from 0"));
  }
  if (window != 0 && (window < kMinWindow || window > kMaxWindow)) {
    return Outside(
        "window", window,
        absl::StrCat("give 0 for a window that adapts to measurements, or ",
                     kMinWindow, " to ", kMaxWindow, " batches"));
  }
  if (window != 0 && initial_window != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "initial_window=", initial_window, " and a fixed window of ", window,
        " batches cannot be used together, because initial_window is the first "
        "size of a window that adapts to measurements: remove one of them"));
  }
  if (initial_window != 0 &&
      (initial_window < kMinWindow || initial_window > kMaxAdaptiveWindow)) {
    return Outside("initial_window", initial_window,
                   absl::StrCat("give ", kMinWindow, " to ", kMaxAdaptiveWindow,
                                " batches, or 0 for a first window that "
                                "follows from the size of a batch"));
  }
  for (const auto& [option, time] : {std::pair("open_timeout", open_timeout),
                                     std::pair("next_timeout", next_timeout),
                                     std::pair("step_timeout", step_timeout)}) {
    if (time > absl::ZeroDuration()) continue;
    return Outside(option, absl::FormatDuration(time), "give a time above 0");
  }
  if (!(hedge_share >= 0 && hedge_share <= 1)) {
    return Outside("hedge_share", hedge_share,
                   "give a share of the steps from 0 (no hedging) to 1");
  }
  if (hedge_floor < absl::ZeroDuration()) {
    return Outside("hedge_floor", absl::FormatDuration(hedge_floor),
                   "give 0 (no minimum) or a time above 0");
  }
  return absl::OkStatus();
}

}  // namespace millrace
