// The pixel kernels of MixUp and CutMix on uint8 rows of a batch. Fixed point;
// the same bytes on every CPU (Google Highway, selected at run time).
//
// Pure functions; different rows may be mixed by different threads.
//
//   MixRows(a, b, bytes, mix.share);        // both belong to this batch
//   MixRow(a, partner, bytes, mix.share);   // the partner to another rank's

#ifndef MILLRACE_SERVER_AUGMENT_MIX_PIXELS_H_
#define MILLRACE_SERVER_AUGMENT_MIX_PIXELS_H_

#include <cstdint>

#include "server/augment/batch_mix.h"

namespace millrace::augment {

// a' = (share * a + (65536 - share) * b + 32768) >> 16, and b' is the same with
// a and b exchanged. `a` and `b` have `bytes` bytes each and do not overlap.
// share is 0 .. 65536.
void MixRows(uint8_t* a, uint8_t* b, int64_t bytes, uint32_t share);

// Computes only a'; `partner` is not changed.
void MixRow(uint8_t* a, const uint8_t* partner, int64_t bytes, uint32_t share);

// Exchanges the rectangle of a CutMix between two images of [height, width,
// channels] with `row_bytes` = width * channels.
void SwapBoxes(uint8_t* a, uint8_t* b, int64_t row_bytes, int64_t channels,
               const BatchMix& mix);

// Copies the partner's rectangle to that of `a`.
void CopyBox(uint8_t* a, const uint8_t* partner, int64_t row_bytes,
             int64_t channels, const BatchMix& mix);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_MIX_PIXELS_H_
