// Builds a DataLoader of parts. For tests and for programs that bring their
// own HostLoader; everybody else uses DataLoader::Open.

#ifndef MILLRACE_CLIENT_LOADER_INTERNAL_H_
#define MILLRACE_CLIENT_LOADER_INTERNAL_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "client/loader.h"
#include "client/prefetch/host_loader.h"
#include "client/torch/device.h"

namespace millrace::internal {

// `device` is what options.device names, or a fake whose memory lies there.
// `pinned_bytes` counts the page-locked memory of `host`'s slots; null: there
// is none.
absl::StatusOr<std::unique_ptr<DataLoader>> NewDataLoader(
    std::unique_ptr<HostLoader> host, std::shared_ptr<Device> device,
    const DataLoader::Options& options,
    std::shared_ptr<const std::atomic<uint64_t>> pinned_bytes = nullptr);

}  // namespace millrace::internal

#endif  // MILLRACE_CLIENT_LOADER_INTERNAL_H_
