#include "trainer/ddp/communicator.h"

#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/host_name.h"
#include "common/logging.h"
#include "common/standard_output.h"
#include "common/status_macros.h"
#include "trainer/ddp/local_address.h"
#include "trainer/ddp/master_name.h"
#include "trainer/ddp/nccl_loader.h"
#include "trainer/ddp/peer_monitor.h"
#include "trainer/torch_error.h"

namespace millrace::ddp {
namespace {

using Clock = std::chrono::steady_clock;

// Time that Explain() waits for the missing rank's name after a collective call
// failed: the call's connections break at the same moment as those of the peer
// monitor, and rank 0 has to forward the name. A choice.
constexpr absl::Duration kReasonWait = absl::Seconds(3);
// Time that a blocked call has after a rank was found missing, or `timeout`
// when that is less. A call does not fail by itself when the rank's machine is
// gone, because nothing closes its connections. A choice: long beside
// kReasonWait and a step.
constexpr absl::Duration kStuck = absl::Seconds(10);
// On a device with streams one step in this many is timed, and its times are
// read that many steps later: reading waits for the device, which has passed
// the step by then. A choice.
constexpr int kTimedSteps = 50;
// Max time that a name of rank 0's machine without an address is looked up. A
// choice: longer than the few seconds for which resolvers keep the answer that
// there is none.
constexpr absl::Duration kNameTime = absl::Seconds(15);

// Start of this rank's current wait for other ranks, in ticks of the steady
// clock; 0: it does not wait. Written by the trainer's thread, read by the peer
// monitor's. No other data is published by it, and a stale value only delays
// the watchdog by one call.
struct Waiting {
  std::atomic<int64_t> since{0};
  void Begin() { since = Clock::now().time_since_epoch().count(); }
  void End() { since = 0; }
};

// Ends this process when it is blocked on a missing rank. The peer monitor's
// thread calls it about once a second while a rank is missing. It keeps the
// time of the first call, so it must not be copied afterwards.
class Watchdog {
 public:
  Watchdog(std::shared_ptr<Waiting> waiting, uint32_t world_size,
           absl::Duration patience)
      : waiting_(std::move(waiting)),
        world_size_(world_size),
        patience_(absl::ToChronoNanoseconds(patience)) {}

  void operator()(const PeerMonitor::MissingRank& missing) {
    const Clock::time_point now = Clock::now();
    if (noticed_ == Clock::time_point()) noticed_ = now;
    // 0: the trainer computes; its next call fails or waits.
    const int64_t since = waiting_->since;
    if (since == 0) return;
    // The later of the two: only time that is both after the loss and in this
    // wait counts.
    const Clock::time_point from =
        std::max(noticed_, Clock::time_point(Clock::duration(since)));
    if (now - from < patience_) return;
    MR_LOG(ERROR) << missing.Sentence(world_size_)
                  << "; this rank cannot continue and exits without a "
                     "checkpoint of this step";
    // Not exit(): the trainer's thread is blocked in a call, and destructors
    // would wait for it.
    _exit(1);
  }

 private:
  std::shared_ptr<Waiting> waiting_;
  uint32_t world_size_;
  Clock::duration patience_;
  Clock::time_point noticed_;
};

// A Reducer that reports the time between the end of a backward pass and the
// end of its averages.
class TimedReducer final : public c10d::Reducer {
 public:
  using c10d::Reducer::Reducer;

  // That time in the last step that was timed; 0: none was. Waits for the
  // device.
  double WaitedSeconds() {
    if (timer_ == nullptr) return 0;
    const std::optional<int64_t> nanos =
        timer_->measureDifference(c10d::Timer::Event::kBackwardComputeEnd,
                                  c10d::Timer::Event::kBackwardCommEnd);
    return nanos.has_value() ? 1e-9 * static_cast<double>(*nanos) : 0;
  }
  int64_t steps() const { return num_iterations_; }
};

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
  void AfterBackward() override {}
  absl::Status Explain(absl::Status error) override { return error; }
  Stats stats() const override { return {}; }
  absl::Status Leave() override { return absl::OkStatus(); }
  void Fail(const absl::Status&) override {}
};

class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(const trainer::RankEnv& env,
                    c10::intrusive_ptr<c10d::ProcessGroup> group,
                    c10::intrusive_ptr<c10d::Backend> nccl,
                    std::unique_ptr<PeerMonitor> monitor,
                    std::shared_ptr<Waiting> waiting)
      : rank_(env.rank),
        world_size_(env.world_size),
        group_(std::move(group)),
        nccl_(std::move(nccl)),
        waiting_(std::move(waiting)),
        monitor_(std::move(monitor)) {}

