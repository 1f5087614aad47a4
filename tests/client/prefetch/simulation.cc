#include "tests/client/prefetch/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/prefetch/prefetch_loader.h"
#include "tests/client/prefetch/fake_transport.h"

namespace millrace::testing {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(5);

}  // namespace

class Simulation::Transport final : public BatchTransport {
 public:
  Transport(Simulation* sim, int servers, ServiceTime service)
      : sim_(sim), service_(std::move(service)), servers_(servers) {}

  // --- the simulation -------------------------------------------------------
  absl::Time NextDone() const {
    absl::Time next = absl::InfiniteFuture();
    for (const Server& server : servers_) {
      if (!server.queue.empty()) next = std::min(next, server.done);
    }
    return next;
  }

  // Sends what is done at `now`.
  void Deliver(absl::Time now) {
    for (size_t i = 0; i < servers_.size(); ++i) {
      Server& server = servers_[i];
      if (server.queue.empty() || server.done > now) continue;
      const auto [call, step] = server.queue.front();
      server.queue.pop_front();
      ++server.made;
      ++server.delivered;
      Begin(i);
      const FakeBatch batch = MakeBatch(sim_->plan_, {calls_.at(call), step});
      FrameView frame;
      frame.step = step;
      frame.has_header = true;
      frame.header = batch.header;
      frame.data_bytes = batch.payload.size();
      frame.data = {batch.payload};
      whole_.insert({calls_.at(call), step});
      events_->OnFrame(call, frame);
      if (calls_.count(call) > 0 && --left_[call] == 0) {
        calls_.erase(call);
        events_->OnCallDone(call, absl::OkStatus());
      }
    }
  }
  void Tick() {
    woken_ = false;
    events_->OnTick();
  }
  bool woken() const { return woken_; }
  bool whole(Position position) const {
    return whole_.count({position.epoch, position.step}) > 0;
  }
  uint64_t& delivered(ServerId id) { return servers_[id - 1].delivered; }
  size_t servers() const { return servers_.size(); }

  // --- BatchTransport -------------------------------------------------------
  void Start(TransportEvents* events) override {
    events_ = events;
    std::vector<ServerState> states;
    for (size_t i = 0; i < servers_.size(); ++i) {
      states.push_back({i + 1, absl::StrCat("server-", i + 1), true});
    }
    events_->OnServers(states);
  }
  void StartCall(CallId id, ServerId at, const AskedSteps& steps) override {
    Server& server = servers_[at - 1];
    const bool idle = server.queue.empty();
    calls_[id] = steps.epoch;
    left_[id] = steps.step_count;
    for (uint64_t i = 0; i < steps.step_count; ++i) {
      server.queue.emplace_back(id, steps.first_step + i);
    }
    if (idle) Begin(at - 1);
  }
  void CancelCall(CallId id) override {
    calls_.erase(id);
    for (size_t i = 0; i < servers_.size(); ++i) {
      auto& queue = servers_[i].queue;
      const bool first = !queue.empty() && queue.front().first == id;
      queue.erase(
          std::remove_if(queue.begin(), queue.end(),
                         [id](const auto& entry) { return entry.first == id; }),
          queue.end());
      if (first) Begin(i);
    }
  }
  void Wake() override { woken_ = true; }
  void Stop() override {}

 private:
  struct Server {
    std::deque<std::pair<CallId, uint64_t>> queue;  // the front is being made
    absl::Time done;                                // that it is
    uint64_t made = 0;
    uint64_t delivered = 0;
  };

  void Begin(size_t i) {
    Server& server = servers_[i];
    if (server.queue.empty()) return;
    server.done = sim_->now_ + service_(i + 1, server.made);
  }

  Simulation* const sim_;
  const ServiceTime service_;
  TransportEvents* events_ = nullptr;
  std::vector<Server> servers_;
  std::map<CallId, uint64_t> calls_;  // their epochs
  std::map<CallId, uint64_t> left_;
  std::set<std::pair<uint64_t, uint64_t>> whole_;
  bool woken_ = false;
};

Simulation::Simulation(HostLoaderOptions options, uint64_t steps, int servers,
                       ServiceTime service)
    : plan_(MakePlan(steps)) {
  options.endpoint = "simulated:1";
  auto transport =
      std::make_unique<Transport>(this, servers, std::move(service));
  transport_ = transport.get();
  auto loader = NewPrefetchLoader(options, plan_, std::move(transport), now_,
                                  [this] { return now_; });
  EXPECT_TRUE(loader.ok()) << loader.status();
  loader_ = *std::move(loader);
}

Simulation::~Simulation() = default;

void Simulation::Run(uint64_t batches, absl::Duration work) {
  absl::Time next_tick = now_ + kTick;
  for (uint64_t taken = 0; taken < batches;) {
    if (now_ >= consumer_free_ && transport_->whole(loader_->position())) {
      absl::StatusOr<HostBatch> batch = loader_->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      ASSERT_EQ(std::string(batch->payload.begin(), batch->payload.end()),
                MakeBatch(plan_, batch->position).payload);
      waits_.push_back(now_ - consumer_free_);
      consumer_free_ = now_ + work;
      ++taken;
    }
    if (transport_->woken()) {
      transport_->Tick();
      continue;
    }
    // A consumer that finds its batch there takes it now.
    if (now_ >= consumer_free_ && transport_->whole(loader_->position())) {
      continue;
    }
    absl::Time next = std::min(transport_->NextDone(), next_tick);
    if (consumer_free_ > now_) next = std::min(next, consumer_free_);
    now_ = std::max(now_, next);
    transport_->Deliver(now_);
    if (now_ >= next_tick) {
      transport_->Tick();
      next_tick = now_ + kTick;
    }
  }
}

absl::Duration Simulation::Wait(double quantile) const {
  std::vector<absl::Duration> sorted = waits_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(quantile * (sorted.size() - 1))];
}

uint64_t Simulation::delivered(ServerId server) const {
  return transport_->delivered(server);
}

uint64_t Simulation::delivered() const {
  uint64_t all = 0;
  for (size_t i = 0; i < transport_->servers(); ++i) all += delivered(i + 1);
  return all;
}

void Simulation::Clear() {
  for (size_t i = 0; i < transport_->servers(); ++i) {
    transport_->delivered(i + 1) = 0;
  }
  waits_.clear();
}

}  // namespace millrace::testing
