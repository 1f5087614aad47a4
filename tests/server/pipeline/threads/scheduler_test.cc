#include "server/pipeline/threads/scheduler.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "server/pipeline/threads/thread_times.h"

namespace millrace::pipeline {
namespace {

struct CountingJob : Scheduler::Job {
  explicit CountingJob(uint64_t rows) : visits(rows) {}
  std::vector<std::atomic<int>> visits;
};

TEST(Scheduler, HandsEveryRowOutOnce) {
  std::vector<std::shared_ptr<CountingJob>> jobs;
  {
    Scheduler scheduler(4, [](uint32_t worker, const Scheduler::Task& task) {
      EXPECT_LT(worker, 4u);
      for (uint64_t row = task.begin; row < task.end; ++row) {
        static_cast<CountingJob&>(*task.job).visits[row].fetch_add(1);
      }
    });
    for (int lane_number = 0; lane_number < 3; ++lane_number) {
      auto lane = std::make_shared<Scheduler::Lane>();
      for (uint64_t rows : {1, 7, 64, 100}) {
        for (uint64_t rows_per_task : {1, 3, 64, 1000}) {
          jobs.push_back(std::make_shared<CountingJob>(rows));
          scheduler.Add(lane, jobs.back(), 0, rows, rows_per_task, 0);
        }
      }
    }
  }  // finishes all that was added
  for (const auto& job : jobs) {
    for (const auto& count : job->visits) EXPECT_EQ(count.load(), 1);
  }
}

// Tasks that are fewer than the threads without work still run side by side:
// each waits for all of them.
TEST(Scheduler, WakesAThreadForEachTask) {
  constexpr int kTasks = 3;
  Mutex mu;
  CondVar changed;
  int begun = 0, ended = 0;
  Scheduler scheduler(32, [&](uint32_t, const Scheduler::Task& task) {
    EXPECT_EQ(task.end, task.begin + 1);
    MutexLock lock(mu);
    const int round = begun++ / kTasks;
    changed.NotifyAll();
    while (begun < (round + 1) * kTasks) changed.Wait(lock);
    ++ended;
    changed.NotifyAll();
  });
  auto lane = std::make_shared<Scheduler::Lane>();
  for (int round = 1; round <= 200; ++round) {
    scheduler.Add(lane, std::make_shared<CountingJob>(kTasks), 0, kTasks, 1, 0);
    MutexLock lock(mu);
    while (ended < round * kTasks) changed.Wait(lock);
  }
}

TEST(Scheduler, RemovedRowsAreNotHandedOut) {
  std::atomic<bool> go{false}, started{false};
  auto job = std::make_shared<CountingJob>(100);
  auto lane = std::make_shared<Scheduler::Lane>();
  std::vector<Scheduler::Task> removed;
  {
    Scheduler scheduler(1, [&](uint32_t, const Scheduler::Task& task) {
      started = true;
      started.notify_all();
      go.wait(false);
      for (uint64_t row = task.begin; row < task.end; ++row) {
        static_cast<CountingJob&>(*task.job).visits[row].fetch_add(1);
      }
    });
    scheduler.Add(lane, job, 0, 100, 10, 0);
    started.wait(false);
    removed = scheduler.Remove(lane);
    EXPECT_TRUE(scheduler.Remove(lane).empty());
    go = true;
    go.notify_all();
  }
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].begin, 10u);
  EXPECT_EQ(removed[0].end, 100u);
  for (int row = 0; row < 100; ++row) {
    EXPECT_EQ(job->visits[row].load(), row < 10 ? 1 : 0);
  }
}

// Rows become ready in any order; the earliest batch's come first all the same.
TEST(Scheduler, LowerOrdersComeFirst) {
  std::atomic<bool> go{false}, started{false};
  auto job = std::make_shared<CountingJob>(100);
  auto lane = std::make_shared<Scheduler::Lane>();
  std::vector<uint64_t> begins;
  {
    Scheduler scheduler(1, [&](uint32_t, const Scheduler::Task& task) {
      started = true;
      started.notify_all();
      go.wait(false);
      begins.push_back(task.begin);
    });
    scheduler.Add(lane, job, 90, 91, 1, /*order=*/9);
    started.wait(false);
    scheduler.Add(lane, job, 50, 52, 1, /*order=*/5);
    scheduler.Add(lane, job, 20, 22, 2, /*order=*/2);
    scheduler.Add(lane, job, 53, 54, 1, /*order=*/5);
    scheduler.Add(lane, job, 10, 11, 1, /*order=*/1);
    go = true;
    go.notify_all();
  }
  EXPECT_EQ(begins, (std::vector<uint64_t>{90, 10, 20, 50, 51, 53}));
}

