// How the window is spread over servers of different speeds, and what second
// requests do for a consumer that would wait for the slowest: in simulated
// time.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <numeric>

#include "common/logging.h"
#include "tests/client/prefetch/simulation.h"

namespace millrace::prefetch {
namespace {

using ::millrace::testing::Simulation;

HostLoaderOptions Options(uint32_t window, double hedge_share) {
  HostLoaderOptions options;
  options.window = window;
  options.epochs = 0;
  options.hedge_share = hedge_share;
  SetMinLogSeverity(LogSeverity::kERROR);
  return options;
}

absl::Duration Ms(double ms) { return absl::Milliseconds(ms); }

// Of what the fast one gets, to the slow one.
double SlowPart(Simulation& sim) {
  return static_cast<double>(sim.delivered(2)) /
         static_cast<double>(sim.delivered(1));
}

TEST(SpreadTest, AServerThatIsFourTimesSlowerGetsAQuarter) {
  for (const uint32_t window : {8u, 16u, 64u}) {
    for (const double work_ms : {0.0, 9.0}) {
      SCOPED_TRACE(::testing::Message() << window << " " << work_ms);
      Simulation sim(
          Options(window, 0), 1000, 2,
          [](ServerId server, uint64_t) { return Ms(server == 1 ? 10 : 40); });
      sim.Run(300, Ms(work_ms));
      sim.Clear();
      const absl::Duration start = sim.now();
      sim.Run(2000, Ms(work_ms));
      std::cerr << "window " << window << " work " << work_ms << ": slow gets "
                << SlowPart(sim) << ", "
                << 2000 / absl::ToDoubleSeconds(sim.now() - start)
                << " batches/s of 125\n";
      EXPECT_GT(SlowPart(sim), 0.15);
      EXPECT_LT(SlowPart(sim), 0.35);
    }
  }
}

TEST(SpreadTest, EqualServersGetEqualParts) {
  for (const double work_ms : {0.0, 8.0, 40.0}) {
    SCOPED_TRACE(work_ms);
    uint64_t noise = 1;
    Simulation sim(Options(16, 0), 1000, 2, [&noise](ServerId, uint64_t) {
      noise = noise * 6364136223846793005u + 1442695040888963407u;
      return Ms(5 + static_cast<double>(noise >> 33) / (1u << 31) * 10);
    });
    sim.Run(2000, Ms(work_ms));
    std::cerr << "equal, work " << work_ms << ": " << SlowPart(sim) << "\n";
    EXPECT_GT(SlowPart(sim), 0.8);
    EXPECT_LT(SlowPart(sim), 1.25);
  }
}

TEST(SpreadTest, TheSpreadFollowsWhenSpeedsChange) {
  double slow_ms = 10;
  Simulation sim(Options(16, 0), 1000, 2, [&](ServerId server, uint64_t) {
    return Ms(server == 1 ? 10 : slow_ms);
  });
  sim.Run(300, Ms(0));
  for (const double ms : {40.0, 10.0, 40.0}) {
    slow_ms = ms;
    sim.Run(300, Ms(0));
    sim.Clear();
    sim.Run(1000, Ms(0));
    std::cerr << "now " << ms << " ms: " << SlowPart(sim) << "\n";
    EXPECT_NEAR(SlowPart(sim), 10 / ms, ms == 10 ? 0.2 : 0.1);
  }
}

// Of every 1000 steps `tail` take 500 ms instead of about 10, at `servers`.
Simulation::ServiceTime HeavyTail(uint64_t tail, ServerId servers) {
  return [=, state = uint64_t{7}](ServerId server, uint64_t) mutable {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t draw = (state >> 33) % 1000;
    return draw < tail && server <= servers
               ? Ms(500)
               : Ms(8 + static_cast<double>(draw) / 250);
  };
}

TEST(HedgeSimulationTest, TheTailIsCutAtAFewPercent) {
  struct Case {
    uint64_t tail;
    ServerId servers;
  };
  constexpr uint64_t kBatches = 4000;
  for (const Case& test : {Case{50, 1}, Case{10, 4}, Case{30, 4}}) {
    SCOPED_TRACE(test.tail);
    absl::Duration without;
    for (const double share : {0.0, 0.05}) {
      Simulation sim(Options(16, share), 1000, 4,
                     HeavyTail(test.tail, test.servers));
      sim.Run(kBatches, Ms(8));
      const HostLoader::Stats stats = sim.loader().stats();
      const absl::Duration sum = std::accumulate(
          sim.waits().begin(), sim.waits().end(), absl::ZeroDuration());
      std::cerr << test.tail << " of 1000 at " << test.servers
                << " of 4 servers, share " << share << ": mean wait "
                << sum / kBatches << ", p98 " << sim.Wait(0.98) << ", p99 "
                << sim.Wait(0.99) << ", p999 " << sim.Wait(0.999) << ", total "
                << sim.now() << ", hedged " << stats.hedged_steps << ", won "
                << stats.hedge_wins << ", retried " << stats.retried_steps
                << ", made " << sim.delivered() << "\n";
      EXPECT_EQ(stats.retried_steps, 0);
      if (share == 0) {
        without = sum;
        EXPECT_EQ(stats.hedged_steps, 0);
      } else {
        EXPECT_LT(sum, without / 2);
        EXPECT_LT(sim.Wait(0.99), Ms(20));
        EXPECT_GT(stats.hedge_wins, 0);
        EXPECT_LE(stats.hedged_steps, share * kBatches + 16);
      }
    }
  }
}

TEST(HedgeSimulationTest, WithoutATailNothingIsAskedTwice) {
  uint64_t noise = 1;
  Simulation sim(Options(16, 0.05), 1000, 4, [&noise](ServerId, uint64_t) {
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    return Ms(8 + static_cast<double>(noise >> 33) / (1u << 31) * 4);
  });
  sim.Run(4000, Ms(5));
  std::cerr << "no tail: hedged " << sim.loader().stats().hedged_steps << "\n";
  EXPECT_LE(sim.loader().stats().hedged_steps, 20);
}

TEST(HedgeSimulationTest, WhenAllServersBecomeSlowTheCostStaysBounded) {
  double factor = 1;
  Simulation sim(Options(16, 0.05), 1000, 2,
                 [&factor](ServerId, uint64_t) { return factor * Ms(10); });
  sim.Run(200, Ms(0));
  factor = 20;
  sim.Run(1000, Ms(0));
  const HostLoader::Stats stats = sim.loader().stats();
  std::cerr << "all slow: hedged " << stats.hedged_steps << " retried "
            << stats.retried_steps << "\n";
  EXPECT_LE(stats.hedged_steps, 0.05 * 1200 + 8);
  EXPECT_EQ(stats.retried_steps, 0);
}

TEST(HedgeSimulationTest, AServerThatStopsHoldsUpForTheHedgeDelayOnly) {
  bool stopped = false;
  Simulation sim(Options(16, 0.05), 1000, 2, [&](ServerId server, uint64_t) {
    return stopped && server == 1 ? absl::Hours(1) : Ms(10);
  });
  sim.Run(300, Ms(6));
  sim.Clear();
  stopped = true;
  sim.Run(300, Ms(6));
  std::cerr << "stopped: longest wait " << sim.Wait(1) << "\n";
  EXPECT_LT(sim.Wait(1), absl::Milliseconds(500));
  EXPECT_LE(sim.loader().stats().hedged_steps, 16);
}

}  // namespace
}  // namespace millrace::prefetch
