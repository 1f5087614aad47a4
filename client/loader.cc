#include "client/loader.h"

#include <atomic>
#include <memory>
#include <utility>

#include "client/loader_internal.h"
#include "client/replay_loader.h"
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

absl::Status Validate(const DataLoader::Options& options) {
  if (options.endpoint.empty()) {
    return absl::InvalidArgumentError(
        "no endpoint; give the data server's HOST:PORT");
  }
  if (options.spec.sources_size() == 0) {
    if (options.dataset.empty()) {
      return absl::InvalidArgumentError(
          "no dataset; name one that the server lists, or give a spec with "
          "sources");
    }
    if (options.batch_size == 0) {
      return absl::InvalidArgumentError(
          "the batch size is 0; give the samples of a global batch");
    }
  } else if (!options.dataset.empty() || !options.preset.empty() ||
             !options.outputs.empty()) {
    return absl::InvalidArgumentError(
        "both a spec and a dataset, preset or outputs; give the spec alone, "
        "with its outputs in it");
  }
  return ValidateReplay(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataLoader>> DataLoader::Open(
    const Options& given) {
  MR_RETURN_IF_ERROR(Validate(given));
  MR_ASSIGN_OR_RETURN(auto device, OpenTorchDevice(given.device));
  Options options = given;
  // torch::kCUDA is the current one: tensors of a device without a number
  // cannot be used together with any that have one.
  options.device = WithIndex(given.device);
  HostLoaderOptions host;
  host.endpoint = options.endpoint;
  host.spec = MakeSpec(options);
  host.rank = options.rank;
  host.world_size = options.world_size;
  host.start = options.start;
  host.epochs = options.epochs;
  host.window = options.window;
  host.same_host = options.same_host;
  host.open_timeout = options.open_timeout;
  host.next_timeout = options.next_timeout;
  host.step_timeout = options.step_timeout;
  host.hedge_share = options.hedge_share;
  host.hedge_floor = options.hedge_floor;
  host.verify_payload = options.verify_payload;
  host.expected_plan_hash = options.expected_plan_hash;
  host.expected_fingerprint = options.expected_fingerprint;
  const auto pinned_bytes = std::make_shared<std::atomic<uint64_t>>(0);
  host.allocator = NewSlotAllocatorFor(options.device, pinned_bytes);
  MR_ASSIGN_OR_RETURN(auto host_loader, OpenHostLoader(host));
  return internal::NewDataLoader(std::move(host_loader), std::move(device),
                                 options, pinned_bytes);
}

}  // namespace millrace
