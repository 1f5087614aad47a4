// The sizes of a window that follow from a loader's options and the size of a
// batch: the largest window, the first window, and the slots that they need.
// WindowControl adapts the window between them.
//
// Pure functions, safe from any thread. All results are numbers of batches;
// `max_payload_bytes` is the plan's.
//
//   const uint32_t slots = ChooseWindow(options, plan.max_payload_bytes());
//   SlotPool pool(allocator, slots + SpareSlots(slots), ...);

#ifndef MILLRACE_CLIENT_PREFETCH_WINDOW_SIZE_H_
#define MILLRACE_CLIENT_PREFETCH_WINDOW_SIZE_H_

#include <cstdint>

#include "client/prefetch/loader_options.h"

namespace millrace::prefetch {

// The largest window: options.window, or the batches that fit into
// options.window_bytes.
uint32_t ChooseWindow(const LoaderOptions& options, uint64_t max_payload_bytes);

// The first window, at most ChooseWindow().
uint32_t ChooseFirstWindow(const LoaderOptions& options,
                           uint64_t max_payload_bytes);

// A window that takes so little memory that a smaller one is not worth a trial,
// at most `slots`.
uint32_t ChooseCheapWindow(uint32_t slots, uint64_t slot_bytes);

// Slots on top of the window for second answers, 1 to 4. A step needs one only
// while two calls are receiving its frames.
uint32_t SpareSlots(uint32_t window);

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_WINDOW_SIZE_H_
