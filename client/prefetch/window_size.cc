#include "client/prefetch/window_size.h"

#include <algorithm>

namespace millrace::prefetch {
namespace {

// Lower limit of the largest size of an adaptive window.
constexpr uint64_t kMinLargestWindow = 4;
// First size of an adaptive window.
constexpr uint64_t kFirstWindowBytes = uint64_t{32} << 20;
constexpr uint64_t kMinFirstWindow = 16;
constexpr uint64_t kMaxFirstWindow = 64;

constexpr uint64_t kCheapWindowBytes = uint64_t{4} << 20;

// Batches that fit into `bytes`. An empty batch counts as 1 byte.
uint64_t Fit(uint64_t bytes, uint64_t batch_bytes) {
  return bytes / std::max<uint64_t>(1, batch_bytes);
}

}  // namespace

uint32_t ChooseWindow(const LoaderOptions& options,
                      uint64_t max_payload_bytes) {
  if (options.window != 0) return options.window;
  return static_cast<uint32_t>(std::clamp(
      Fit(options.window_bytes, max_payload_bytes), kMinLargestWindow,
      uint64_t{LoaderOptions::kMaxAdaptiveWindow}));
}

uint32_t ChooseFirstWindow(const LoaderOptions& options,
                           uint64_t max_payload_bytes) {
  const uint32_t largest = ChooseWindow(options, max_payload_bytes);
  if (options.window != 0) return largest;
  const uint64_t first =
      options.initial_window != 0
          ? options.initial_window
          : std::clamp(Fit(kFirstWindowBytes, max_payload_bytes),
                       kMinFirstWindow, kMaxFirstWindow);
  return static_cast<uint32_t>(std::min<uint64_t>(first, largest));
}

uint32_t ChooseCheapWindow(uint32_t slots, uint64_t slot_bytes) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(slots, Fit(kCheapWindowBytes, slot_bytes)));
}

uint32_t SpareSlots(uint32_t window) {
  return std::clamp<uint32_t>(window / 8, 1, 4);
}

}  // namespace millrace::prefetch
