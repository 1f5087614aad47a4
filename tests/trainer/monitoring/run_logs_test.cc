// The figures of a run: parts of steps, sums over epochs, the table of a
// profile, the load of a GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/testing/subprocess.h"
#include "trainer/monitoring/device_load.h"
#include "trainer/monitoring/op_table.h"
#include "trainer/monitoring/resource_usage.h"
#include "trainer/monitoring/step_timer.h"

namespace millrace::monitoring {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Spins, so that time passes without a promise on how much.
void Pass() {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() == start) {
  }
}

TEST(StepTimer, GivesEachPartItsTime) {
  HostStepTimer timer;
  for (int step = 0; step < 2; ++step) {
    timer.BeginStep(step);
    timer.Enter(StepPart::kData);
    Pass();
    timer.Enter(StepPart::kForward);
    Pass();
    timer.Enter(StepPart::kData);  // of another micro-batch
    timer.Enter(StepPart::kOther);
    timer.EndStep();
    Pass();  // between steps: nobody's
  }
  const StepTimes times = timer.Finish();
  EXPECT_EQ(times.steps, 2u);
  EXPECT_GT(times.of(StepPart::kData), 0);
  EXPECT_GT(times.of(StepPart::kForward), 0);
  EXPECT_EQ(times.of(StepPart::kBackward), 0);
  EXPECT_EQ(times.of(StepPart::kOptimizer), 0);
  timer.BeginStep(2);
  timer.Enter(StepPart::kBackward);
  Pass();
  timer.EndStep();
  const StepTimes later = timer.times() - times;
  EXPECT_EQ(later.steps, 1u);
  EXPECT_EQ(later.of(StepPart::kData), 0);
  EXPECT_GT(later.of(StepPart::kBackward), 0);
}

TEST(ResourceUsage, CountsTheCpuTimeOfTheProcess) {
  const double before = ProcessCpuSeconds();
  volatile uint64_t x = 1;
  // More than the kernel's tick, however fast the machine is.
  while (ProcessCpuSeconds() == before) {
    for (int i = 0; i < 1000; ++i) x = x * 3 + 1;
  }
  EXPECT_GT(ProcessCpuSeconds(), before);
}

OpEvent Host(std::string name, uint64_t start, uint64_t duration,
             uint64_t thread, uint64_t link = 0) {
  return {std::move(name), start, duration, thread, false, link};
}

// step [0, 100) calls linear [10, 50), which calls mm [20, 40); another thread
// works at the same time; the device works for mm, later.
TEST(OpTable, TellsSelfTimeFromThatOfWhatWasCalled) {
  std::vector<OpEvent> events = {
      Host("mm", 20'000'000, 20'000'000, 1, 7),
      Host("step", 0, 100'000'000, 1),
      Host("linear", 10'000'000, 40'000'000, 1, 6),
      Host("mm", 60'000'000, 10'000'000, 1, 8),
      Host("backward", 0, 50'000'000, 2),
      {"gemm_kernel", 200'000'000, 300'000'000, 0, true, 7},
      {"gemm_kernel", 500'000'000, 100'000'000, 0, true, 8},
      {"Memcpy HtoD", 500'000'000, 5'000'000, 0, true, 0}};
  const std::vector<OpRow> table = OpTable(events);
  ASSERT_EQ(table.size(), 5u);
  EXPECT_EQ(table[0].name, "mm") << "most time of the device";
  EXPECT_EQ(table[0].calls, 2u);
  EXPECT_NEAR(table[0].self_cpu_seconds, 0.030, 1e-9);
  EXPECT_NEAR(table[0].device_seconds, 0.4, 1e-9);
  EXPECT_EQ(table[1].name, "Memcpy HtoD");
  const auto row = [&table](const std::string& name) {
    for (const OpRow& one : table) {
      if (one.name == name) return one;
    }
    return OpRow();
  };
  EXPECT_NEAR(row("step").self_cpu_seconds, 0.050, 1e-9);
  EXPECT_NEAR(row("step").cpu_seconds, 0.100, 1e-9);
  EXPECT_NEAR(row("linear").self_cpu_seconds, 0.020, 1e-9);
  EXPECT_NEAR(row("backward").self_cpu_seconds, 0.050, 1e-9);

  const std::string text = FormatOpTable(table, 3);
  EXPECT_THAT(text, HasSubstr("device"));
  EXPECT_THAT(text, HasSubstr("400.00 ms"));
  EXPECT_THAT(text, HasSubstr("and 2 more"));
  EXPECT_THAT(text, Not(HasSubstr("linear")));
}

TEST(OpTable, OfTheCpuAloneHasNoColumnOfTheDevice) {
  const std::vector<OpRow> table =
      OpTable({Host("short", 0, 1000, 1), Host("long", 2000, 5000, 1),
               Host(std::string(200, 'x'), 9000, 10, 1)});
  EXPECT_EQ(table[0].name, "long");
  const std::string text = FormatOpTable(table, 20);
  EXPECT_THAT(text, Not(HasSubstr("device")));
  EXPECT_THAT(text, HasSubstr("5.0 us"));
  EXPECT_THAT(text, HasSubstr("xxx..."));
  EXPECT_THAT(text, Not(HasSubstr("more")));
  EXPECT_TRUE(OpTable({}).empty());
}

TEST(DeviceLoad, AsksTheDriversLibrary) {
  const std::string library =
      testing::ProgramPath("tests/trainer/monitoring/libfake_nvml.so");
  for (int again = 0; again < 2; ++again) {
    const auto load = DeviceLoad::OpenPci("0000:65:00.0", library);
    ASSERT_NE(load, nullptr);
    EXPECT_EQ(load->Busy(), 0.37);
  }
  EXPECT_EQ(DeviceLoad::OpenPci("0000:99:00.0", library), nullptr);
  EXPECT_EQ(DeviceLoad::OpenPci("0000:66:00.0", library), nullptr)
      << "a device without the figure";
  EXPECT_EQ(DeviceLoad::OpenPci("0000:65:00.0", "libno_such_library.so"),
            nullptr);
  EXPECT_EQ(DeviceLoad::Open(0, library), nullptr) << "no CUDA in this process";
}

}  // namespace
}  // namespace millrace::monitoring
