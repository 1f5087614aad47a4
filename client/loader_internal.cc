#include "client/loader_internal.h"

#include <ATen/ops/from_blob.h>

#include <utility>

#include "client/torch/device_feeder.h"
#include "client/torch/torch_types.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

class DataLoaderImpl final : public DataLoader {
 public:
  DataLoaderImpl(std::unique_ptr<DeviceFeeder> feeder, c10::Device device)
      : feeder_(std::move(feeder)), device_(device) {}

  const OpenResponse& plan() const override { return feeder_->host().plan(); }

  absl::StatusOr<Batch> Next() override {
    MR_ASSIGN_OR_RETURN(DeviceBatch described, feeder_->Next());
    Batch batch;
    batch.position = described.position;
    batch.rows = described.rows;
    batch.local_valid = described.local_valid;
    batch.global_valid = described.global_valid;
    batch.first_position = described.first_position;
    batch.tensors.reserve(described.tensors.size());
    for (DeviceTensor& tensor : described.tensors) {
      batch.tensors.push_back({std::move(tensor.name), View(tensor)});
    }
    return batch;
  }

  Position position() const override { return feeder_->position(); }

  Stats stats() const override {
    const DeviceFeeder::Stats stats = feeder_->stats();
    return {feeder_->host().stats(), stats.wait_seconds, stats.prepare_seconds};
  }

  void Close() override { feeder_->Close(); }

 private:
  at::Tensor View(DeviceTensor& tensor) const {
    return at::from_blob(
        tensor.data, tensor.sizes, tensor.strides,
        // The hold dies with the tensor's last reference.
        [hold = std::move(tensor.hold)](void*) {},
        at::TensorOptions(TorchType(tensor.dtype)).device(device_), device_);
  }

  const std::unique_ptr<DeviceFeeder> feeder_;
  const c10::Device device_;
};

}  // namespace

const torch::Tensor& Batch::tensor(absl::string_view name) const {
  for (const NamedTensor& named : tensors) {
    if (named.name == name) return named.tensor;
  }
  MR_CHECK(false) << "the batch has no tensor " << name;
  return tensors.front().tensor;  // not reached
}

bool Batch::has(absl::string_view name) const {
  for (const NamedTensor& named : tensors) {
    if (named.name == name) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<DataLoader>> internal::NewDataLoader(
    std::unique_ptr<HostLoader> host, std::shared_ptr<Device> device,
    const DataLoader::Options& options) {
  DeviceFeeder::Options feeder_options;
  feeder_options.prefetch = options.device_prefetch;
  feeder_options.thread = options.prepare_ahead;
  feeder_options.apply_transform = options.apply_device_transform;
  feeder_options.world_size = options.world_size;
  feeder_options.next_timeout = options.next_timeout;
  MR_ASSIGN_OR_RETURN(
      auto feeder,
      DeviceFeeder::Start(std::move(host), std::move(device), feeder_options));
  return std::make_unique<DataLoaderImpl>(std::move(feeder), options.device);
}

}  // namespace millrace
