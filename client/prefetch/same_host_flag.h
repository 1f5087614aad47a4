// --same_host of all programs: its words, its help and what a word stands for.
//
// Pure functions, safe from any thread.
//
//   flags.Add("same_host", &text, std::string(kSameHostWords),
//             std::string(kSameHostHelp)).Choice().Bare("auto");
//   options.same_host = SameHostOf(text);

#ifndef MILLRACE_CLIENT_PREFETCH_SAME_HOST_FLAG_H_
#define MILLRACE_CLIENT_PREFETCH_SAME_HOST_FLAG_H_

#include "absl/strings/string_view.h"
#include "client/prefetch/host_loader.h"

namespace millrace {

inline constexpr absl::string_view kSameHostWords = "off|auto|require";
inline constexpr absl::string_view kSameHostHelp =
    "Batches of servers on this machine. off: over the network; auto, and the "
    "flag without a value: in shared memory where that works; require: a "
    "server that cannot share memory is not used (one that ends the sharing "
    "later sends batches over the network meanwhile)";

// Of a word of kSameHostWords.
inline SameHost SameHostOf(absl::string_view word) {
  if (word == "auto") return SameHost::kAuto;
  return word == "require" ? SameHost::kRequire : SameHost::kOff;
}

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_SAME_HOST_FLAG_H_
