#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/torch/device.h"
#include "common/logging.h"
#include "proto/dtype.h"

namespace millrace::device {
namespace {

class HostDevice final : public Device {
 public:
  bool is_host() const override { return true; }

  uint8_t* Allocate(uint64_t bytes) override {
    // aligned_alloc requires a multiple of the alignment.
    return static_cast<uint8_t*>(
        std::aligned_alloc(64, (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0)));
  }
  void Free(uint8_t* data, uint64_t,
            absl::Span<const std::shared_ptr<DeviceEvent>>) override {
    std::free(data);
  }

  absl::Status CopyIn(uint8_t* target, const uint8_t* source,
                      uint64_t bytes) override {
    std::memcpy(target, source, bytes);
    return absl::OkStatus();
  }
  absl::Status Cast(const TensorCast& cast, const uint8_t* source,
                    uint8_t* target, uint8_t*, uint64_t elements) override {
    if (cast.Apply(source, target, elements)) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("a value does not fit into ", DTypeName(cast.target())));
  }

  std::shared_ptr<DeviceEvent> RecordCopy() override { return NoStreams(); }
  DeviceStream CurrentStream() override {
    NoStreams();
    return {};
  }
  std::shared_ptr<DeviceEvent> RecordOn(const DeviceStream&) override {
    return NoStreams();
  }
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

}  // namespace millrace::device
