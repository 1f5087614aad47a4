// The tuner in a loop with a server that is nothing but arithmetic: given stage
// costs, given CPUs, given storage. From bad beginnings and after a change in
// load it must come within 20 % of the best fixed numbers, which are found by
// trying all of them, inside a minute of virtual time, and then stay calm.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "server/pipeline/threads/thread_tuner.h"

namespace millrace::pipeline {
namespace {

constexpr double kInterval = 2;
constexpr uint32_t kMaxWorkers = 64;
constexpr uint32_t kMaxReaders = 512;

struct Load {
  double cpus = 2;
  double others = 0;            // CPUs that other processes take
  double cpu = 0.001;           // a sample's, to decode, in seconds
  double wait = 0;              // of the thread that decodes it
  bool waits_for_lock = false;  // one at a time waits, whatever their number
  double crowd = 0;  // that each thread which reads adds to `cpu`, as a part
  double read = 0;   // 0: storage makes nobody wait
  double hand_over = 0;  // CPU time of a sample on its way between threads
  uint32_t herd = 512;  // more readers than that make it dearer: so many, twice
  double storage = 1e9;  // samples/s that it gives at most
  double demand = 1e9;   // samples/s that clients take
};

struct Numbers {
  uint32_t workers = 1;
  uint32_t readers = 32;
};

class Server {
 public:
  explicit Server(Load load) : load_(load) {}

  // Samples/s.
  double Rate(Numbers n) const {
    return std::min({Workers(n), Readers(n.readers), load_.demand});
  }

  // The best that fixed numbers reach.
  double Best() const {
    double best = 0;
    for (uint32_t workers = 1; workers <= kMaxWorkers; ++workers) {
      for (uint32_t readers = 1; readers <= kMaxReaders; ++readers) {
        best = std::max(best, Rate({workers, readers}));
      }
    }
    return best;
  }

  ThreadMeasurement Measure(Numbers n) {
    const double rate = Rate(n);
    ThreadMeasurement m;
    m.seconds = kInterval;
    m.cpus = load_.cpus;
    const double samples = rate * kInterval;
    ThreadMeasurement::Workers& w = m.workers;
    w.threads = n.workers;
    w.max_threads = kMaxWorkers;
    w.thread_seconds = n.workers * kInterval;
    w.knows_cpu = true;
    w.samples = static_cast<uint64_t>(samples);
    w.cpu_seconds = Noisy(samples * Cpu(n));
    m.process_cpu_seconds = w.cpu_seconds + Noisy(samples * HandOver(n));
    const bool all_busy = load_.hand_over == 0 && rate >= 0.999 * Workers(n);
    double waited = samples * load_.wait;
    if (load_.waits_for_lock && all_busy) {
      waited = w.thread_seconds - w.cpu_seconds;
    } else if (all_busy && n.workers > Wanted()) {
      w.delayed_seconds = w.thread_seconds - w.cpu_seconds - waited;
    }
    // Readers that run stand in line with those that decode.
    if (load_.hand_over > 0 && rate >= 0.999 * Workers(n)) {
      w.delayed_seconds += 0.3 * w.thread_seconds;
    }
    w.delayed_seconds = std::max(0.0, Noisy(w.delayed_seconds));
    const double busy = w.cpu_seconds + w.delayed_seconds + Noisy(waited);
    w.idle_seconds = std::max(0.0, w.thread_seconds - busy);
    if (all_busy) w.idle_seconds = std::min(w.idle_seconds, 0.03 * busy);
    if (load_.read == 0) return m;
    ThreadMeasurement::Readers& r = m.readers;
    r.threads = n.readers;
    r.max_threads = kMaxReaders;
    r.thread_seconds = n.readers * kInterval;
    r.samples = w.samples;
    const double under_way =
        rate >= 0.999 * Readers(n.readers) ? n.readers : rate * load_.read;
    r.read_seconds = Noisy(under_way * kInterval);
    const double rest = std::max(0.0, r.thread_seconds - r.read_seconds);
    (all_busy ? r.blocked_seconds : r.idle_seconds) = rest;
    return m;
  }

