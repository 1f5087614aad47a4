// ByteSink receives the output of a file format's writer piece by piece, so
// that gigabytes of weights are not in memory twice.
//
//   WriteZip(entries, [&](absl::string_view bytes) { file->Write(bytes); });

#ifndef MILLRACE_TRAINER_WEIGHTS_BYTE_SINK_H_
#define MILLRACE_TRAINER_WEIGHTS_BYTE_SINK_H_

#include <functional>

#include "absl/strings/string_view.h"

namespace millrace::weights {

// Accepts every piece. Errors are reported at the end, to the sink's owner.
using ByteSink = std::function<void(absl::string_view bytes)>;

}  // namespace millrace::weights

#endif  // MILLRACE_TRAINER_WEIGHTS_BYTE_SINK_H_