TEST(Scheduler, ClosuresRunOnAWorker) {
  std::atomic<int> ran{0};
  const auto self = std::this_thread::get_id();
  {
    Scheduler scheduler(2, [](uint32_t, const Scheduler::Task&) {});
    for (int i = 0; i < 100; ++i) {
      scheduler.Post([&] {
        EXPECT_NE(std::this_thread::get_id(), self);
        ran.fetch_add(1);
      });
    }
  }
  EXPECT_EQ(ran.load(), 100);
}

// Returns when the clock has moved on by 20 ms.
void PassTime() {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(Scheduler, CountsTheTimeThatWorkersAreIdle) {
  std::atomic<bool> go{false}, started{false};
  Scheduler scheduler(1, [&](uint32_t, const Scheduler::Task&) {
    started = true;
    started.notify_all();
    go.wait(false);
  });
  // It falls asleep sooner or later.
  const double at_first = scheduler.IdleThreadSeconds();
  while (scheduler.IdleThreadSeconds() < at_first + 0.02) {
  }
  scheduler.Add(std::make_shared<Scheduler::Lane>(),
                std::make_shared<CountingJob>(1), 0, 1, 1, 0);
  started.wait(false);
  const double before = scheduler.IdleThreadSeconds();
  PassTime();
  EXPECT_EQ(scheduler.IdleThreadSeconds(), before) << "its only worker works";
  go = true;
  go.notify_all();
}

// Whatever the number of threads is meanwhile.
TEST(Scheduler, NothingIsLostWhileTheNumberOfThreadsChanges) {
  std::vector<std::shared_ptr<CountingJob>> jobs;
  std::atomic<uint64_t> rests{0};
  std::atomic<int> closures{0};
  {
    Scheduler scheduler(
        {.threads = 2,
         .max_threads = 8,
         .run =
             [](uint32_t worker, const Scheduler::Task& task) {
               EXPECT_LT(worker, 8u);
               for (uint64_t row = task.begin; row < task.end; ++row) {
                 static_cast<CountingJob&>(*task.job).visits[row].fetch_add(1);
               }
             },
         .rest = [&](uint32_t) { rests.fetch_add(1); }});
    auto lane = std::make_shared<Scheduler::Lane>();
    uint64_t random = 1;
    for (int i = 0; i < 3000; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const uint32_t threads = 1 + (random >> 33) % 8;
      EXPECT_EQ(scheduler.SetThreads(threads), threads);
      EXPECT_EQ(scheduler.threads(), threads);
      jobs.push_back(std::make_shared<CountingJob>(1 + i % 7));
      scheduler.Add(lane, jobs.back(), 0, 1 + i % 7, 1 + i % 3, 0);
      scheduler.Post([&] { closures.fetch_add(1); });
    }
    // One after the other: a wake-up that is lost would let it wait for ever.
    for (int i = 0; i < 200; ++i) {
      scheduler.SetThreads(1 + i % 2 * 7);
      std::atomic<bool> ran{false};
      scheduler.Post([&] {
        ran = true;
        ran.notify_all();
      });
      ran.wait(false);
    }
  }
  for (const auto& job : jobs) {
    for (const auto& count : job->visits) EXPECT_EQ(count.load(), 1);
  }
  EXPECT_EQ(closures.load(), 3000);
  EXPECT_GT(rests.load(), 0u);
}

TEST(Scheduler, AsManyThreadsWorkAsWereAskedFor) {
  std::atomic<int> inside{0};
  std::atomic<bool> go{false};
  Scheduler scheduler({.threads = 1,
                       .max_threads = 6,
                       .run = [&](uint32_t, const Scheduler::Task&) {
                         inside.fetch_add(1);
                         inside.notify_all();
                         go.wait(false);
                         inside.fetch_sub(1);
                       }});
  EXPECT_EQ(scheduler.SetThreads(100), 6u) << "no more than may be";
  EXPECT_EQ(scheduler.SetThreads(0), 1u) << "and no fewer than one";
  EXPECT_EQ(scheduler.SetThreads(6), 6u);
  auto lane = std::make_shared<Scheduler::Lane>();
  scheduler.Add(lane, std::make_shared<CountingJob>(20), 0, 20, 1, 0);
  for (int now = inside; now < 6; now = inside) inside.wait(now);
  // They are in the middle of their tasks, and finish them.
  EXPECT_EQ(scheduler.SetThreads(1), 1u);
  go = true;
  go.notify_all();
}

// Threads that are too many are neither idle nor there.
TEST(Scheduler, WhoRestsIsNotIdle) {
  Mutex mu;
  CondVar changed;
  int resting = 0;
  Scheduler scheduler({.threads = 4,
                       .run = [](uint32_t, const Scheduler::Task&) {},
                       .rest =
                           [&](uint32_t) {
                             MutexLock lock(mu);
                             ++resting;
                             changed.NotifyAll();
                           }});
  scheduler.SetThreads(1);
  {
    MutexLock lock(mu);
    while (resting < 3) changed.Wait(lock);
  }
  // The fourth may start after them: then it is idle.
  for (const double idle = scheduler.Measure(false).idle_seconds;
       scheduler.Measure(false).idle_seconds == idle;) {
    std::this_thread::yield();
  }
  const auto start = std::chrono::steady_clock::now();
  const Scheduler::Usage before = scheduler.Measure(false);
  PassTime();
  const Scheduler::Usage after = scheduler.Measure(false);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  EXPECT_FALSE(after.knows_cpu);
  EXPECT_LE(after.idle_seconds - before.idle_seconds, seconds);
  EXPECT_GE(after.thread_seconds - before.thread_seconds, 0.02);
}

TEST(Scheduler, KnowsTheCpuTimeOfItsThreads) {
  Scheduler scheduler(2, [](uint32_t, const Scheduler::Task&) { PassTime(); });
  const Scheduler::Usage before = scheduler.Measure(true);
  std::atomic<bool> done{false};
  scheduler.Post([&] {
    PassTime();
    done = true;
    done.notify_all();
  });
  done.wait(false);
  const Scheduler::Usage after = scheduler.Measure(true);
  if (!after.knows_cpu) GTEST_SKIP() << "this system does not count";
  // Of 20 ms it had a CPU for some, or stood in line for one.
  EXPECT_GT(after.cpu_seconds + after.delayed_seconds,
            before.cpu_seconds + before.delayed_seconds);
}

TEST(ThreadTimes, ReadsWhatTheSystemWrites) {
  const auto times = ThreadTimes::Parse("2000000000 500000000 17\n");
  ASSERT_TRUE(times.has_value());
  EXPECT_DOUBLE_EQ(times->cpu_seconds, 2);
  EXPECT_DOUBLE_EQ(times->delayed_seconds, 0.5);
  EXPECT_FALSE(ThreadTimes::Parse("0 0 0\n")) << "a kernel that does not count";
  EXPECT_FALSE(ThreadTimes::Parse(""));
  EXPECT_FALSE(ThreadTimes::Parse("1 2"));
  EXPECT_FALSE(ThreadTimes::Parse("a b c"));
  EXPECT_FALSE(ThreadTimes::Of(0));
}

std::shared_ptr<const Sharer> Of(const std::string& plan) {
  auto sharer = std::make_shared<Sharer>();
  sharer->plan = plan;
  sharer->client = "client";
  sharer->peer = "peer";
  return sharer;
}

// Tasks take the time that the test says: 25 ms a row of one job, 1 us of the
// other. Both have more work than there is time.
TEST(Scheduler, PlansShareTheTimeThatTheirRowsTake) {
  std::atomic<int64_t> now{1};
  std::atomic<bool> go{false}, started{false};
  auto heavy = std::make_shared<CountingJob>(400);
  auto light = std::make_shared<CountingJob>(10'000'000);
  auto blocker = std::make_shared<CountingJob>(1);
  int64_t heavy_nanos = 0, light_nanos = 0;
  {
    Scheduler scheduler({.threads = 1,
                         .run =
                             [&](uint32_t, const Scheduler::Task& task) {
                               if (task.job == blocker) {
                                 started = true;
                                 started.notify_all();
                                 go.wait(false);
                                 return;
                               }
                               const bool is_heavy = task.job == heavy;
                               // One has no work left: the rest is the other's.
                               const bool both = now < 8'000'000'000;
                               const int64_t cost = static_cast<int64_t>(
                                   (task.end - task.begin) *
                                   (is_heavy ? 25'000'000 : 1000));
                               if (is_heavy) {
                                 EXPECT_EQ(task.end, task.begin + 1);
                               }
                               if (both) {
                                 (is_heavy ? heavy_nanos : light_nanos) += cost;
                               }
                               now += cost;
                             },
                         .sharing = {.task_nanos = 1'000'000},
                         .clock = [&] { return now.load(); }});
    scheduler.Add(std::make_shared<Scheduler::Lane>(Of("first")), blocker, 0, 1,
                  1, 0);
    started.wait(false);
    scheduler.Add(std::make_shared<Scheduler::Lane>(Of("heavy")), heavy, 0,
                  heavy->visits.size(), 1000, 0);
    scheduler.Add(std::make_shared<Scheduler::Lane>(Of("light")), light, 0,
                  light->visits.size(), 1'000'000, 0);
    go = true;
    go.notify_all();
  }
  EXPECT_NEAR(static_cast<double>(light_nanos) / heavy_nanos, 1, 0.02);
}

// One CPU, and three threads that never let it go: a task that computes for 50
// ms takes 200 ms or more.
TEST(Scheduler, ATaskThatWaitsForACpuIsNotChargedForIt) {
  constexpr double kComputes = 0.05;
  cpu_set_t allowed, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &one);
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      while (!stop.load()) {
      }
    });
  }
  double took = 0;
  const auto run = [&](uint32_t, const Scheduler::Task& task) {
    if (task.begin == 0) {  // alone, so that the move is not counted
      EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    const double end = ThreadTimes::Of(gettid())->cpu_seconds + kComputes;
    while (ThreadTimes::Of(gettid())->cpu_seconds < end) {
    }
    took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
  };
  Scheduler scheduler(
      {.threads = 1, .run = run, .sharing = {.task_nanos = 1'000'000}});
  scheduler.Add(std::make_shared<Scheduler::Lane>(Of("a")),
                std::make_shared<CountingJob>(2), 0, 2, 1, 0);
  scheduler.Stop();
  stop = true;
  for (std::thread& other : others) other.join();
  EXPECT_GT(took, 2 * kComputes);
  const std::vector<FairQueue::Share> shares = scheduler.Shares(1);
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_GE(shares[0].seconds, 0.9 * kComputes);
  EXPECT_LT(shares[0].seconds, 1.5 * kComputes);
}

