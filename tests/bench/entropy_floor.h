// EntropyFloor decodes the Huffman codes of a crop and nothing else: what any
// decoder of a sequential JPEG must at least do for it. Codes above the crop
// are passed over, those beside it too, those below are not read; no inverse
// DCT, no colour, no pixel.
//
// Not thread-safe: one per thread. Only for benchmarks: it aborts on images
// that libjpeg cannot read.
//
//   EntropyFloor floor;
//   if (floor.Run(photograph, {.divisor = 1, .left = 16, ...})) ...

#ifndef MILLRACE_TESTS_BENCH_ENTROPY_FLOOR_H_
#define MILLRACE_TESTS_BENCH_ENTROPY_FLOOR_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/decode/decoded_image.h"
#include "server/decode/fast_entropy.h"

namespace millrace {

class EntropyFloor {
 public:
  // What DecodeRegion asks for. False when the image is of a kind that has no
  // such floor (progressive).
  bool Run(absl::Span<const uint8_t> jpeg, const decode::DecodeRegion& region);

 private:
  decode::FastEntropy entropy_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_BENCH_ENTROPY_FLOOR_H_
