#include "trainer/ddp/communicator.h"

#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "trainer/ddp/nccl_loader.h"
#include "trainer/torch_error.h"

namespace millrace {
namespace {

class Alone final : public Communicator {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t world_size() const override { return 1; }
  absl::Status Sum(torch::Tensor&) override { return absl::OkStatus(); }
  absl::Status Broadcast(const std::vector<torch::Tensor>&) override {
    return absl::OkStatus();
  }
  absl::Status AverageGradientsOf(const std::vector<torch::Tensor>&) override {
    return absl::OkStatus();
  }
  void BeforeForward() override {}
  void BeforeBackward() override {}
  absl::Status Leave() override { return absl::OkStatus(); }
};

class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(const RankEnv& env,
                    c10::intrusive_ptr<c10d::ProcessGroup> group,
                    c10::intrusive_ptr<c10d::Backend> nccl)
      : rank_(env.rank),
        world_size_(env.world_size),
        group_(std::move(group)),
        nccl_(std::move(nccl)) {}

  ~GroupCommunicator() override {
    if (nccl_ == nullptr) return;
    // The run failed. Closing in order would wait for ranks that may be gone.
    try {
      nccl_->abort();
    } catch (const std::exception& error) {
      MR_LOG(WARNING) << "NCCL cannot be ended: " << TorchMessage(error);
    }
  }

  uint32_t rank() const override { return rank_; }
  uint32_t world_size() const override { return world_size_; }

  absl::Status Sum(torch::Tensor& tensor) override {
    return Collective("sum", [&] {
      std::vector<torch::Tensor> tensors = {tensor};
      group_->allreduce(tensors)->wait();
    });
  }

  absl::Status Broadcast(const std::vector<torch::Tensor>& tensors) override {
    return Collective("broadcast", [&] {
      torch::NoGradGuard no_grad;
      for (const torch::Tensor& tensor : tensors) {
        // Both backends move plain memory.
        std::vector<torch::Tensor> one = {tensor.detach().contiguous()};
        group_->broadcast(one)->wait();
        if (!one[0].is_alias_of(tensor)) tensor.detach().copy_(one[0]);
      }
    });
  }

  absl::Status AverageGradientsOf(
      const std::vector<torch::Tensor>& parameters) override {
    return Collective("set-up of the gradients' average", [&] {
      c10d::verify_params_across_processes(group_, parameters, std::nullopt);
      auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
          parameters,
          {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap});
      // Gradients are ready from the last layer to the first.
      std::reverse(buckets.begin(), buckets.end());
      reducer_ = std::make_unique<c10d::Reducer>(
          parameters, std::move(buckets), group_,
          std::vector<bool>(parameters.size(), false),
          c10d::kDefaultBucketBytesCap,
          /*find_unused_parameters=*/false,
          // Gradients are set to none each step, so they cannot be views.
          /*gradient_as_bucket_view=*/false,
          std::unordered_map<size_t, std::string>{},
          c10d::kDefaultFirstBucketBytes,
          /*skip_all_reduce_unused_params=*/false,
          /*use_python_reducer=*/false, std::vector<int64_t>{});
    });
  }

  void BeforeForward() override {
    if (reducer_ == nullptr) return;
    reducer_->prepare_for_forward();
    // After the first step the buckets follow the order in which gradients
    // became ready.
    reducer_->rebuild_buckets();
  }
  void BeforeBackward() override {
    if (reducer_ != nullptr) reducer_->prepare_for_backward({});
  }

  absl::Status Leave() override {
    if (nccl_ == nullptr) return absl::OkStatus();
    return Collective("end",
                      [this] { std::exchange(nccl_, nullptr)->shutdown(); });
  }

 private:
  template <typename Call>
  absl::Status Collective(absl::string_view what, Call&& call) {
    try {
      call();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return absl::UnavailableError(
          absl::StrCat("rank ", rank_, " of ", world_size_, ": the ", what,
                       " over all ranks failed: ", TorchMessage(error),
                       "; another rank has most likely ended"));
    }
  }

  const uint32_t rank_;
  const uint32_t world_size_;
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  c10::intrusive_ptr<c10d::Backend> nccl_;  // null on the CPU
  std::unique_ptr<c10d::Reducer> reducer_;
};

