#include "tests/client/prefetch/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/prefetch/prefetch_loader.h"
#include "tests/client/prefetch/fake_transport.h"

namespace millrace::testing {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(5);

}  // namespace

class Simulation::Transport final : public prefetch::BatchTransport {
 public:
  Transport(Simulation* sim, int servers, ServiceTime service)
      : sim_(sim), service_(std::move(service)), servers_(servers) {}

  // --- the simulation -------------------------------------------------------
  absl::Time NextEvent() const {
    absl::Time next = absl::InfiniteFuture();
    for (const Server& server : servers_) {
      if (!server.asked.empty()) next = std::min(next, server.asked.front().at);
      if (!server.queue.empty()) next = std::min(next, server.done);
      if (!server.sent.empty()) next = std::min(next, server.sent.front().at);
    }
    return next;
  }

  // Lets happen what is due at `now`.
  void Advance(absl::Time now) {
    for (size_t i = 0; i < servers_.size(); ++i) {
      Server& server = servers_[i];
      while (!server.asked.empty() && server.asked.front().at <= now) {
        const Step step = server.asked.front();
        server.asked.pop_front();
        Enqueue(i, step);
      }
      if (!server.queue.empty() && server.done <= now) {
        Step step = server.queue.front();
        server.queue.pop_front();
        ++server.made;
        ++server.delivered;
        const absl::Duration make = server.making;
        Begin(i);
        // One batch after the other goes through the link.
        const absl::Time through =
            std::max(now, server.link_free) + sim_->link_.batch;
        server.link_free = through;
        step.at = through + sim_->link_.round_trip / 2;
        step.make = make;
        if (step.at <= now) {
          Arrive(step);
        } else {
          server.sent.push_back(step);
        }
      }
      while (!server.sent.empty() && server.sent.front().at <= now) {
        const Step step = server.sent.front();
        server.sent.pop_front();
        Arrive(step);
      }
    }
  }
  void Tick() {
    woken_ = false;
    events_->OnTick();
  }
  bool woken() const { return woken_; }
  uint64_t& delivered(prefetch::ServerId id) {
    return servers_[id - 1].delivered;
  }
  size_t servers() const { return servers_.size(); }

  void SetReady(prefetch::ServerId id, bool ready) {
    states_[id - 1].ready = ready;
    events_->OnServers(states_);
    if (ready) return;
    Server& server = servers_[id - 1];
    std::set<prefetch::CallId> lost;
    for (const auto* steps : {&server.asked, &server.queue, &server.sent}) {
      for (const Step& step : *steps) lost.insert(step.call);
    }
    server.asked.clear();
    server.queue.clear();
    server.sent.clear();
    for (const prefetch::CallId call : lost) {
      calls_.erase(call);
      events_->OnCallDone(call, absl::UnavailableError("gone"));
    }
  }

  // --- BatchTransport -------------------------------------------------------
  void Start(prefetch::TransportEvents* events) override {
    events_ = events;
    for (size_t i = 0; i < servers_.size(); ++i) {
      states_.push_back({i + 1, absl::StrCat("server-", i + 1), true});
    }
    events_->OnServers(states_);
  }
  void StartCall(prefetch::CallId id, prefetch::ServerId at,
                 const prefetch::AskedSteps& steps) override {
    calls_[id] = steps.epoch;
    left_[id] = steps.step_count;
    const absl::Duration way = sim_->link_.round_trip / 2;
    for (uint64_t i = 0; i < steps.step_count; ++i) {
      const Step step = {id, steps.first_step + i, sim_->now_ + way};
      if (way == absl::ZeroDuration()) {
        Enqueue(at - 1, step);
      } else {
        servers_[at - 1].asked.push_back(step);
      }
    }
  }
  void Reconnect(prefetch::ServerId) override {}
  void CancelCall(prefetch::CallId id) override {
    calls_.erase(id);
    for (size_t i = 0; i < servers_.size(); ++i) {
      Server& server = servers_[i];
      const bool first =
          !server.queue.empty() && server.queue.front().call == id;
      for (auto* steps : {&server.asked, &server.queue, &server.sent}) {
        steps->erase(
            std::remove_if(steps->begin(), steps->end(),
                           [id](const Step& step) { return step.call == id; }),
            steps->end());
      }
      if (first) Begin(i);
    }
  }
  void Wake() override { woken_ = true; }
  void Stop() override {}

