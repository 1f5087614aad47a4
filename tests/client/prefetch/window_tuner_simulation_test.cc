// A window that follows what is measured, beside every fixed one, in simulated
// time: servers with given costs, links with a delay and a rate, consumers with
// a pace. The whole loader runs, only time, servers and links are made up.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "client/prefetch/prefetch_loader.h"
#include "common/logging.h"
#include "tests/client/prefetch/simulation.h"

namespace millrace::prefetch {
namespace {

using ::millrace::testing::Simulation;

constexpr uint32_t kMax = 64;
constexpr absl::Duration kMinute = absl::Minutes(1);

absl::Duration Ms(double ms) { return absl::Milliseconds(ms); }

// What the load is; may be changed while it runs.
struct Load {
  std::string name;
  int servers = 1;
  double make_ms = 10;      // a batch, at a server
  double jitter_share = 0;  // of it, evenly to either side
  double link_ms = 0;       // a batch, on the link of a server
  double round_trip_ms = 0;
  double step_ms = 0;        // the consumer's own time for a batch
  bool second = true;        // the second server is there
  uint64_t burst = 1;        // so many at once, then the time of all of them
  bool stage_times = false;  // servers say what a batch took
  // Where a window of batches takes half a minute, so does every look.
  absl::Duration settle = kMinute;
};

class Trial {
 public:
  Trial(const Load& load, uint32_t window, uint32_t initial) : load_(load) {
    SetMinLogSeverity(LogSeverity::kERROR);
    HostLoaderOptions options;
    options.window = window;
    options.initial_window = initial;
    options.epochs = 0;
    options.hedge_share = 0;
    sim_ = std::make_unique<Simulation>(
        options, 1'000'000, load.servers,
        [this](ServerId, uint64_t) {
          noise_ = noise_ * 6364136223846793005u + 1442695040888963407u;
          const double draw =
              static_cast<double>(noise_ >> 33) / (1u << 30) - 1;
          return Ms(load_.make_ms * (1 + load_.jitter_share * draw));
        },
        options.window_bytes / kMax);
    if (load.stage_times) sim_->SendStageTimes();
  }

  // Batches a second.
  double For(absl::Duration duration) {
    sim_->SetLink({Ms(load_.round_trip_ms), Ms(load_.link_ms)});
    const absl::Duration before = sim_->now();
    const uint64_t batches = sim_->RunFor(duration, [this](uint64_t number) {
      return number % load_.burst == load_.burst - 1
                 ? Ms(load_.step_ms * static_cast<double>(load_.burst))
                 : absl::ZeroDuration();
    });
    return static_cast<double>(batches) /
           absl::ToDoubleSeconds(sim_->now() - before);
  }

  Load& load() { return load_; }
  Simulation& sim() { return *sim_; }
  HostLoader& loader() { return sim_->loader(); }