c10::intrusive_ptr<c10d::Store> OpenStore(const RankEnv& env,
                                          std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = env.master_port;
  options.isServer = env.rank == 0 && !env.agent_store;
  options.numWorkers = env.world_size;
  options.waitWorkers = false;  // the process group waits for the ranks
  options.timeout = timeout;
  if (options.isServer && env.master_fd >= 0) {
    options.masterListenFd = env.master_fd;
  }
  c10::intrusive_ptr<c10d::Store> store =
      c10::make_intrusive<c10d::TCPStore>(env.master_address, options);
  // torchrun's store lives on when ranks are restarted.
  return c10::make_intrusive<c10d::PrefixStore>(
      absl::StrCat("millrace/attempt_", env.restart), store);
}

std::shared_ptr<::gloo::transport::Device> OpenNetwork(const RankEnv& env) {
  const std::string interface =
      GetEnvironmentVariable("GLOO_SOCKET_IFNAME").value_or("");
  if (!interface.empty()) {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  // All ranks are on this machine: its own name may lead anywhere.
  if (env.master_address == "127.0.0.1" || env.master_address == "localhost") {
    return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  }
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

// Ranks on GPUs would wait in NCCL for ranks that are not there.
absl::Status CheckSameDevices(const RankEnv& env, torch::Device device,
                              c10d::ProcessGroup& group) {
  std::vector<torch::Tensor> on_gpu = {
      torch::full({1}, device.is_cuda() ? 1 : 0, torch::kInt64)};
  group.allreduce(on_gpu)->wait();
  const auto count = on_gpu[0].item<int64_t>();
  if (count == 0 || count == env.world_size) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(count, " of ", env.world_size,
                   " ranks run on GPUs and the others on "
                   "CPUs (rank ",
                   env.rank, " on ", device.str(),
                   "); say --device=cuda or --device=cpu to all"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Join(
    const RankEnv& env, const Options& options) {
  if (env.world_size == 1) return std::make_unique<Alone>();
  MakeNcclBackend* make_nccl = nullptr;
  if (options.device.is_cuda()) {
    MR_ASSIGN_OR_RETURN(make_nccl, LoadNccl(NcclPluginPaths()));
  }
  const std::chrono::milliseconds timeout(
      absl::ToInt64Milliseconds(options.timeout));
  const std::chrono::milliseconds call_timeout(
      absl::ToInt64Milliseconds(options.call_timeout));
  try {
    c10::intrusive_ptr<c10d::Store> store = OpenStore(env, timeout);
    auto gloo_options = c10d::ProcessGroupGloo::Options::create(timeout);
    gloo_options->devices.push_back(OpenNetwork(env));
    auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
        store, static_cast<int>(env.rank), static_cast<int>(env.world_size),
        gloo_options);
    auto group = c10::make_intrusive<c10d::ProcessGroup>(
        store, static_cast<int>(env.rank), static_cast<int>(env.world_size));
    group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::GLOO,
                      c10::intrusive_ptr<c10d::Backend>(gloo));
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    MR_RETURN_IF_ERROR(CheckSameDevices(env, options.device, *group));
    gloo->setTimeout(call_timeout);
    c10::intrusive_ptr<c10d::Backend> nccl;
    if (make_nccl != nullptr) {
      // A store of its own: keys of the two backends must not meet.
      MR_ASSIGN_OR_RETURN(
          nccl, ConnectNccl(make_nccl,
                            {.store = c10::make_intrusive<c10d::PrefixStore>(
                                 "nccl", store),
                             .rank = static_cast<int32_t>(env.rank),
                             .size = static_cast<int32_t>(env.world_size),
                             .device = options.device.index(),
                             .timeout_ms = call_timeout.count()}));
      group->setBackend(c10::kCUDA, c10d::ProcessGroup::BackendType::NCCL,
                        nccl);
    }
    return std::make_unique<GroupCommunicator>(env, std::move(group),
                                               std::move(nccl));
  } catch (const std::exception& error) {
    return absl::DeadlineExceededError(absl::StrCat(
        "rank ", env.rank, " of ", env.world_size,
        " could not join the others at ", env.master_address, ":",
        env.master_port, " within ", absl::FormatDuration(options.timeout),
        ": ", TorchMessage(error),
        "; look whether all ranks were started and reach that address"));
  }
}

}  // namespace millrace
