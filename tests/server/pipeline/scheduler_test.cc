#include "server/pipeline/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>

namespace millrace {
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
          scheduler.Add(lane, jobs.back(), rows, rows_per_task);
        }
      }
    }
  }  // finishes all that was added
  for (const auto& job : jobs) {
    for (const auto& count : job->visits) EXPECT_EQ(count.load(), 1);
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
    scheduler.Add(lane, job, 100, 10);
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
    scheduler.AddRange(lane, job, 90, 91, 1, /*order=*/9);
    started.wait(false);
    scheduler.AddRange(lane, job, 50, 52, 1, /*order=*/5);
    scheduler.AddRange(lane, job, 20, 22, 2, /*order=*/2);
    scheduler.AddRange(lane, job, 53, 54, 1, /*order=*/5);
    scheduler.AddRange(lane, job, 10, 11, 1, /*order=*/1);
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
                std::make_shared<CountingJob>(1), 1, 1);
  started.wait(false);
  const double before = scheduler.IdleThreadSeconds();
  PassTime();
  EXPECT_EQ(scheduler.IdleThreadSeconds(), before) << "its only worker works";
  go = true;
  go.notify_all();
}

}  // namespace
}  // namespace millrace
