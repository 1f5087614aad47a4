// Where a writer of a file format leaves its bytes, one piece after the other:
// a file, so that weights of gigabytes are not in memory twice.
//
//   WriteZip(members, [&](absl::string_view bytes) { file->Write(bytes); });

#ifndef MILLRACE_TRAINER_WEIGHTS_BYTE_SINK_H_
#define MILLRACE_TRAINER_WEIGHTS_BYTE_SINK_H_

#include <functional>

#include "absl/strings/string_view.h"

namespace millrace {

// Takes every piece; what went wrong it says at the end, to its owner.
using ByteSink = std::function<void(absl::string_view bytes)>;

}  // namespace millrace

#endif  // MILLRACE_TRAINER_WEIGHTS_BYTE_SINK_H_