 private:
  struct Step {
    prefetch::CallId call = 0;
    uint64_t step = 0;
    absl::Time at;  // when it reaches the server, or the client
    absl::Duration make;
  };
  struct Server {
    std::deque<Step> asked;  // on the way to it
    std::deque<Step> queue;  // the front is being made
    std::deque<Step> sent;   // on the way to the client
    absl::Time done;         // that the front is
    absl::Duration making;   // how long that takes
    absl::Time link_free = absl::InfinitePast();
    uint64_t made = 0;
    uint64_t delivered = 0;
  };

  void Enqueue(size_t i, const Step& step) {
    servers_[i].queue.push_back(step);
    if (servers_[i].queue.size() == 1) Begin(i);
  }

  void Begin(size_t i) {
    Server& server = servers_[i];
    if (server.queue.empty()) return;
    server.making = service_(i + 1, server.made);
    server.done = sim_->now_ + server.making;
  }

  void Arrive(const Step& step) {
    const prefetch::CallId call = step.call;
    FakeBatch batch = MakeBatch(sim_->plan_, {calls_.at(call), step.step});
    if (sim_->stage_times_) {
      StageMicros* times = batch.header.mutable_stage_micros();
      const auto micros = absl::ToInt64Microseconds(step.make);
      times->set_make(micros);
      times->set_decode(micros);
    }
    wire::FrameView frame;
    frame.step = step.step;
    frame.has_header = true;
    frame.header = batch.header;
    frame.data_bytes = batch.payload.size();
    frame.data = {batch.payload};
    events_->OnFrame(call, frame);
    if (calls_.count(call) > 0 && --left_[call] == 0) {
      calls_.erase(call);
      events_->OnCallDone(call, absl::OkStatus());
    }
  }

  Simulation* const sim_;
  const ServiceTime service_;
  prefetch::TransportEvents* events_ = nullptr;
  std::vector<Server> servers_;
  std::vector<prefetch::ServerState> states_;
  std::map<prefetch::CallId, uint64_t> calls_;  // their epochs
  std::map<prefetch::CallId, uint64_t> left_;
  bool woken_ = false;
};

Simulation::Simulation(HostLoaderOptions options, uint64_t steps, int servers,
                       ServiceTime service, uint64_t slot_bytes)
    : plan_(MakePlan(steps)) {
  plan_.set_max_payload_bytes(std::max(slot_bytes, plan_.max_payload_bytes()));
  options.endpoint = "simulated:1";
  auto transport =
      std::make_unique<Transport>(this, servers, std::move(service));
  transport_ = transport.get();
  auto loader = prefetch::NewPrefetchLoader(
      options, plan_, std::move(transport), now_, [this] { return now_; },
      [this](absl::Duration most) { Step(now_ + most); });
  EXPECT_TRUE(loader.ok()) << loader.status();
  loader_ = *std::move(loader);
}

Simulation::~Simulation() = default;

void Simulation::Run(uint64_t batches, absl::Duration work) {
  const uint64_t end = taken_ + batches;
  RunWhile([&] { return taken_ < end; }, [work](uint64_t) { return work; });
}

uint64_t Simulation::RunFor(absl::Duration duration, const Work& work) {
  const uint64_t before = taken_;
  const absl::Time end = now_ + duration;
  RunWhile([&] { return now_ < end; }, work);
  return taken_ - before;
}

void Simulation::RunWhile(const std::function<bool()>& more, const Work& work) {
  while (more()) {
    if (now_ < consumer_free_) {
      Step(consumer_free_);
      continue;
    }
    absl::StatusOr<HostBatch> batch = loader_->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    ASSERT_EQ(std::string(batch->payload.begin(), batch->payload.end()),
              MakeBatch(plan_, batch->position).payload);
    waits_.push_back(now_ - consumer_free_);
    waited_ += waits_.back();
    consumer_free_ = now_ + work(taken_);
    ++taken_;
  }
}

void Simulation::Step(absl::Time most) {
  if (transport_->woken()) return transport_->Tick();
  now_ = std::max(now_, std::min({transport_->NextEvent(), next_tick_, most}));
  transport_->Advance(now_);
  if (now_ < next_tick_) return;
  transport_->Tick();
  next_tick_ = now_ + kTick;
}

void Simulation::SetReady(prefetch::ServerId server, bool ready) {
  transport_->SetReady(server, ready);
}

absl::Duration Simulation::Wait(double quantile) const {
  std::vector<absl::Duration> sorted = waits_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(quantile * (sorted.size() - 1))];
}

uint64_t Simulation::delivered(prefetch::ServerId server) const {
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
