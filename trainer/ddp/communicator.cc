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
#include "common/logging.h"
#include "common/standard_output.h"
#include "common/status_macros.h"
#include "trainer/ddp/local_address.h"
#include "trainer/ddp/nccl_loader.h"
#include "trainer/ddp/roll_call.h"
#include "trainer/torch_error.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

// Time that Explain() waits for a name after a collective call has failed: its
// connections break at the same moment as those of the roll call, and rank 0
// has to pass the name on. A choice.
constexpr absl::Duration kReasonWait = absl::Seconds(3);
// Time that a call which does not fail by itself goes on after a rank was
// missed (its machine is gone, so nothing closes its connections), or `timeout`
// when that is less. A choice: long beside kReasonWait and a step.
constexpr absl::Duration kStuck = absl::Seconds(10);
// On a device with streams one step in this many is timed, and its times are
// looked at that many steps later: looking waits for the device, which has
// passed them by then. A choice.
constexpr int kTimedSteps = 50;

// Since when this rank waits for others: ticks of the steady clock, 0: it does
// not. Written by the trainer's thread, read by the roll call's. Nothing else
// is passed by it; a value that is read a moment late only shifts the watchdog
// by one look.
struct Waiting {
  std::atomic<int64_t> since{0};
  void Begin() { since = Clock::now().time_since_epoch().count(); }
  void End() { since = 0; }
};

// Ends a process that waits in vain. Called on the roll call's thread about
// once a second while a rank is missing; keeps the time of the first call.
// Copied before the first call only.
class Watchdog {
 public:
  Watchdog(std::shared_ptr<Waiting> waiting, uint32_t world_size,
           absl::Duration patience)
      : waiting_(std::move(waiting)),
        world_size_(world_size),
        patience_(absl::ToChronoNanoseconds(patience)) {}

  void operator()(const RollCall::Absence& absence) {
    const Clock::time_point now = Clock::now();
    if (noticed_ == Clock::time_point()) noticed_ = now;
    // Not waiting: the trainer computes, and will fail or wait soon.
    const int64_t since = waiting_->since;
    if (since == 0) return;
    // The later of the two: neither the time before the rank was missed nor
    // that before this wait began is waiting in vain.
    const Clock::time_point from =
        std::max(noticed_, Clock::time_point(Clock::duration(since)));
    if (now - from < patience_) return;
    MR_LOG(ERROR) << absence.Sentence(world_size_)
                  << "; this rank waits for it in vain and ends, without a "
                     "checkpoint of this moment";
    // Not exit(): the trainer's thread stands in a call, and destructors would
    // wait for it.
    _exit(1);
  }

 private:
  std::shared_ptr<Waiting> waiting_;
  uint32_t world_size_;
  Clock::duration patience_;
  Clock::time_point noticed_;
};

// The Reducer notes when a backward pass was done and when the averages were.
class TimedReducer final : public c10d::Reducer {
 public:
  using c10d::Reducer::Reducer;

  // Time from the one to the other in the last step that was timed; 0: none
  // was. Waits for the device.
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
  GroupCommunicator(const RankEnv& env,
                    c10::intrusive_ptr<c10d::ProcessGroup> group,
                    c10::intrusive_ptr<c10d::Backend> nccl,
                    std::unique_ptr<RollCall> roll,
                    std::shared_ptr<Waiting> waiting)
      : rank_(env.rank),
        world_size_(env.world_size),
        group_(std::move(group)),
        nccl_(std::move(nccl)),
        waiting_(std::move(waiting)),
        roll_(std::move(roll)) {}

  ~GroupCommunicator() override {
    if (nccl_ == nullptr) return;
    // Without Leave() the run failed. Closing in order would wait for ranks
    // that may be gone.
    try {
      nccl_->abort();
    } catch (const std::exception& error) {
      MR_LOG(WARNING) << "NCCL cannot be ended: " << TorchMessage(error);
    }
  }

  uint32_t rank() const override { return rank_; }
  uint32_t world_size() const override { return world_size_; }

  absl::Status Sum(torch::Tensor& tensor) override {
    const Clock::time_point start = Clock::now();
    // Counted also when the call fails.
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
        // Both backends move plain memory: a tensor that is not contiguous goes
        // by way of a copy.
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
      // The step that was timed was kTimedSteps steps ago: the device has
      // passed its events, and nothing is waited for.
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
    // throws, Explain() ends the waiting in its place.
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
    // End() before, not after: waiting for a name is no waiting in vain.
    const auto absence = roll_->AwaitMissing(kReasonWait);
    if (!absence.has_value()) return error;
    lost_ = true;
    return absl::UnavailableError(absl::StrCat(absence->Sentence(world_size_),
                                               "; noticed by rank ", rank_,
                                               ", where ", error.message()));
  }

  Stats stats() const override { return stats_; }

  absl::Status Leave() override {
    absl::Status left;
    if (nccl_ != nullptr) {
      // While the roll call still watches: closing waits for the other ranks.
      left = Collective("end",
                        [this] { std::exchange(nccl_, nullptr)->shutdown(); });
    }
    roll_->End("");
    return left;
  }
  void Fail(const absl::Status& why) override {
    // First: the others hear why before this rank's connections break.
    roll_->End(why.message());
    if (nccl_ == nullptr || !lost_) return;
    // The device may be in an average that the lost rank never joins: nothing
    // that waits for the device (a checkpoint, the end of the loader) would
    // return.
    MR_LOG(ERROR) << why.message()
                  << "; this rank ends without a checkpoint of this moment";
    _exit(1);
  }