 private:
  // CPUs that are left for it.
  double Cpus() const { return load_.cpus - load_.others; }
  // Too many threads cost something: 0.2 % each.
  double Cpu(Numbers n) const {
    return load_.cpu * (1 + load_.crowd * n.readers) *
           (1 + 0.002 * std::max(0.0, n.workers - std::max(Wanted(), 1.0)));
  }
  double HandOver(Numbers n) const {
    const double more = n.readers > load_.herd
                            ? 1.0 * (n.readers - load_.herd) / load_.herd
                            : 0;
    return load_.hand_over * (1 + more);
  }
  double Wanted() const {
    return Cpus() * (load_.cpu + load_.wait) / load_.cpu;
  }
  double Workers(Numbers n) const {
    const double by_cpu = Cpus() / (Cpu(n) + HandOver(n));
    if (load_.waits_for_lock && n.workers > 1) return 1 / load_.wait;
    return std::min(n.workers / (Cpu(n) + load_.wait), by_cpu);
  }
  double Readers(uint32_t n) const {
    return load_.read == 0 ? 1e12 : std::min(n / load_.read, load_.storage);
  }
  // Within 5 % of the truth, the same in every run.
  double Noisy(double value) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    const double unit = static_cast<double>(random_ >> 11) * 0x1p-53;
    return value * (0.95 + 0.1 * unit);
  }

  const Load load_;
  uint64_t random_ = 1;
};

// One server's life: loads that follow each other, a minute and more each.
class Life {
 public:
  explicit Life(Numbers first) : now_(first) {}

  // Checks that after a minute it is where it should be, and stays there.
  void Under(const std::string& name, const Load& load) {
    SCOPED_TRACE(name);
    Server server(load);
    const double best = server.Best();
    int late_changes = 0;
    double reached = -1;
    for (double time = 0; time < 300; time += kInterval) {
      const double share = server.Rate(now_) / best;
      if (share >= 0.8) {
        if (reached < 0) reached = time;
      } else {
        EXPECT_LT(time, 60) << now_.workers << " workers and " << now_.readers
                            << " readers reach " << share << " of the best "
                            << best << " samples/s";
        reached = -1;
      }
      const ThreadMeasurement m = server.Measure(now_);
      const ThreadDecision decision = tuner_.Decide(m);
      const bool changed =
          decision.workers != now_.workers ||
          (m.readers.max_threads > 0 && decision.readers != now_.readers);
      if (changed) {
        EXPECT_LE(decision.workers, kMaxWorkers);
        EXPECT_GE(decision.workers, 1u);
        EXPECT_LE(decision.readers, kMaxReaders);
        late_changes += time >= 60 &&
                        decision.workers_reason + decision.readers_reason != "";
        log_ += name + " " + std::to_string(static_cast<int>(time)) +
                " s: " + std::to_string(decision.workers) + " workers, " +
                std::to_string(decision.readers) +
                " readers: " + decision.workers_reason + "; " +
                decision.readers_reason + "\n";
      }
      now_.workers = decision.workers;
      if (m.readers.max_threads > 0) now_.readers = decision.readers;
    }
    // In four minutes.
    EXPECT_LE(late_changes, 1);
    EXPECT_GE(reached, 0);
    if (testing::Test::HasFailure()) std::cout << log_;
    slowest_ = std::max(slowest_, reached);
  }

  Numbers now() const { return now_; }
  double slowest() const { return slowest_; }

