#include "trainer/out_of_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "absl/strings/str_cat.h"
#include "trainer/memory_advice.h"
#include "trainer/torch_error.h"

namespace millrace::trainer {

absl::Status OutOfMemory(const std::exception& error, absl::string_view what,
                         torch::Device device, uint64_t rows,
                         uint32_t world_size, bool ran_before) {
  StepMemory memory;
  memory.rows = rows;
  memory.world_size = world_size;
  memory.ran_before = ran_before;
  if (!device.is_cpu()) {
    try {
      c10::DeviceAllocator* const allocator =
          c10::getDeviceAllocator(device.type());
      const auto stats = allocator->getDeviceStats(device.index());
      constexpr size_t kAll = 0;  // pools of large and small blocks together
      memory.outside =
          static_cast<uint64_t>(stats.allocated_bytes.at(kAll).current);
      memory.peak = static_cast<uint64_t>(stats.allocated_bytes.at(kAll).peak);
      memory.available =
          static_cast<uint64_t>(stats.reserved_bytes.at(kAll).current) +
          allocator->getMemoryInfo(device.index()).first;
    } catch (const std::exception&) {
      // Without statistics the advice is a smaller batch.
    }
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": the device ", device.str(), " has no memory left; ",
                   MemoryAdvice(memory), ". ", TorchMessage(error)));
}

}  // namespace millrace::trainer
