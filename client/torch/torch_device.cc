#include "client/torch/torch_device.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/torch/lookup_cast.h"
#include "client/torch/page_locked_memory.h"
#include "client/torch/torch_cast.h"
#include "client/torch/torch_types.h"
#include "common/byte_size.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "proto/tensor_cast.h"

namespace millrace::device {

DeviceStream NameOf(const c10::Stream& stream) {
  return {.id = stream.id(),
          .device_index = stream.device_index(),
          .device_type = static_cast<int32_t>(stream.device_type())};
}

c10::Device WithIndex(c10::Device device) {
  if (device.is_cpu() || device.has_index()) return device;
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

namespace {

// Max pause between two queries of an event: short compared with a step, and
// long enough that a waiting thread takes no CPU time. A choice.
constexpr std::chrono::microseconds kMaxPause(200);

// libtorch throws exceptions, which must not leave this file.
absl::Status ToStatus(const std::exception& error, absl::string_view what) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return absl::InternalError(absl::StrCat(
      what, " failed: ",
      torch_error != nullptr ? torch_error->what_without_backtrace()
                             : error.what()));
}

// Owns memory of libtorch's allocators: tensors, by the address of their bytes.
// Thread-safe. Tensors are made without the lock, and freed under it.
class Memory {
 public:
  uint8_t* Allocate(uint64_t bytes, const at::TensorOptions& options,
                    std::optional<c10::Stream> stream = std::nullopt) {
    try {
      at::Tensor tensor = at::empty({static_cast<int64_t>(bytes)}, options);
      auto* data = static_cast<uint8_t*>(tensor.data_ptr());
      MutexLock lock(mu_);
      owners_.insert({data, {std::move(tensor), stream}});
      return data;
    } catch (const std::exception& error) {
      MR_LOG(ERROR) << ToStatus(error, absl::StrCat("allocating ",
                                                    FormatByteSize(bytes)))
                           .message();
      return nullptr;
    }
  }
  // The stream that the memory was allocated for, if any.
  std::optional<c10::Stream> StreamOf(uint8_t* data) {
    MutexLock lock(mu_);
    const auto found = owners_.find(data);
    return found == owners_.end() ? std::nullopt : found->second.stream;
  }
  void Free(uint8_t* data) {
    MutexLock lock(mu_);
    owners_.erase(data);
  }

 private:
  struct Owner {
    at::Tensor tensor;
    std::optional<c10::Stream> stream;
  };

  Mutex mu_;
  std::map<uint8_t*, Owner> owners_ MR_GUARDED_BY(mu_);
};

// Page locking of CUDA, through the CUDA runtime that libtorch loads.
class CudaPageLock final : public PageLock {
 public:
  explicit CudaPageLock(c10::Device device) : device_(device) {
    // Looked up by name, because a process without a GPU need not have it.
    register_ =
        reinterpret_cast<Register*>(dlsym(RTLD_DEFAULT, "cudaHostRegister"));
    unregister_ = reinterpret_cast<Unregister*>(
        dlsym(RTLD_DEFAULT, "cudaHostUnregister"));
    last_error_ =
        reinterpret_cast<LastError*>(dlsym(RTLD_DEFAULT, "cudaGetLastError"));
  }

  absl::Status Lock(uint8_t* data, uint64_t bytes) override {
    if (register_ == nullptr || unregister_ == nullptr ||
        last_error_ == nullptr) {
      return absl::UnimplementedError("this process has no CUDA runtime");
    }
    try {
      // Without the guard, a network thread would use the first device, which
      // makes a context of half a gigabyte there.
      c10::DeviceGuard guard(device_);
      const int error = register_(data, bytes, kPortable);
      if (error == 0) return absl::OkStatus();
      // CUDA keeps the error for the next query on this thread, where it would
      // be taken for the error of a kernel. This call clears it.
      last_error_();
      return absl::ResourceExhaustedError(
          absl::StrCat("cudaHostRegister failed with error ", error));
    } catch (const std::exception& error) {
      return ToStatus(error, "locking pages for the device");
    }
  }
  void Unlock(uint8_t* data) override {
    try {
      c10::DeviceGuard guard(device_);
      if (unregister_(data) != 0) last_error_();
    } catch (const std::exception& error) {
      // The device has failed. The driver gives the pages back when the process
      // ends.
      MR_LOG_EVERY(ERROR, absl::Minutes(1))
          << ToStatus(error, "unlocking pages").message();
    }
  }

 private:
  using Register = int(void*, size_t, unsigned);
  using Unregister = int(void*);
  using LastError = int();
  static constexpr unsigned kPortable = 1;  // cudaHostRegisterPortable

  const c10::Device device_;
  Register* register_;
  Unregister* unregister_;
  LastError* last_error_;
};

// Where CUDA can lock existing pages: memory exactly as large as the slots.
// Otherwise: memory of libtorch's pinned allocator, which rounds a slot up to a
// power of two. The first allocation decides for good, so that Free() knows the
// kind of memory.
class PinnedAllocator final : public prefetch::SlotAllocator {
 public:
  PinnedAllocator(c10::Device device,
                  std::shared_ptr<std::atomic<uint64_t>> pinned)
      : pinned_(pinned),
        locked_(std::make_unique<CudaPageLock>(device), std::move(pinned)) {}

  uint8_t* Allocate(uint64_t bytes) override {
    MutexLock lock(mu_);
    if (!rounds_) {
      absl::Status status;
      uint8_t* const data = locked_.Allocate(bytes, &status);
      // Only the first attempt may switch: later, memory of the other kind
      // would be freed in the wrong way.
      if (data != nullptr || locked_any_) {
        locked_any_ = true;
        if (data == nullptr) MR_LOG(ERROR) << status.message();
        return data;
      }
      MR_LOG(WARNING) << status.message()
                      << "; using page-locked memory of libtorch, which takes "
                      << FormatByteSize(std::bit_ceil(bytes))
                      << " for a batch of " << FormatByteSize(bytes);
      rounds_ = true;
    }
    uint8_t* const data = memory_.Allocate(
        bytes, at::TensorOptions(at::kByte).pinned_memory(true));
    if (data != nullptr) *pinned_ += std::bit_ceil(bytes);
    return data;
  }
  void Free(uint8_t* data, uint64_t bytes) override {
    MutexLock lock(mu_);
    if (!rounds_) return locked_.Free(data, bytes);
    memory_.Free(data);
    *pinned_ -= std::bit_ceil(bytes);
  }

 private:
  const std::shared_ptr<std::atomic<uint64_t>> pinned_;
  Mutex mu_;
  // Both are called under mu_: slots are allocated rarely.
  PageLockedMemory locked_;
  Memory memory_;
  // rounds_: memory comes from memory_, not from locked_; set before the first
  // allocation succeeds. locked_any_: an allocation from locked_ succeeded.
  bool rounds_ MR_GUARDED_BY(mu_) = false;
  bool locked_any_ MR_GUARDED_BY(mu_) = false;
};

// An event of libtorch, recorded once by the constructor. The other methods may
// be called from several threads, because the event does not change after that.
class StreamEvent final : public DeviceEvent {
 public:
  // `timed`: for SecondsAfter().
  explicit StreamEvent(const c10::Stream& stream, bool timed = false)
      : event_(stream.device_type(), timed ? c10::EventFlag::BACKEND_DEFAULT
                                           : c10::EventFlag::PYTORCH_DEFAULT) {
    try {
      event_.record(stream);
    } catch (const std::exception& error) {
      // Must not throw: the destructor of a tensor may make this event.
      status_ = ToStatus(error, "recording an event of the device");
      SayThatItFailed(status_);
    }
  }
  absl::Status status() const override { return status_; }
  void Await() override {
    if (!status_.ok()) return;
    // synchronize() would spin on a core, perhaps for a whole step, because the
    // copy waits for its slot. The release that follows is not urgent: queries
    // with growing pauses delay it by kMaxPause at most.
    auto pause = std::chrono::microseconds(20);
    try {
      while (!event_.query()) {
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, kMaxPause);
      }
    } catch (const std::exception& error) {
      SayThatItFailed(ToStatus(error, "waiting for the device"));
    }
  }
  double SecondsAfter(const DeviceEvent& earlier) const override {
    const auto& begin = static_cast<const StreamEvent&>(earlier);
    if (!status_.ok() || !begin.status_.ok()) return 0;
    try {
      return begin.event_.elapsedTime(event_) / 1000;
    } catch (const std::exception&) {
      return 0;  // the device has failed, which its next use reports
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
  // The device has failed for good; its next use reports that to the caller.
  static void SayThatItFailed(const absl::Status& status) {
    MR_LOG_EVERY(ERROR, absl::Minutes(1)) << status.message();
  }

  c10::Event event_;
  // Set by the constructor, constant from then on.
  absl::Status status_;
};

class TorchDevice final : public Device {
 public:
  explicit TorchDevice(c10::Device device)
      : guard_(device.type()),
        device_(WithIndex(device)),
        copy_stream_(guard_.getStreamFromGlobalPool(device_)) {}

  // The current device of a new thread is the first device, and libtorch
  // returns to it after every event of another device. That would make a
  // context on the first device: half a gigabyte for every rank.
  void EnterThread() override {
    try {
      guard_.setDevice(device_);
    } catch (const std::exception& error) {
      MR_LOG(ERROR) << ToStatus(error, "choosing the device").message();
    }
  }

  bool is_host() const override { return false; }

  uint8_t* Allocate(uint64_t bytes) override {
    return memory_.Allocate(bytes, Options(at::kByte),
                            guard_.getStream(device_));
  }
  // The caching allocator gives the memory at once to the next request on the
  // stream that it was allocated for. So that stream must wait for the events,
  // whichever stream is current here.
  void Free(uint8_t* data, uint64_t,
            absl::Span<const std::shared_ptr<DeviceEvent>> after) override {
    if (const auto stream = memory_.StreamOf(data); stream.has_value()) {
      for (const auto& event : after) {
        static_cast<StreamEvent&>(*event).Block(*stream);
      }
    }
    memory_.Free(data);
  }

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
      const Converter& converter = ConverterOf(cast);
      if (converter.lookup.has_value() &&
          converter.lookup->Try(copy_stream_, cast, source, target, elements)) {
        return;
      }
      const std::vector<int64_t> sizes = TorchCastSizes(cast, elements);
      TorchCast(
          cast, converter.constants,
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
    return std::make_shared<StreamEvent>(copy_stream_, /*timed=*/true);
  }
  DeviceStream CurrentStream() override {
    return NameOf(guard_.getStream(device_));
  }
  std::shared_ptr<DeviceEvent> RecordOn(const DeviceStream& stream) override {
    return std::make_shared<StreamEvent>(c10::Stream::unpack3(
        stream.id, static_cast<c10::DeviceIndex>(stream.device_index),
        static_cast<c10::DeviceType>(stream.device_type)));
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
      // Current stream of this thread while `work` runs.
      c10::StreamGuard on_copy_stream(copy_stream_);
      work();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return ToStatus(error, what);
    }
  }

  struct Converter {
    TorchCastConstants constants;
    std::optional<LookupCast> lookup;  // nullopt: libtorch's operations
  };

  // Made once for each transform of the plan and found by its address: the
  // plan's recipes outlive the use of the device. Called by the feeder's thread
  // only, so without a lock.
  const Converter& ConverterOf(const TensorCast& cast) {
    auto [it, fresh] = converters_.try_emplace(&cast);
    if (!fresh) return it->second;
    it->second.constants = MakeTorchCastConstants(cast, device_);
    if (!cast.has_scale() || !device_.is_cuda()) return it->second;
    absl::StatusOr<LookupCast> lookup = absl::UnknownError("");
    try {
      lookup = LookupCast::Make(cast, device_, copy_stream_);
    } catch (const c10::Error& error) {
      lookup = ToStatus(error, "loading the table kernel");
    }
    if (lookup.ok()) {
      it->second.lookup = *std::move(lookup);
    } else {
      MR_LOG(WARNING) << lookup.status().message()
                      << "; converting batches in several passes instead";
    }
    return it->second;
  }

  const c10::impl::VirtualGuardImpl guard_;
  const c10::Device device_;
  const c10::Stream copy_stream_;
  Memory memory_;
  // Used by the thread that calls Cast() only.
  std::map<const TensorCast*, Converter> converters_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> OpenTorchDevice(c10::Device device) {
  if (device.is_cpu()) return NewHostDevice();
  try {
    if (!at::globalContext().hasCUDA() && device.is_cuda()) {
      return absl::FailedPreconditionError(
          "this process has no CUDA device; call LoadCudaRuntime() first in "
          "main, check CUDA_VISIBLE_DEVICES, or use the CPU");
    }
    return std::make_shared<TorchDevice>(device);
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(
        ToStatus(error, absl::StrCat("opening device ", device.str()))
            .message());
  }
}

std::shared_ptr<prefetch::SlotAllocator> NewSlotAllocatorFor(
    c10::Device device, std::shared_ptr<std::atomic<uint64_t>> pinned_bytes) {
  if (device.is_cpu()) return prefetch::NewPlainSlotAllocator();
  return std::make_shared<PinnedAllocator>(device, std::move(pinned_bytes));
}

}  // namespace millrace::device