 private:
  // Runs `call`, which may block on other ranks and throws what libtorch
  // throws. Unavailable, with the missing rank's name where there is one.
  template <typename Call>
  absl::Status Collective(absl::string_view what, Call&& call) {
    waiting_->Begin();
    try {
      call();
      waiting_->End();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return Explain(absl::UnavailableError(
          absl::StrCat("the ", what, " over all ranks failed (rank ", rank_,
                       " of ", world_size_, "): ", TorchMessage(error))));
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
  // Of all parameters; stats_ is touched by the one thread of the owner.
  uint64_t gradient_bytes_ = 0;
  Stats stats_;
  // Last, so that it ends first: if the connections broke before, the others
  // would miss this rank before it has said why it ends.
  std::unique_ptr<RollCall> roll_;
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
  // torchrun's store lives on when ranks are restarted: keys of an earlier
  // attempt must not be found.
  return c10::make_intrusive<c10d::PrefixStore>(
      absl::StrCat("millrace/attempt_", env.restart), store);
}

bool OnThisMachine(const std::string& address) {
  return address == "127.0.0.1" || address == "localhost" || address == "::1";
}

// Rank 0 puts the port and a random token into the store; the others wait for
// them there.
absl::StatusOr<std::unique_ptr<RollCall>> StartRollCall(
    const RankEnv& env, absl::Duration timeout,
    const std::shared_ptr<Waiting>& waiting, c10d::Store& store) {
  RollCall::Options options;
  options.rank = env.rank;
  options.world_size = env.world_size;
  options.host = HostName();
  options.silence = timeout;
  options.while_missing =
      Watchdog(waiting, env.world_size, std::min(kStuck, timeout));
  if (env.rank == 0) {
    std::random_device random;
    for (int i = 0; i < 4; ++i) {
      absl::StrAppendFormat(&options.token, "%08x", random());
    }
    MR_ASSIGN_OR_RETURN(
        auto roll, RollCall::Keep(options, OnThisMachine(env.master_address)));
    const std::string where = absl::StrCat(roll->port(), " ", options.token);
    store.set("roll_call", std::vector<uint8_t>(where.begin(), where.end()));
    return roll;
  }
  const std::vector<uint8_t> where = store.get("roll_call");
  const std::vector<std::string> words =
      absl::StrSplit(std::string(where.begin(), where.end()), ' ');
  uint32_t port = 0;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &port) || port > 65535) {
    return absl::InternalError("rank 0 says no address of the roll call");
  }
  options.token = words[1];
  return RollCall::Answer(options, env.master_address,
                          static_cast<uint16_t>(port), timeout);
}

std::shared_ptr<::gloo::transport::Device> OpenNetwork(const RankEnv& env) {
  const std::string interface =
      GetEnvironmentVariable("GLOO_SOCKET_IFNAME").value_or("");
  if (!interface.empty()) {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  // All ranks are on this machine. The loopback, because the machine's own name
  // may lead anywhere.
  if (OnThisMachine(env.master_address)) {
    return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  }
  // The machine's own name often leads to its loopback, where other machines
  // would look for themselves.
  const std::string address =
      LocalAddressTowards(env.master_address, env.master_port);
  if (!address.empty()) {
    return c10d::ProcessGroupGloo::createDeviceForHostname(address);
  }
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

// FailedPrecondition on all ranks when some run on GPUs and others on CPUs:
// ranks on GPUs would wait in NCCL for ranks that never come. A collective call
// over Gloo.
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
  // Gloo and c10d's store write to sockets as in a Python process, which ignores
  // SIGPIPE.
  IgnoreWriteSignals();
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
    // `timeout` was for the ranks to come; they are there now.
    gloo->setTimeout(call_timeout);
    // Before NCCL connects: NCCL waits for a rank that dies meanwhile, and the
    // roll call then ends this process.
    auto waiting = std::make_shared<Waiting>();
    MR_ASSIGN_OR_RETURN(auto roll,
                        StartRollCall(env, options.timeout, waiting, *store));
    c10::intrusive_ptr<c10d::Backend> nccl;
    if (make_nccl != nullptr) {
      // A store of its own: keys of the two backends must not meet.
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
        roll->End(connected.status().message());
        return connected.status();
      }
      nccl = *std::move(connected);
      group->setBackend(c10::kCUDA, c10d::ProcessGroup::BackendType::NCCL,
                        nccl);
    }
    return std::make_unique<GroupCommunicator>(env, std::move(group),
                                               std::move(nccl), std::move(roll),
                                               std::move(waiting));
  } catch (const std::exception& error) {
    return absl::DeadlineExceededError(absl::StrCat(
        "rank ", env.rank, " of ", env.world_size,
        " could not join the others at ", env.master_address, ":",
        env.master_port, " (--rank_timeout is ",
        absl::FormatDuration(options.timeout), "): ", TorchMessage(error),
        "; look whether all ranks were started and reach that address"));
  }
}

}  // namespace millrace
