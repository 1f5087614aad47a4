// StageClock adds up the thread-seconds that each stage of the engine took.
//
// Thread-safe; workers add once per task.

#ifndef MILLRACE_SERVER_PIPELINE_THREADS_STAGE_CLOCK_H_
#define MILLRACE_SERVER_PIPELINE_THREADS_STAGE_CLOCK_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::pipeline {

class StageClock {
 public:
  // READ includes the copies of raw tensors from storage: they are too short
  // for two more clock reads a sample.
  enum Stage { READ, DECODE, AUGMENT, BATCH, kStages };

  void Add(Stage stage, double seconds, uint64_t samples) {
    Sum& sum = sums_[stage];
    if (seconds > 0) {
      sum.nanos.fetch_add(static_cast<uint64_t>(seconds * 1e9),
                          std::memory_order_relaxed);
    }
    sum.samples.fetch_add(samples, std::memory_order_relaxed);
  }

  uint64_t samples(Stage stage) const {
    return sums_[stage].samples.load(std::memory_order_relaxed);
  }

  std::vector<StageTime> Read() const {
    static constexpr const char* kNames[kStages] = {"read", "decode", "augment",
                                                    "batch"};
    std::vector<StageTime> times(kStages);
    for (int i = 0; i < kStages; ++i) {
      times[i].set_stage(kNames[i]);
      times[i].set_seconds(
          static_cast<double>(sums_[i].nanos.load(std::memory_order_relaxed)) *
          1e-9);
      times[i].set_samples(sums_[i].samples.load(std::memory_order_relaxed));
    }
    return times;
  }

 private:
  struct alignas(64) Sum {
    std::atomic<uint64_t> nanos{0};
    std::atomic<uint64_t> samples{0};
  };
  std::array<Sum, kStages> sums_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_THREADS_STAGE_CLOCK_H_
