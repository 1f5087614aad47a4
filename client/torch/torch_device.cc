#include "client/torch/torch_device.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/torch/torch_cast.h"
#include "client/torch/torch_types.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "proto/tensor_cast.h"

namespace millrace {

c10::Device WithIndex(c10::Device device) {
  if (device.is_cpu() || device.has_index()) return device;
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

namespace {

// libtorch reports by exceptions: they end here.
absl::Status ToStatus(const std::exception& error, absl::string_view what) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return absl::InternalError(absl::StrCat(
      what, " failed: ",
      torch_error != nullptr ? torch_error->what_without_backtrace()
                             : error.what()));
}

// Tensors by the address of their bytes: they are the memory's owners.
class Memory {
 public:
  uint8_t* Allocate(uint64_t bytes, const at::TensorOptions& options) {
    try {
      at::Tensor tensor = at::empty({static_cast<int64_t>(bytes)}, options);
      auto* data = static_cast<uint8_t*>(tensor.data_ptr());
      MutexLock lock(mu_);
      tensors_.emplace(data, std::move(tensor));
      return data;
    } catch (const std::exception& error) {
      MR_LOG(ERROR) << ToStatus(error,
                                absl::StrCat("allocating ", bytes, " bytes"))
                           .message();
      return nullptr;
    }
  }
  void Free(uint8_t* data) {
    MutexLock lock(mu_);
    tensors_.erase(data);
  }

 private:
  Mutex mu_;
  std::map<uint8_t*, at::Tensor> tensors_ MR_GUARDED_BY(mu_);
};

class PinnedAllocator final : public SlotAllocator {
 public:
  uint8_t* Allocate(uint64_t bytes) override {
    return memory_.Allocate(bytes,
                            at::TensorOptions(at::kByte).pinned_memory(true));
  }
  void Free(uint8_t* data, uint64_t) override { memory_.Free(data); }

 private:
  Memory memory_;
};

class StreamEvent final : public DeviceEvent {
 public:
  explicit StreamEvent(const c10::Stream& stream)
      : event_(stream.device_type()) {
    try {
      event_.record(stream);
    } catch (const std::exception& error) {
      // Nothing may be thrown from here: a tensor's last reference may be what
      // makes the event, in a destructor.
      status_ = ToStatus(error, "recording an event of the device");
      SayThatItFailed(status_);
    }
  }
  absl::Status status() const override { return status_; }
  void Await() override {
    if (!status_.ok()) return;
    try {
      event_.synchronize();
    } catch (const std::exception& error) {
      SayThatItFailed(ToStatus(error, "waiting for the device"));
    }
  }
  void Block(const c10::Stream& stream) {
    if (!status_.ok()) return;
    try {
      event_.block(stream);
    } catch (const std::exception& error) {
      SayThatItFailed(ToStatus(error, "ordering the device's streams"));
    }
  }

 private:
  // The device has failed for good; its next use says so to the caller.
  static void SayThatItFailed(const absl::Status& status) {
    MR_LOG_EVERY(ERROR, absl::Minutes(1)) << status.message();
  }

  c10::Event event_;
  absl::Status status_;  // set by the constructor
};

class TorchDevice final : public Device {
 public:
  explicit TorchDevice(c10::Device device)
      : guard_(device.type()),
        device_(WithIndex(device)),
        copy_stream_(guard_.getStreamFromGlobalPool(device_)) {}

  // A new thread's current device is the first one, and libtorch goes back to
  // it after every event of another: which would make a context there, half a
  // gigabyte for every rank.
  void EnterThread() override {
    try {
      guard_.setDevice(device_);
    } catch (const std::exception& error) {
      MR_LOG(ERROR) << ToStatus(error, "choosing the device").message();
    }
  }

  bool is_host() const override { return false; }

  uint8_t* Allocate(uint64_t bytes) override {
    return memory_.Allocate(bytes, Options(at::kByte));
  }
  void Free(uint8_t* data, uint64_t) override { memory_.Free(data); }

  absl::Status CopyIn(uint8_t* target, const uint8_t* source,
                      uint64_t bytes) override {
    return Queue("copying a batch to the device", [&] {
      const auto size = static_cast<int64_t>(bytes);
      View(target, {size}, at::kByte)
          .copy_(at::from_blob(const_cast<uint8_t*>(source), {size}, at::kByte),
                 /*non_blocking=*/true);
    });
  }

  absl::Status Cast(const TensorCast& cast, const uint8_t* source,
                    uint8_t* target, uint8_t* scratch,
                    uint64_t elements) override {
    return Queue("converting a batch on the device", [&] {
      const std::vector<int64_t> sizes = TorchCastSizes(cast, elements);
      TorchCast(
          cast, ConstantsOf(cast),
          View(const_cast<uint8_t*>(source), sizes, TorchType(cast.source())),
          View(target, sizes, TorchType(cast.target())),
          NeedsTorchCastWork(cast) ? View(scratch, sizes, at::kFloat)
                                   : at::Tensor());
    });
  }
  uint64_t CastScratchBytes(const TensorCast& cast,
                            uint64_t elements) const override {
    return NeedsTorchCastWork(cast) ? elements * sizeof(float) : 0;
  }

  std::shared_ptr<DeviceEvent> RecordCopy() override {
    return std::make_shared<StreamEvent>(copy_stream_);
  }
  std::shared_ptr<DeviceEvent> RecordConsumer() override {
    return std::make_shared<StreamEvent>(guard_.getStream(device_));
  }
  void CopyWaits(DeviceEvent& event) override {
    static_cast<StreamEvent&>(event).Block(copy_stream_);
  }
  void ConsumerWaits(DeviceEvent& event) override {
    static_cast<StreamEvent&>(event).Block(guard_.getStream(device_));
  }

 private:
  at::TensorOptions Options(at::ScalarType type) const {
    return at::TensorOptions(type).device(device_);
  }
  at::Tensor View(void* data, const std::vector<int64_t>& sizes,
                  at::ScalarType type) const {
    return at::from_blob(
        data, sizes, [](void*) {}, Options(type), device_);
  }

  template <typename Work>
  absl::Status Queue(absl::string_view what, Work&& work) {
    try {
      at::NoGradGuard no_grad;
      c10::StreamGuard on_copy_stream(copy_stream_);
      work();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return ToStatus(error, what);
    }
  }

  // Made once for each transform of the plan; used by the feeder's thread.
  const TorchCastConstants& ConstantsOf(const TensorCast& cast) {
    auto [it, fresh] = constants_.try_emplace(&cast);
    if (fresh) it->second = MakeTorchCastConstants(cast, device_);
    return it->second;
  }

  const c10::impl::VirtualGuardImpl guard_;
  const c10::Device device_;
  const c10::Stream copy_stream_;
  Memory memory_;
  std::map<const TensorCast*, TorchCastConstants> constants_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> OpenTorchDevice(c10::Device device) {
  if (device.is_cpu()) return NewHostDevice();
  try {
    if (!at::globalContext().hasCUDA() && device.is_cuda()) {
      return absl::FailedPreconditionError(
          "this process sees no CUDA device; call LoadCudaRuntime() first "
          "thing in main, look at CUDA_VISIBLE_DEVICES, or use the CPU");
    }
    return std::make_shared<TorchDevice>(device);
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(
        ToStatus(error, absl::StrCat("opening device ", device.str()))
            .message());
  }
}

std::shared_ptr<SlotAllocator> NewSlotAllocatorFor(c10::Device device) {
  if (device.is_cpu()) return NewPlainSlotAllocator();
  return std::make_shared<PinnedAllocator>();
}

}  // namespace millrace