  ~GroupCommunicator() override {
    if (nccl_ == nullptr) return;
    // Without Leave() the run failed. shutdown() would wait for ranks that may
    // be gone.
    try {
      nccl_->abort();
    } catch (const std::exception& error) {
      MR_LOG(WARNING) << "cannot abort NCCL: " << trainer::TorchMessage(error);
    }
  }

  uint32_t rank() const override { return rank_; }
  uint32_t world_size() const override { return world_size_; }

  absl::Status Sum(torch::Tensor& tensor) override {
    const Clock::time_point start = Clock::now();
    // Also when the call fails.
    const absl::Cleanup count = [&] {
      stats_.allreduce_seconds +=
          std::chrono::duration<double>(Clock::now() - start).count();
      stats_.bytes += tensor.nbytes();
    };
    return Collective("sum", [&] {
      // Views of the same memory: summed in place.
      std::vector<torch::Tensor> tensors = {tensor};
      group_->allreduce(tensors)->wait();
    });
  }

  absl::Status Broadcast(const std::vector<torch::Tensor>& tensors) override {
    return Collective("broadcast", [&] {
      torch::NoGradGuard no_grad;
      for (const torch::Tensor& tensor : tensors) {
        // Both backends move contiguous memory: other tensors are copied.
        std::vector<torch::Tensor> one = {tensor.detach().contiguous()};
        group_->broadcast(one)->wait();
        if (!one[0].is_alias_of(tensor)) tensor.detach().copy_(one[0]);
      }
    });
  }

  absl::Status AverageGradientsOf(
      const std::vector<torch::Tensor>& parameters) override {
    return Collective("setup of the gradient averaging", [&] {
      c10d::verify_params_across_processes(group_, parameters, std::nullopt);
      auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
          parameters,
          {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap});
      // Gradients are ready from the last layer to the first.
      std::reverse(buckets.begin(), buckets.end());
      reducer_ = std::make_unique<TimedReducer>(
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
      has_streams_ = !parameters.at(0).is_cpu();
      reducer_->set_ddp_runtime_logging_sample_rate(has_streams_ ? kTimedSteps
                                                                 : 1);
      gradient_bytes_ = 0;
      for (const torch::Tensor& parameter : parameters) {
        gradient_bytes_ += parameter.nbytes();
      }
    });
  }

  void BeforeForward() override {
    if (reducer_ == nullptr) return;
    if (has_streams_ && (reducer_->steps() + 1) % kTimedSteps == 0) {
      // The timed step is kTimedSteps steps ago: the device has passed its
      // events, so this does not wait.
      stats_.allreduce_seconds += kTimedSteps * reducer_->WaitedSeconds();
    }
    reducer_->prepare_for_forward();
    // After the first step the buckets follow the order in which gradients
    // became ready.
    reducer_->rebuild_buckets();
  }
  void BeforeBackward() override {
    if (reducer_ == nullptr) return;
    // From here to AfterBackward() the pass may block on other ranks. If it
    // throws, Explain() calls waiting_->End() instead.
    averaging_ = true;
    waiting_->Begin();
    reducer_->prepare_for_backward({});
  }
  void AfterBackward() override {
    if (!std::exchange(averaging_, false)) return;
    waiting_->End();
    stats_.bytes += gradient_bytes_;
    if (!has_streams_) stats_.allreduce_seconds += reducer_->WaitedSeconds();
  }

