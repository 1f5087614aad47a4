#include "client/data_loader_impl.h"

#include <ATen/ops/from_blob.h>

#include <utility>

#include "absl/time/clock.h"
#include "client/audit/audit_log.h"
#include "client/diagnosis/wait_verdict.h"
#include "client/repeat_loader.h"
#include "client/torch/device_feeder.h"
#include "client/torch/torch_device.h"
#include "client/torch/torch_types.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

class DataLoaderImpl final : public DataLoader {
 public:
  DataLoaderImpl(std::unique_ptr<device::DeviceFeeder> feeder,
                 const Options& options,
                 std::shared_ptr<const std::atomic<uint64_t>> pinned_bytes)
      : feeder_(std::move(feeder)),
        device_(options.device),
        pinned_bytes_(std::move(pinned_bytes)),
        audit_file_(options.audit_file) {
    const OpenResponse& plan = feeder_->host().plan();
    audit_run_.set_rank(options.rank);
    audit_run_.set_world_size(options.world_size);
    audit_run_.set_plan_hash(plan.plan_hash());
    audit_run_.set_fingerprint(plan.fingerprint());
    *audit_run_.mutable_resolved_spec() = plan.resolved_spec();
    audit_run_.set_steps_per_epoch(plan.steps_per_epoch());
    audit_run_.set_samples_per_epoch(plan.samples_per_epoch());
    audit_run_.set_dropped_per_epoch(plan.dropped_per_epoch());
    audit_run_.set_payload_digests(options.verify_payload);
    audit_run_.set_endpoint(options.endpoint);
  }

  const OpenResponse& plan() const override { return feeder_->host().plan(); }

  absl::Status StartAudit(uint64_t attempt) override {
    if (audit_file_.empty()) {
      return absl::FailedPreconditionError(
          "StartAudit() needs an audit log: open the loader with an "
          "audit_file");
    }
    audit_run_.set_attempt(attempt);
    audit_run_.set_started_unix_micros(absl::ToUnixMicros(absl::Now()));
    MR_ASSIGN_OR_RETURN(audit_,
                        audit::AuditWriter::Open(audit_file_, audit_run_));
    return absl::OkStatus();
  }

  absl::StatusOr<Batch> Next() override {
    if (!audit_file_.empty() && audit_ == nullptr) {
      return absl::FailedPreconditionError(
          "the loader has an audit_file but no audit_attempt; call "
          "StartAudit() before Next()");
    }
    MR_ASSIGN_OR_RETURN(device::DeviceBatch described, feeder_->Next());
    if (audit_ != nullptr && described.audit.has_value()) {
      // Training continues without the log: an audit reports the records that
      // are missing.
      const absl::Status written =
          audit_->Append(described.position, *described.audit);
      if (!written.ok()) {
        MR_LOG_EVERY(ERROR, absl::Minutes(10))
            << written.message() << "; the audit log ends here";
      }
    }
    Batch batch;
    static_cast<BatchInfo&>(batch) = described;
    // A weak reference: the recorder must not keep the slot in use after the
    // last tensor of the batch is gone.
    if (!described.slot.expired()) {
      // The tensors own the slot, not the batch.
      batch.stream_recorder = [slot =
                                   described.slot](const c10::Stream& stream) {
        if (const auto lease = slot.lock(); lease != nullptr) {
          lease->UsedOn(device::NameOf(stream));
        }
      };
    }
    batch.tensors.reserve(described.tensors.size());
    for (device::DeviceTensor& tensor : described.tensors) {
      batch.tensors.push_back({std::move(tensor.name), View(tensor)});
    }
    return batch;
  }

  Position position() const override { return feeder_->position(); }

  absl::Status Seek(Position position) override {
    return feeder_->Seek(position);
  }

  Stats stats() const override {
    const device::DeviceFeeder::Stats stats = feeder_->stats();
    return {feeder_->host().stats(), stats.wait_seconds, stats.prepare_seconds,
            stats.device_copy_seconds,
            pinned_bytes_ == nullptr ? 0 : pinned_bytes_->load()};
  }

  void Close() override { feeder_->Close(); }

 private:
  at::Tensor View(device::DeviceTensor& tensor) const {
    return at::from_blob(
        tensor.data, tensor.sizes, tensor.strides,
        // The deleter owns the hold: it dies with the last reference to the
        // tensor.
        [hold = std::move(tensor.hold)](void*) {},
        at::TensorOptions(device::TorchType(tensor.dtype)).device(device_),
        device_);
  }

  const std::unique_ptr<device::DeviceFeeder> feeder_;
  const c10::Device device_;
  const std::shared_ptr<const std::atomic<uint64_t>> pinned_bytes_;
  const std::string audit_file_;
  AuditRun audit_run_;
  std::unique_ptr<audit::AuditWriter> audit_;  // null: no log, or not started
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

void Batch::RecordStream(const c10::Stream& stream) const {
  if (stream_recorder) stream_recorder(stream);
}

std::string WhereTheTimeWent(const DataLoader::Stats& before,
                             const DataLoader::Stats& after,
                             double elapsed_seconds) {
  return diagnosis::JudgeWait(
             diagnosis::WaitBetween(before, after, elapsed_seconds))
      .text;
}

absl::StatusOr<std::unique_ptr<DataLoader>> internal::NewDataLoader(
    std::unique_ptr<HostLoader> host, std::shared_ptr<device::Device> device,
    const DataLoader::Options& options,
    std::shared_ptr<const std::atomic<uint64_t>> pinned_bytes) {
  device::DeviceFeeder::Options feeder_options;
  feeder_options.prefetch = options.device_prefetch;
  feeder_options.thread = options.prepare_ahead;
  feeder_options.apply_transform = options.apply_device_transform;
  feeder_options.world_size = options.world_size;
  feeder_options.next_timeout = options.next_timeout;
  feeder_options.audit = !options.audit_file.empty();
  MR_ASSIGN_OR_RETURN(auto feeder,
                      device::DeviceFeeder::Start(
                          std::move(host), std::move(device), feeder_options));
  auto loader = std::make_unique<DataLoaderImpl>(std::move(feeder), options,
                                                 std::move(pinned_bytes));
  if (!options.audit_file.empty() && options.audit_attempt != 0) {
    MR_RETURN_IF_ERROR(loader->StartAudit(options.audit_attempt));
  }
  if (options.repeat_batches > 0) {
    return RepeatBatches(std::move(loader), options);
  }
  return loader;
}

}  // namespace millrace
