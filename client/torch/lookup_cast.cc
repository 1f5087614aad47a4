#include "client/torch/lookup_cast.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "proto/dtype.h"

namespace millrace::device {
namespace {

// Bytes as a tensor on `device`.
at::Tensor OnDevice(const uint8_t* data, uint64_t bytes, c10::Device device) {
  return at::from_blob(const_cast<uint8_t*>(data),
                       {static_cast<int64_t>(bytes)}, at::kByte)
      .to(device);
}

uint8_t* DataOf(const at::Tensor& tensor) {
  return static_cast<uint8_t*>(tensor.data_ptr());
}

// The kernel of `device`, one for the process: the driver compiles the module
// once for each device. Never destroyed, because unloading would wait for an
// idle device.
absl::StatusOr<LookupKernel> KernelOf(c10::Device device) {
  struct Loaded {
    Mutex mu;
    std::map<int, absl::StatusOr<LookupKernel>> by_device MR_GUARDED_BY(mu);
  };
  static Loaded& loaded = *new Loaded;
  MutexLock lock(loaded.mu);
  const auto found = loaded.by_device.find(device.index());
  if (found != loaded.by_device.end()) return found->second;
  absl::StatusOr<LookupKernel> kernel = []() -> absl::StatusOr<LookupKernel> {
    MR_ASSIGN_OR_RETURN(const CudaDriver driver, CudaDriver::Find());
    return LookupKernel::Load(driver);
  }();
  loaded.by_device.emplace(device.index(), kernel);
  return kernel;
}

LookupKernel::Work WorkOf(const TensorCast& cast, const uint8_t* source,
                          uint8_t* target, const at::Tensor& tables,
                          uint64_t elements, uint64_t run) {
  return {.source = source,
          .target = target,
          .tables = DataOf(tables),
          .elements = elements,
          .channels = cast.channels(),
          .run = run,
          .result_bytes = ElementBytes(cast.target())};
}

}  // namespace

absl::StatusOr<LookupCast> LookupCast::Make(const TensorCast& cast,
                                            c10::Device device,
                                            const c10::Stream& stream) {
  // May be the first work of this thread on the device: it makes the device's
  // context current on the thread, which the driver requires.
  at::Tensor tables =
      OnDevice(cast.table().data(), cast.table().size(), device);
  MR_ASSIGN_OR_RETURN(const LookupKernel kernel, KernelOf(device));

  // The example: every byte in every channel, in short runs, and three elements
  // more.
  const uint64_t run = std::min<uint64_t>(cast.run(), 3);
  const uint64_t elements = 256 * cast.channels() * run * 2 + 3;
  const uint64_t size = ElementBytes(cast.target());
  std::vector<uint8_t> source(elements);
  std::vector<uint8_t> expected(elements * size);
  for (uint64_t i = 0; i < elements; ++i) {
    const uint64_t channel = i / run % cast.channels();
    source[i] =
        static_cast<uint8_t>(i / (run * cast.channels()) + 85 * channel);
    std::memcpy(&expected[i * size],
                &cast.table()[(channel * 256 + source[i]) * size], size);
  }
  const at::Tensor in = OnDevice(source.data(), elements, device);
  const at::Tensor out =
      at::empty({static_cast<int64_t>(elements * size)}, in.options());
  const LookupKernel::Work work =
      WorkOf(cast, DataOf(in), DataOf(out), tables, elements, run);
  if (!LookupKernel::Fits(work)) {
    return absl::InternalError(
        "the table kernel cannot compute this transform");
  }
  MR_RETURN_IF_ERROR(kernel.Launch(stream.native_handle(), work));
  const at::Tensor made = out.cpu();  // waits
  if (std::memcmp(DataOf(made), expected.data(), expected.size()) != 0) {
    return absl::InternalError(
        absl::StrCat("the table kernel gives wrong values on ", device.str()));
  }
  return LookupCast(kernel, std::move(tables));
}

bool LookupCast::Try(const c10::Stream& stream, const TensorCast& cast,
                     const uint8_t* source, uint8_t* target,
                     uint64_t elements) const {
  const LookupKernel::Work work =
      WorkOf(cast, source, target, tables_, elements, cast.run());
  return LookupKernel::Fits(work) &&
         kernel_.Launch(stream.native_handle(), work).ok();
}

}  // namespace millrace::device
