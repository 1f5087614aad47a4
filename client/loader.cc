#include "client/loader.h"

#include <atomic>
#include <memory>
#include <utility>

#include "client/data_loader_impl.h"
#include "client/receive/open_host_loader.h"
#include "client/torch/torch_device.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

PipelineSpec MakeSpec(const DataLoader::Options& options) {
  if (options.spec.sources_size() > 0) return options.spec;
  PipelineSpec spec;
  spec.add_sources()->set_dataset(options.dataset);
  spec.set_preset(options.preset);
  spec.set_batch_size(options.batch_size);
  spec.set_seed(options.seed);
  for (const std::string& field : options.outputs) {
    spec.add_outputs()->set_field(field);
  }
  return spec;
}

}  // namespace

absl::Status DataLoader::Options::Validate() const {
  MR_RETURN_IF_ERROR(LoaderOptions::Validate());
  if (spec.sources_size() == 0) {
    if (spec.ByteSizeLong() > 0) {
      return absl::InvalidArgumentError(
          "the spec has no sources; add a source with the name of a dataset");
    }
    if (dataset.empty()) {
      return absl::InvalidArgumentError(
          "no dataset; name a dataset that the server lists, or give a spec "
          "with sources");
    }
    if (batch_size == 0) {
      return absl::InvalidArgumentError(
          "the batch size is 0; give the number of samples of a global batch");
    }
  } else if (!dataset.empty() || !preset.empty() || !outputs.empty() ||
             batch_size != 0 || seed != 0) {
    return absl::InvalidArgumentError(
        "both a spec and a dataset, preset, outputs, batch_size or seed are "
        "set; give the spec alone, with these values in it");
  }
  if (device_prefetch == 0) {
    return absl::InvalidArgumentError(
        "device_prefetch=0 is outside the limits: give at least 1 batch");
  }
  if (repeat_batches > 0 && !audit_file.empty()) {
    return absl::InvalidArgumentError(
        "repeat_batches and audit_file cannot be used together, because an "
        "audit log would record repeats as real batches: remove one of them");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DataLoader>> DataLoader::Open(
    const Options& given) {
  Options options = given;
  if (options.repeat_batches == 0) {
    options.repeat_batches = options.replay_batches;
  }
  MR_RETURN_IF_ERROR(options.Validate());
  MR_ASSIGN_OR_RETURN(auto device, device::OpenTorchDevice(options.device));
  // torch::kCUDA without a number is the current device. Tensors of a device
  // without a number cannot be used together with tensors of one with a number.
  options.device = device::WithIndex(options.device);
  HostLoaderOptions host;
  static_cast<LoaderOptions&>(host) = options;
  host.spec = MakeSpec(options);
  const auto pinned_bytes = std::make_shared<std::atomic<uint64_t>>(0);
  host.allocator = device::NewSlotAllocatorFor(options.device, pinned_bytes);
  MR_ASSIGN_OR_RETURN(auto host_loader, receive::OpenHostLoader(host));
  return internal::NewDataLoader(std::move(host_loader), std::move(device),
                                 options, pinned_bytes);
}

}  // namespace millrace