// The only thread is in a row that does not end before another plan's has.
TEST(Scheduler, ALongRowHoldsUpNoOtherPlan) {
  std::atomic<bool> light_done{false}, heavy_begun{false};
  auto heavy = std::make_shared<CountingJob>(1);
  auto light = std::make_shared<CountingJob>(5);
  Scheduler scheduler({.threads = 1,
                       .max_threads = 2,
                       .run =
                           [&](uint32_t, const Scheduler::Task& task) {
                             if (task.job == heavy) {
                               heavy_begun = true;
                               heavy_begun.notify_all();
                               light_done.wait(false);
                             } else if (task.end == 5) {
                               light_done = true;
                               light_done.notify_all();
                             }
                           },
                       .long_task_nanos = 1'000'000});
  scheduler.Add(std::make_shared<Scheduler::Lane>(Of("heavy")), heavy, 0, 1, 1,
                0);
  heavy_begun.wait(false);
  EXPECT_EQ(scheduler.threads(), 1u);
  scheduler.Add(std::make_shared<Scheduler::Lane>(Of("light")), light, 0, 5, 1,
                0);
  light_done.wait(false);
}

TEST(Scheduler, SharedClosuresTakeTurnsWithTasks) {
  std::atomic<bool> go{false}, started{false};
  std::vector<std::string> order;
  {
    Scheduler scheduler(1, [&](uint32_t, const Scheduler::Task& task) {
      if (static_cast<CountingJob&>(*task.job).visits.size() == 1) {
        started = true;
        started.notify_all();
        go.wait(false);
        return;
      }
      order.push_back("task");
    });
    scheduler.Add(std::make_shared<Scheduler::Lane>(Of("first")),
                  std::make_shared<CountingJob>(1), 0, 1, 1, 0);
    started.wait(false);
    const auto opener = Of("open");
    scheduler.Add(std::make_shared<Scheduler::Lane>(Of("plan")),
                  std::make_shared<CountingJob>(3), 0, 3, 1, 0);
    for (int i = 0; i < 3; ++i) {
      scheduler.PostShared(opener, [&] { order.push_back("open"); });
    }
    go = true;
    go.notify_all();
  }
  ASSERT_EQ(order.size(), 6u);
  // Neither waits for all of the other's.
  EXPECT_NE(order[0] + order[1] + order[2], "openopenopen");
  EXPECT_NE(order[0] + order[1] + order[2], "tasktasktask");
}

// Where room is left, not all threads may take what there is: nothing is
// forgotten all the same.
TEST(Scheduler, NothingIsLostWhereRoomIsLeft) {
  std::vector<std::shared_ptr<CountingJob>> jobs;
  {
    Scheduler scheduler(
        {.threads = 6,
         .run =
             [](uint32_t, const Scheduler::Task& task) {
               for (uint64_t row = task.begin; row < task.end; ++row) {
                 static_cast<CountingJob&>(*task.job).visits[row].fetch_add(1);
               }
             },
         .sharing = {.leaves_room = true}});
    for (int plan = 0; plan < 5; ++plan) {
      auto lane =
          std::make_shared<Scheduler::Lane>(Of("plan" + std::to_string(plan)));
      for (int i = 0; i < 200; ++i) {
        jobs.push_back(std::make_shared<CountingJob>(1 + i % 5));
        scheduler.Add(lane, jobs.back(), 0, 1 + i % 5, 1 + i % 2, 0);
      }
    }
  }
  for (const auto& job : jobs) {
    for (const auto& count : job->visits) EXPECT_EQ(count.load(), 1);
  }
}

}  // namespace
}  // namespace millrace::pipeline
