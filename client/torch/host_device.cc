#include <cstdlib>
#include <cstring>

#include "client/torch/device.h"
#include "common/logging.h"

namespace millrace {
namespace {

class HostDevice final : public Device {
 public:
  bool is_host() const override { return true; }

  uint8_t* Allocate(uint64_t bytes) override {
    // aligned_alloc wants a multiple of the alignment.
    return static_cast<uint8_t*>(
        std::aligned_alloc(64, (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0)));
  }
  void Free(uint8_t* data, uint64_t) override { std::free(data); }

  absl::Status CopyIn(uint8_t* target, const uint8_t* source,
                      uint64_t bytes) override {
    std::memcpy(target, source, bytes);
    return absl::OkStatus();
  }
  absl::Status Normalize(const Normalization& normalization,
                         const uint8_t* source, float* target,
                         uint64_t elements) override {
    normalization.Apply(source, target, elements);
    return absl::OkStatus();
  }

  std::shared_ptr<DeviceEvent> RecordCopy() override { return NoStreams(); }
  std::shared_ptr<DeviceEvent> RecordConsumer() override { return NoStreams(); }
  void CopyWaits(DeviceEvent&) override { NoStreams(); }
  void ConsumerWaits(DeviceEvent&) override { NoStreams(); }

 private:
  static std::shared_ptr<DeviceEvent> NoStreams() {
    MR_CHECK(false) << "the host has no streams";
    return nullptr;
  }
};

}  // namespace

std::shared_ptr<Device> NewHostDevice() {
  return std::make_shared<HostDevice>();
}

}  // namespace millrace
