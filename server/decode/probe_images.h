// ProbeImages are small images that the program carries, of every kind that it
// decodes: what the decoders of this machine make of them tells whether two
// machines would make the same batches.
//
// They are part of what a plan hash is made of: a new or changed one splits
// servers of this release from those of the last. Thread-safe.

#ifndef MILLRACE_SERVER_DECODE_PROBE_IMAGES_H_
#define MILLRACE_SERVER_DECODE_PROBE_IMAGES_H_

#include <string>

#include "absl/types/span.h"

namespace millrace::decode {

struct ProbeImage {
  const char* name;  // "JPEG, 4:2:0"
  std::string bytes;
};

// For as long as the program runs.
absl::Span<const ProbeImage> ProbeImages();

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_PROBE_IMAGES_H_