 private:
  Load load_;
  uint64_t noise_ = 1;
  std::unique_ptr<Simulation> sim_;
};

struct Best {
  double rate = 0;
  uint32_t smallest = 0;  // fixed window that is within 5 %
};

Best BestFixed(const Load& load) {
  std::vector<std::pair<uint32_t, double>> rates;
  Best best;
  for (const uint32_t window :
       {2u, 3u, 4u, 6u, 8u, 12u, 16u, 24u, 32u, 48u, 64u}) {
    Trial run(load, window, 0);
    if (!load.second) run.sim().SetReady(2, false);
    run.For(absl::Seconds(5));
    rates.emplace_back(window, run.For(absl::Seconds(15)));
    best.rate = std::max(best.rate, rates.back().second);
  }
  for (const auto& [window, rate] : rates) {
    if (rate < 0.95 * best.rate) continue;
    best.smallest = window;
    break;
  }
  return best;
}

// After a minute the window has found its place: batches come as fast as with
// the best fixed one, less 20 %, and few more are asked for than that takes.
void ExpectSettled(Trial& run, const Best& best, const std::string& what) {
  uint32_t largest = 0;
  uint64_t sum = 0;
  double rate = 0;
  constexpr int kLooks = 10;
  for (int i = 0; i < kLooks; ++i) {
    rate += run.For(absl::Seconds(3)) / kLooks;
    largest = std::max(largest, run.loader().window());
    sum += run.loader().window();
  }
  const double mean = static_cast<double>(sum) / kLooks;
  const HostLoader::Stats stats = run.loader().stats();
  std::cerr << what << ": " << rate << " batches/s of " << best.rate
            << ", window " << mean << " (most " << largest << ", smallest good "
            << best.smallest << "), changes " << stats.window_changes << ": "
            << stats.window_reason << "\n";
  EXPECT_GE(rate, 0.8 * best.rate) << what;
  EXPECT_LE(mean, 2.5 * std::max(best.smallest, 2u * run.load().servers) + 2)
      << what;
}

std::vector<Load> Loads() {
  return {
      {.name = "server", .make_ms = 10},
      {.name = "server that says so", .make_ms = 10, .stage_times = true},
      {.name = "jittery server", .make_ms = 10, .jitter_share = 0.8},
      {.name = "four servers", .servers = 4, .make_ms = 20},
      {.name = "link", .make_ms = 2, .link_ms = 10},
      {.name = "far link", .make_ms = 2, .link_ms = 5, .round_trip_ms = 50},
      {.name = "two far servers",
       .servers = 2,
       .make_ms = 5,
       .link_ms = 2,
       .round_trip_ms = 30},
      {.name = "slow consumer",
       .make_ms = 5,
       .round_trip_ms = 1,
       .step_ms = 40},
      {.name = "consumer as fast as a far server",
       .make_ms = 10,
       .round_trip_ms = 50,
       .step_ms = 10,
       .stage_times = true},
      {.name = "consumer in bursts",
       .make_ms = 10,
       .round_trip_ms = 5,
       .step_ms = 12,
       .burst = 8},
      {.name = "rare batches",
       .make_ms = 400,
       .round_trip_ms = 10,
       .settle = absl::Minutes(4)},
  };
}

TEST(WindowTunerSimulationTest, FindsItsPlaceInsideAMinute) {
  for (const Load& load : Loads()) {
    const Best best = BestFixed(load);
    for (const uint32_t initial : {2u, 0u, kMax}) {
      Trial run(load, 0, initial);
      run.For(load.settle);
      EXPECT_LE(run.loader().stats().window_changes, 20) << load.name;
      ExpectSettled(run, best, load.name + " from " + std::to_string(initial));
    }
  }
}

// Changes of load in the middle of a run, each followed inside a minute.
TEST(WindowTunerSimulationTest, FollowsChangesOfTheLoad) {
  struct Change {
    std::string name;
    std::function<void(Trial&)> make;
  };
  const Load begin = {.name = "begin",
                      .servers = 2,
                      .make_ms = 10,
                      .link_ms = 2,
                      .round_trip_ms = 1,
                      .step_ms = 8};
  const std::vector<Change> changes = {
      {"links of 50 ms", [](Trial& run) { run.load().round_trip_ms = 50; }},
      {"a consumer twice as fast", [](Trial& run) { run.load().step_ms = 4; }},
      {"servers half as fast", [](Trial& run) { run.load().make_ms = 20; }},
      {"one server less",
       [](Trial& run) { run.sim().SetReady(2, run.load().second = false); }},
      {"links of 1 ms", [](Trial& run) { run.load().round_trip_ms = 1; }},
      {"the server again",
       [](Trial& run) { run.sim().SetReady(2, run.load().second = true); }},
      {"a slow consumer", [](Trial& run) { run.load().step_ms = 30; }},
  };
  Trial run(begin, 0, 0);
  run.For(kMinute);
  for (const Change& change : changes) {
    change.make(run);
    const uint64_t before = run.loader().stats().window_changes;
    run.For(kMinute);
    EXPECT_LE(run.loader().stats().window_changes - before, 20) << change.name;
    ExpectSettled(run, BestFixed(run.load()), change.name);
  }
}

}  // namespace
}  // namespace millrace::prefetch
