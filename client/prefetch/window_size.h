// The sizes that follow from a loader's options and the size of a batch: how
// many batches may be requested and not yet consumed, at most and at the start,
// and how many slots that takes. WindowControl moves between them.
//
// Pure functions. All results are batches; `max_payload_bytes` is that of the
// plan.
//
//   const uint32_t slots = ChooseWindow(options, plan.max_payload_bytes());
//   SlotPool pool(allocator, slots + SpareSlots(slots), ...);

#ifndef MILLRACE_CLIENT_PREFETCH_WINDOW_SIZE_H_
#define MILLRACE_CLIENT_PREFETCH_WINDOW_SIZE_H_

#include <cstdint>

#include "client/prefetch/host_loader.h"

namespace millrace {

// The largest window, as HostLoaderOptions says: options.window, or what fits
// into options.window_bytes.
uint32_t ChooseWindow(const HostLoaderOptions& options,
                      uint64_t max_payload_bytes);

// The window to begin with, at most ChooseWindow().
uint32_t ChooseFirstWindow(const HostLoaderOptions& options,
                           uint64_t max_payload_bytes);

// A window that takes so little memory that a smaller one is not worth looking
// for, at most `slots`.
uint32_t ChooseCheapWindow(uint32_t slots, uint64_t slot_bytes);

// Slots on top of the window for second answers, 1 to 4. A step needs one only
// while two calls are in the middle of its frames.
uint32_t SpareSlots(uint32_t window);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_WINDOW_SIZE_H_
