// What the feeder does when its parts fail: a device whose events cannot be
// made, a host loader whose deadline comes at another time than the caller's, a
// plan that cannot be true.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

#include "tests/client/torch/fake_device.h"
#include "tests/client/torch/feeder_checks.h"

namespace millrace::device {
namespace {

using ::testing::HasSubstr;

TEST(FeederErrors, ADeviceThatFailsIsAnErrorOfNextAndNoCrash) {
  auto device = std::make_shared<FakeDevice>(3);
  auto feeder = Start({.steps = 50}, device);
  auto batch = feeder->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  device->Fail();
  absl::Status status;
  for (int i = 0; i < 50 && status.ok(); ++i) status = feeder->Next().status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("it failed"));
  EXPECT_EQ(feeder->Next().status(), status);  // it is final
  // Its tensors die on the broken device.
  batch = absl::CancelledError();
  feeder.reset();
}

TEST(FeederErrors, ThreadsOfTheFeederEnterTheDevice) {
  auto device = std::make_shared<FakeDevice>(4);
  auto feeder = Start({}, device);
  ASSERT_TRUE(feeder->Next().ok());
  feeder->Close();  // both threads have run to their end
  EXPECT_EQ(device->entered(), 2u);
}

// The host loader is asked before the caller comes, so its deadline is over
// before the caller's. What it said must not be lost: asked again, it would
// take as long again.
TEST(FeederErrors, WhatTheHostLoaderSaidIsGivenOutAtTheCallersDeadline) {
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  std::atomic<int> asked = 0;
  auto feeder = Start(
      {.before_next =
           [&asked, opened](Position) {
             if (asked++ == 0) {
               return absl::DeadlineExceededError("nothing from the endpoint");
             }
             opened.wait();  // far longer than the caller waits
             return absl::OkStatus();
           }},
      NewHostDevice(),
      {.thread = true, .next_timeout = absl::Milliseconds(20)});
  const auto late = feeder->Next();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
  EXPECT_THAT(std::string(late.status().message()),
              HasSubstr("nothing from the endpoint"));
  gate.set_value();
  // It goes on; with a deadline this short it may take another call.
  auto batch = feeder->Next();
  while (absl::IsDeadlineExceeded(batch.status())) batch = feeder->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(CountWrong(*batch), 0);
}

absl::Status Open(FakeHostLoader::Options options,
                  std::shared_ptr<Device> device) {
  return DeviceFeeder::Start(
             std::make_unique<FakeHostLoader>(std::move(options)),
             std::move(device), {})
      .status();
}

TEST(FeederErrors, APlanThatCannotBeTrueIsRefused) {
  for (const bool streams : {false, true}) {
    std::shared_ptr<Device> device = NewHostDevice();
    if (streams) device = std::make_shared<FakeDevice>(5);
    const auto refused = [&](const char* what, auto edit) {
      FakeHostLoader::Options options;
      options.edit_plan = edit;
      const absl::Status status = Open(std::move(options), device);
      EXPECT_TRUE(absl::IsInvalidArgument(status) ||
                  absl::IsUnimplemented(status))
          << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    };
    refused("batch size of 0", [](OpenResponse& plan) {
      plan.mutable_resolved_spec()->set_batch_size(0);
    });
    // 4 bytes of 2^62 + 1 rows of 12 elements are few, counted with 64 bits.
    refused("too many; server and client disagree", [](OpenResponse& plan) {
      plan.mutable_resolved_spec()->set_batch_size((uint64_t{1} << 62) + 1);
    });
    refused("more elements than any memory can hold", [](OpenResponse& plan) {
      TensorSpec* image = plan.mutable_tensors(0);
      image->set_sample_shape(0, int64_t{1} << 32);
      image->set_sample_shape(1, int64_t{1} << 32);
    });
  }
}

// Tensors without elements take no memory, and must not be taken for none.
TEST(FeederErrors, TensorsWithoutElementsHaveSlots) {
  const auto edit = [](OpenResponse& plan) {
    plan.mutable_tensors(0)->set_sample_shape(0, 0);
  };
  auto feeder = Start({.edit_plan = edit}, NewHostDevice());
  // The fake's batches say another shape than its plan does here.
  const absl::Status status = feeder->Next().status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
}

}  // namespace
}  // namespace millrace::device
