// NewDataLoader joins a HostLoader and a Device into a DataLoader. For tests,
// and for programs that bring their own HostLoader. All other programs use
// DataLoader::Open().

#ifndef MILLRACE_CLIENT_DATA_LOADER_IMPL_H_
#define MILLRACE_CLIENT_DATA_LOADER_IMPL_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "client/loader.h"
#include "client/prefetch/host_loader.h"
#include "client/torch/device.h"

namespace millrace::internal {

// `options` are valid (DataLoader::Options::Validate()). `device` is the device
// that options.device names, or a fake with memory on that device.
// `pinned_bytes` counts the page-locked memory of `host`'s slots. Null: none is
// page-locked.
absl::StatusOr<std::unique_ptr<DataLoader>> NewDataLoader(
    std::unique_ptr<HostLoader> host, std::shared_ptr<device::Device> device,
    const DataLoader::Options& options,
    std::shared_ptr<const std::atomic<uint64_t>> pinned_bytes = nullptr);

}  // namespace millrace::internal

#endif  // MILLRACE_CLIENT_DATA_LOADER_IMPL_H_