  absl::Status Explain(absl::Status error) override {
    waiting_->End();
    // waiting_->End() comes first: the watchdog must not count this wait.
    const auto missing = monitor_->AwaitMissing(kReasonWait);
    if (!missing.has_value()) return error;
    lost_ = true;
    return absl::UnavailableError(absl::StrCat(missing->Sentence(world_size_),
                                               "; noticed by rank ", rank_,
                                               ", where ", error.message()));
  }

  Stats stats() const override { return stats_; }

  absl::Status Leave() override {
    absl::Status left;
    if (nccl_ != nullptr) {
      // Before the monitor ends: shutdown() waits for the other ranks.
      left = Collective("end",
                        [this] { std::exchange(nccl_, nullptr)->shutdown(); });
    }
    monitor_->End("");
    return left;
  }
  void Fail(const absl::Status& why) override {
    // First: the other ranks learn why before this rank's connections break.
    monitor_->End(why.message());
    if (nccl_ == nullptr || !lost_) return;
    // The device may be in an average that the missing rank never joins: a call
    // that waits for the device (a checkpoint, closing the loader) would not
    // return.
    MR_LOG(ERROR) << why.message()
                  << "; this rank ends without a checkpoint of this step";
    _exit(1);
  }

 private:
  // Runs `call`, which may block on other ranks and throws libtorch's
  // exceptions. Unavailable: it failed; the message names the missing rank if
  // there is one.
  template <typename Call>
  absl::Status Collective(absl::string_view what, Call&& call) {
    waiting_->Begin();
    try {
      call();
      waiting_->End();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return Explain(absl::UnavailableError(absl::StrCat(
          "the ", what, " over all ranks failed (rank ", rank_, " of ",
          world_size_, "): ", trainer::TorchMessage(error))));
    }
  }

  const uint32_t rank_;
  const uint32_t world_size_;
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  c10::intrusive_ptr<c10d::Backend> nccl_;  // null on the CPU
  const std::shared_ptr<Waiting> waiting_;
  std::unique_ptr<TimedReducer> reducer_;
  bool has_streams_ = false;
  // Between BeforeBackward() and AfterBackward().
  bool averaging_ = false;
  // A call or a pass failed because a rank is missing.
  bool lost_ = false;
  // Of all parameters. Only the owner's thread uses this and stats_.
  uint64_t gradient_bytes_ = 0;
  Stats stats_;
  // Last, so that it is destroyed first: if the connections broke before, the
  // other ranks would find this rank missing before they know why.
  std::unique_ptr<PeerMonitor> monitor_;
};

c10::intrusive_ptr<c10d::Store> OpenStore(const trainer::RankEnv& env,
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
  // torchrun's store outlives the ranks of an attempt: keys of an earlier
  // attempt must not be found.
  return c10::make_intrusive<c10d::PrefixStore>(
      absl::StrCat("millrace/attempt_", env.restart), store);
}

bool OnThisMachine(const std::string& address) {
  return address == "127.0.0.1" || address == "localhost" || address == "::1";
}

// Rank 0 publishes its port and a random token in the store; the other ranks
// wait for that key.
absl::StatusOr<std::unique_ptr<PeerMonitor>> StartPeerMonitor(
    const trainer::RankEnv& env, absl::Duration timeout,
    const std::shared_ptr<Waiting>& waiting, c10d::Store& store) {
  PeerMonitor::Options options;
  options.rank = env.rank;
  options.world_size = env.world_size;
  options.host = HostName();
  options.heartbeat_timeout = timeout;
  options.while_missing =
      Watchdog(waiting, env.world_size, std::min(kStuck, timeout));
  if (env.rank == 0) {
    std::random_device random;
    for (int i = 0; i < 4; ++i) {
      absl::StrAppendFormat(&options.token, "%08x", random());
    }
    MR_ASSIGN_OR_RETURN(
        auto monitor,
        PeerMonitor::Listen(options, OnThisMachine(env.master_address)));
    const std::string where = absl::StrCat(monitor->port(), " ", options.token);
    store.set("peer_monitor", std::vector<uint8_t>(where.begin(), where.end()));
    return monitor;
  }
  const std::vector<uint8_t> where = store.get("peer_monitor");
  const std::vector<std::string> words =
      absl::StrSplit(std::string(where.begin(), where.end()), ' ');
  uint32_t port = 0;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &port) || port > 65535) {
    return absl::InternalError(
        "the address of rank 0's peer monitor is invalid");
  }
  options.token = words[1];
  return PeerMonitor::Connect(options, env.master_address,
                              static_cast<uint16_t>(port), timeout);
}