 private:
  ThreadTuner tuner_;
  Numbers now_;
  std::string log_;
  double slowest_ = 0;
};

std::vector<Numbers> BadBeginnings() {
  return {{1, 1}, {1, 512}, {64, 1}, {64, 512}, {2, 32}, {2, 256}};
}

std::vector<std::pair<std::string, Load>> Loads() {
  return {
      {"decoding alone", {}},
      {"many CPUs", {.cpus = 32, .cpu = 0.004}},
      {"operators that wait", {.cpu = 0.001, .wait = 0.009}},
      {"operators that wait nearly always", {.cpu = 0.0002, .wait = 0.02}},
      {"storage in the same building", {.cpu = 0.001, .read = 0.001}},
      {"far storage", {.cpu = 0.0004, .read = 0.05}},
      {"far storage and little work", {.cpu = 0.00001, .read = 0.02}},
      {"tiny samples, where handing over costs most",
       {.cpu = 0.00002, .crowd = 0.005, .read = 0.002}},
      {"tiny samples, a herd of threads that read",
       {.cpu = 0.000002, .read = 0.0021, .hand_over = 0.00001, .herd = 256}},
      {"storage that is busy", {.cpu = 0.0004, .read = 0.02, .storage = 600}},
      {"far storage, operators that wait",
       {.cpu = 0.001, .wait = 0.004, .read = 0.03}},
      {"others take half of the CPUs", {.others = 1}},
      {"others take CPUs while operators wait", {.others = 1, .wait = 0.005}},
      {"clients that take little",
       {.cpu = 0.0005, .read = 0.02, .demand = 300}},
      {"a lock", {.cpu = 0.0001, .wait = 0.001, .waits_for_lock = true}},
      {"a fraction of a CPU", {.cpus = 0.5}},
  };
}

TEST(ThreadTunerSimulation, BadBeginningsAreLeftWithinAMinute) {
  for (const Numbers& first : BadBeginnings()) {
    SCOPED_TRACE(std::to_string(first.workers) + " workers, " +
                 std::to_string(first.readers) + " readers");
    for (const auto& [name, load] : Loads()) Life(first).Under(name, load);
  }
}

TEST(ThreadTunerSimulation, ChangesInLoadAreFollowedWithinAMinute) {
  // Every load after every other one.
  const auto loads = Loads();
  for (const auto& [before, one] : loads) {
    for (const auto& [after, other] : loads) {
      if (one.cpus != other.cpus) continue;  // another machine
      SCOPED_TRACE("after " + before);
      Life life({2, 32});
      life.Under(before, one);
      life.Under(after, other);
      life.Under(before, one);
    }
  }
}

TEST(ThreadTunerSimulation, StorageThatSlowsDownAndComesBack) {
  Life life({2, 32});
  life.Under("near", {.cpu = 0.0005, .read = 0.005});
  life.Under("20 times as far", {.cpu = 0.0005, .read = 0.1});
  EXPECT_GE(life.now().readers, 400u);
  life.Under("near again", {.cpu = 0.0005, .read = 0.005});
  EXPECT_LE(life.now().readers, 60u) << "they are given back";
}

TEST(ThreadTunerSimulation, PureComputingTakesAsManyThreadsAsCpus) {
  for (const Numbers& first : BadBeginnings()) {
    Life life(first);
    life.Under("decoding alone", {});
    EXPECT_EQ(life.now().workers, 2u);
  }
}

TEST(ThreadTunerSimulation, WhereOthersTakeTheCpusNoneIsTakenFromThem) {
  Life life({2, 32});
  life.Under("alone", {.wait = 0.001});
  const uint32_t alone = life.now().workers;
  EXPECT_GE(alone, 3u);
  life.Under("with others", {.others = 1.5, .wait = 0.001});
  EXPECT_LE(life.now().workers, alone);
}

// Samples that are read by whole row groups (Parquet, 3 shards of 12,000 rows
// in groups of 300, on a local disk): reads compute, so that more threads which
// read give no more, and samples come in bunches. The number went up and down
// between 128 and 512 for as long as the job ran.
void SamplesInBunches(double process_cpu_share, int max_late_changes,
                      uint32_t max_readers) {
  ThreadTuner tuner;
  uint32_t readers = 32;
  uint64_t random = 1;
  int late_changes = 0;
  std::string log;
  for (int i = 0; i < 300; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const double unit = static_cast<double>(random >> 11) * 0x1p-53;
    ThreadMeasurement m;
    m.seconds = kInterval;
    m.cpus = 2;
    // Rows reach a batch in one interval of three only.
    m.workers = {.threads = 2,
                 .max_threads = 6,
                 .thread_seconds = 4,
                 .idle_seconds = 3.9,
                 .knows_cpu = true,
                 .cpu_seconds = 0.02,
                 .delayed_seconds = 0.01,
                 .samples = i % 3 != 1 ? 0u : 1024u};
    const double herd = readers > 150 ? 0.4 : 1;  // they hold each other up
    const double samples = i % 7 == 6 ? 0 : herd * (300 + 600 * unit);
    m.process_cpu_seconds = process_cpu_share * m.cpus * m.seconds;
    m.readers = {.threads = readers,
                 .max_threads = kMaxReaders,
                 .thread_seconds = readers * kInterval,
                 .read_seconds = samples * readers / 300 * (0.2 + 2 * unit),
                 .samples = static_cast<uint64_t>(samples)};
    const ThreadDecision decision = tuner.Decide(m);
    if (decision.readers != readers) {
      log += std::to_string(2 * i) + " s: " + std::to_string(readers) + " -> " +
             std::to_string(decision.readers) + " " + decision.readers_reason +
             "\n";
    }
    readers = decision.readers;
    if (i < 120) continue;
    late_changes += decision.readers_reason != "";
    EXPECT_LE(readers, max_readers) << log;
  }
  // In six minutes.
  EXPECT_LE(late_changes, max_late_changes) << log;
}

TEST(ThreadTunerSimulation, ReadsThatComputeHaveNoMoreThreads) {
  SamplesInBunches(/*process_cpu_share=*/0.95, 0, 32);
}

// Other processes take the CPUs, so that it cannot be seen that reads compute.
TEST(ThreadTunerSimulation, SamplesInBunchesLeaveTheNumberCalm) {
  SamplesInBunches(/*process_cpu_share=*/0.4, 2, kMaxReaders);
}

// Half an hour in which nothing is asked for.
TEST(ThreadTunerSimulation, WithoutWorkNothingChanges) {
  ThreadTuner tuner;
  ThreadMeasurement m;
  m.seconds = kInterval;
  m.cpus = 2;
  m.workers = {.threads = 7,
               .max_threads = 64,
               .thread_seconds = 14,
               .idle_seconds = 14,
               .knows_cpu = true};
  m.readers = {.threads = 90,
               .max_threads = 512,
               .thread_seconds = 180,
               .idle_seconds = 180};
  for (int i = 0; i < 900; ++i) {
    const ThreadDecision decision = tuner.Decide(m);
    EXPECT_EQ(decision.workers, 7u);
    EXPECT_EQ(decision.readers, 90u);
  }
}

// A lock lets more threads wait and nothing else: it is said once, and then
// tried again with small steps.
TEST(ThreadTunerSimulation, WhatDoesNotPayIsTakenBack) {
  ThreadTuner tuner;
  Server server({.cpu = 0.0001, .wait = 0.001, .waits_for_lock = true});
  Numbers now{2, 32};
  int said = 0, tries = 0;
  double above = 0;
  for (double time = 0; time < 1800; time += kInterval) {
    const ThreadDecision decision = tuner.Decide(server.Measure(now));
    said += decision.workers_reason != "";
    if (time > 60) {
      EXPECT_LE(decision.workers, 3u);
    }
    tries += decision.workers > now.workers;
    now.workers = decision.workers;
    above += now.workers > 2 ? kInterval : 0;
  }
  EXPECT_EQ(said, 2);
  EXPECT_GE(tries, 10) << "in half an hour";
  EXPECT_LE(above, 200);
}

TEST(ThreadTunerSimulation, NeverMoreThanMayBe) {
  ThreadTuner tuner;
  Server server({.cpu = 0.0002, .wait = 0.02});
  Numbers now{2, 32};
  std::string said;
  for (int i = 0; i < 60; ++i) {
    ThreadMeasurement m = server.Measure(now);
    m.workers.max_threads = 5;
    const ThreadDecision decision = tuner.Decide(m);
    EXPECT_LE(decision.workers, 5u);
    said += decision.workers_reason;
    now.workers = decision.workers;
  }
  EXPECT_EQ(now.workers, 5u);
  EXPECT_NE(said.find("memory budget"), std::string::npos) << said;
}

// A system that does not say what threads do: they are left at the CPUs.
TEST(ThreadTunerSimulation, WithoutTheSystemsNumbersAsManyAsCpus) {
  for (const uint32_t first : {1u, 2u}) {
    ThreadTuner tuner;
    Server server({.cpu = 0.001, .wait = 0.009});
    Numbers now{first, 32};
    for (int i = 0; i < 60; ++i) {
      ThreadMeasurement m = server.Measure(now);
      m.workers.knows_cpu = false;
      now.workers = tuner.Decide(m).workers;
    }
    EXPECT_EQ(now.workers, 2u);
  }
}

}  // namespace
}  // namespace millrace::pipeline