std::shared_ptr<::gloo::transport::Device> OpenNetwork(
    const trainer::RankEnv& env) {
  const std::string interface =
      trainer::GetEnvironmentVariable("GLOO_SOCKET_IFNAME").value_or("");
  if (!interface.empty()) {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  // All ranks are on this machine. The machine's own name may resolve to any
  // address, so Gloo uses the loopback.
  if (OnThisMachine(env.master_address)) {
    return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  }
  // The machine's own name often resolves to its loopback, which other machines
  // cannot reach.
  const std::string address =
      LocalAddressTowards(env.master_address, env.master_port);
  if (!address.empty()) {
    return c10d::ProcessGroupGloo::createDeviceForHostname(address);
  }
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

// A collective call over Gloo. FailedPrecondition on all ranks: some ranks run
// on GPUs and others on CPUs; those on GPUs would wait in NCCL for ever.
absl::Status CheckSameDevices(const trainer::RankEnv& env, torch::Device device,
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
                   "); give all ranks --device=cuda or --device=cpu"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Join(
    const trainer::RankEnv& env, const Options& options) {
  if (env.world_size == 1) return std::make_unique<Alone>();
  // Gloo and c10d's store rely on Python's ignoring SIGPIPE when they write to
  // a socket.
  IgnoreWriteSignals();
  MakeNcclBackend* make_nccl = nullptr;
  if (options.device.is_cuda()) {
    MR_ASSIGN_OR_RETURN(make_nccl, LoadNccl(NcclPluginPaths()));
  }
  MR_RETURN_IF_ERROR(AwaitMasterName(env.master_address,
                                     std::min(kNameTime, options.timeout)));
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
    // `timeout` was for the ranks to join.
    gloo->setTimeout(call_timeout);
    // Before NCCL connects: NCCL waits for a rank that dies meanwhile, and the
    // peer monitor then ends this process.
    auto waiting = std::make_shared<Waiting>();
    MR_ASSIGN_OR_RETURN(
        auto monitor, StartPeerMonitor(env, options.timeout, waiting, *store));
    c10::intrusive_ptr<c10d::Backend> nccl;
    if (make_nccl != nullptr) {
      // A prefix of its own: keys of the two backends must not collide.
      waiting->Begin();
      auto connected = ConnectNccl(
          make_nccl,
          {.store = c10::make_intrusive<c10d::PrefixStore>("nccl", store),
           .rank = static_cast<int32_t>(env.rank),
           .size = static_cast<int32_t>(env.world_size),
           .device = options.device.index(),
           .timeout_ms = call_timeout.count()});
      waiting->End();
      if (!connected.ok()) {
        monitor->End(connected.status().message());
        return connected.status();
      }
      nccl = *std::move(connected);
      group->setBackend(c10::kCUDA, c10d::ProcessGroup::BackendType::NCCL,
                        nccl);
    }
    return std::make_unique<GroupCommunicator>(
        env, std::move(group), std::move(nccl), std::move(monitor),
        std::move(waiting));
  } catch (const std::exception& error) {
    return absl::DeadlineExceededError(absl::StrCat(
        "rank ", env.rank, " of ", env.world_size,
        " could not join the others at ", env.master_address, ":",
        env.master_port, " (--rank_timeout is ",
        absl::FormatDuration(options.timeout),
        "): ", trainer::TorchMessage(error),
        "; check that all ranks were started and reach that address"));
  }
}

}  // namespace millrace::ddp
