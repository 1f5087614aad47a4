#include "client/torch/device_feeder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "client/torch/slot_ring.h"
#include "proto/half_float.h"
#include "tests/client/torch/fake_device.h"
#include "tests/client/torch/fake_host_loader.h"
#include "tests/client/torch/feeder_checks.h"

namespace millrace::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DeviceFeederOnHost : public ::testing::TestWithParam<bool> {};

TEST_P(DeviceFeederOnHost, GivesEveryBatchInOrderWithItsValues) {
  auto feeder =
      Start({.steps = 5, .epochs = 2}, NewHostDevice(), {.thread = GetParam()});
  for (uint64_t i = 0; i < 10; ++i) {
    auto batch = feeder->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->position, (Position{i / 5, i % 5}));
    EXPECT_EQ(feeder->position(), (Position{(i + 1) / 5, (i + 1) % 5}));
    EXPECT_EQ(CountWrong(*batch), 0);
  }
  EXPECT_TRUE(absl::IsOutOfRange(feeder->Next().status()));
  EXPECT_TRUE(absl::IsOutOfRange(feeder->Next().status()));
}

TEST_P(DeviceFeederOnHost, KeepsABatchThatIsHeldAcrossNextAndAfterTheEnd) {
  auto feeder =
      Start({.steps = 6, .window = 8}, NewHostDevice(), {.thread = GetParam()});
  std::deque<DeviceBatch> held;
  for (int i = 0; i < 6; ++i) {
    auto batch = feeder->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    held.push_back(std::move(*batch));
    if (held.size() > 3) held.pop_front();
    for (const DeviceBatch& b : held) EXPECT_EQ(CountWrong(b), 0);
  }
  feeder.reset();
  for (const DeviceBatch& b : held) EXPECT_EQ(CountWrong(b), 0);
}

TEST_P(DeviceFeederOnHost, SaysThatTheCallerHoldsAllSlotsAndGoesOnAfterwards) {
  auto feeder = Start({.window = 16}, NewHostDevice(),
                      {.prefetch = 1,
                       .thread = GetParam(),
                       .next_timeout = absl::Milliseconds(20)});
  std::vector<DeviceBatch> held;
  absl::Status status;
  while (held.size() < 8) {
    auto batch = feeder->Next();
    if (!batch.ok()) {
      status = batch.status();
      break;
    }
    held.push_back(std::move(*batch));
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("all 3 slots are held"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("raise the prefetch"));
  EXPECT_EQ(held.size(), 3u);
  const uint64_t next = held.size();
  held.clear();
  // With a deadline this short a loaded machine may need another call.
  absl::StatusOr<DeviceBatch> batch = feeder->Next();
  while (absl::IsDeadlineExceeded(batch.status())) batch = feeder->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->position, (Position{0, next}));
  EXPECT_EQ(CountWrong(*batch), 0);
}

// An evaluation loop keeps the labels of an epoch.
TEST_P(DeviceFeederOnHost, KeepsTheCastLabelsOfFiftyBatches) {
  for (const bool transform : {true, false}) {  // with a ring and without
    auto feeder = Start(
        {.steps = 50,
         .transform = transform,
         .edit_plan =
             [](OpenResponse& plan) {
               plan.mutable_tensors(1)->mutable_device_transform()->set_dtype(
                   DTYPE_FLOAT32);
             }},
        NewHostDevice(),
        {.prefetch = 1,
         .thread = GetParam(),
         .next_timeout = absl::Seconds(10)});
    std::vector<DeviceTensor> labels;
    for (int i = 0; i < 50; ++i) {
      auto batch = feeder->Next();
      ASSERT_TRUE(batch.ok()) << i << ": " << batch.status();
      labels.push_back(std::move(batch->tensors[1]));
    }
    feeder.reset();
    for (int i = 0; i < 50; ++i) {
      const auto* values = reinterpret_cast<const float*>(labels[i].data);
      for (int r = 0; r < 4; ++r) {
        EXPECT_EQ(values[r], static_cast<float>((4 * i + r) % 10));
      }
    }
  }
}

TEST_P(DeviceFeederOnHost, CloseEndsACallOfAnotherThread) {
  std::atomic<bool> waiting = false;
  auto feeder = Start({.window = 1,
                       .before_next =
                           [&](Position p) {
                             waiting = p.step == 1;
                             return absl::OkStatus();
                           }},
                      NewHostDevice(), {.thread = GetParam()});
  auto first = feeder->Next();  // keeps the only slot
  ASSERT_TRUE(first.ok());
  std::thread closer([&] {
    while (!waiting) std::this_thread::yield();
    feeder->Close();
  });
  EXPECT_TRUE(absl::IsCancelled(feeder->Next().status()));
  closer.join();
  feeder->Close();
  EXPECT_EQ(CountWrong(*first), 0);
}

TEST_P(DeviceFeederOnHost, PassesAnErrorOnAndRepeatsIt) {
  auto feeder = Start({.before_next =
                           [](Position p) {
                             return p.step == 2
                                        ? absl::DataLossError("row 17 is bad")
                                        : absl::OkStatus();
                           }},
                      NewHostDevice(), {.thread = GetParam()});
  EXPECT_TRUE(feeder->Next().ok());
  EXPECT_TRUE(feeder->Next().ok());
  EXPECT_EQ(feeder->Next().status().message(), "row 17 is bad");
  EXPECT_TRUE(absl::IsDataLoss(feeder->Next().status()));
}

TEST_P(DeviceFeederOnHost, GoesOnWhenTheServersAreBack) {
  std::atomic<int> away = 3;  // calls that find no server
  auto feeder = Start({.steps = 2,
                       .before_next =
                           [&](Position p) {
                             return p.step == 1 && away-- > 0
                                        ? absl::UnavailableError("no server")
                                        : absl::OkStatus();
                           }},
                      NewHostDevice(),
                      {.thread = GetParam(),
                       // The caller's own deadline has passed when it hears.
                       .next_timeout = absl::ZeroDuration()});
  std::vector<uint64_t> steps;
  int unavailable = 0;
  while (steps.size() < 2) {
    auto batch = feeder->Next();
    if (batch.ok()) {
      steps.push_back(batch->position.step);
      EXPECT_EQ(CountWrong(*batch), 0);
    } else if (absl::IsUnavailable(batch.status())) {
      ASSERT_LE(++unavailable, 3) << batch.status();
    } else {
      ASSERT_TRUE(absl::IsDeadlineExceeded(batch.status())) << batch.status();
    }
  }
  EXPECT_THAT(steps, ElementsAre(0, 1));
  EXPECT_EQ(unavailable, 3);
}

INSTANTIATE_TEST_SUITE_P(CallerAndThread, DeviceFeederOnHost,
                         ::testing::Bool());

TEST(DeviceFeeder, LeavesTensorsWhereTheyWereReceivedOnTheHost) {
  auto feeder =
      Start({.rows = 4, .window = 1, .transform = false}, NewHostDevice());
  const uint8_t* place = nullptr;
  for (int i = 0; i < 3; ++i) {
    auto batch = feeder->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(CountWrong(*batch, /*transformed=*/false), 0);
    if (place == nullptr) place = batch->tensors[0].data;
    // One slot in the window: the same memory each time, so nothing is copied.
    EXPECT_EQ(batch->tensors[0].data, place);
  }
}

// There is no ring then, whose slots a deadline could speak of.
TEST(DeviceFeeder, MindsNoDeadlineOfSlotsWhenThereAreNone) {
  constexpr uint64_t kSteps = 20000;
  auto feeder =
      Start({.rows = 1, .steps = kSteps, .transform = false}, NewHostDevice(),
            {.thread = true, .next_timeout = absl::ZeroDuration()});
  for (uint64_t i = 0; i < kSteps; ++i) {
    auto batch = feeder->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->position.step, i);
  }
}

TEST(DeviceFeeder, DescribesImagesAsNchwAndRaggedTensorsWithTheirOffsets) {
  auto feeder = Start({.rows = 4}, NewHostDevice());
  auto batch = feeder->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_EQ(batch->tensors.size(), 6u);
  const DeviceTensor& image = batch->tensors[0];
  EXPECT_EQ(image.dtype, DTYPE_FLOAT32);
  EXPECT_THAT(image.sizes, ElementsAre(4, 2, 2, 3));
  EXPECT_THAT(image.strides, ElementsAre(12, 1, 6, 2));
  const DeviceTensor& text = batch->tensors[2];
  EXPECT_EQ(text.name, "text");
  EXPECT_THAT(text.sizes, ElementsAre(6));
  EXPECT_EQ(std::memcmp(text.data, "bccddd", 6), 0);
  EXPECT_EQ(batch->tensors[3].name, "text.offsets");
  EXPECT_THAT(batch->tensors[3].sizes, ElementsAre(5));
  EXPECT_EQ(batch->tensors[5].name, "valid");
}

TEST(DeviceFeeder, GivesImagesInTheOrderThatThePlanSays) {
  auto shown = [](TensorSpec::View view, bool transform, bool apply = true) {
    auto feeder = Start({.transform = transform,
                         .edit_plan =
                             [view](OpenResponse& plan) {
                               plan.mutable_tensors(0)->set_view(view);
                             }},
                        NewHostDevice(), {.apply_transform = apply});
    auto batch = feeder->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(CountWrong(*batch, transform && apply), 0);
    return batch->tensors[0].sizes;
  };
  const std::vector<int64_t> stored = {4, 2, 3, 2};
  const std::vector<int64_t> planes = {4, 2, 2, 3};
  EXPECT_EQ(shown(TensorSpec::VIEW_DEFAULT, true), planes);
  EXPECT_EQ(shown(TensorSpec::VIEW_AS_STORED, true), stored);
  EXPECT_EQ(shown(TensorSpec::VIEW_CHANNELS_FIRST, true), planes);
  EXPECT_EQ(shown(TensorSpec::VIEW_DEFAULT, false), stored);
  EXPECT_EQ(shown(TensorSpec::VIEW_CHANNELS_FIRST, false), planes);
  EXPECT_EQ(shown(TensorSpec::VIEW_CHANNELS_FIRST, true, /*apply=*/false),
            stored);
}

// On both kinds of device; a fake one writes into the scratch that it asks for.
TEST(DeviceFeeder, CastsEveryTensorThatThePlanSays) {
  const std::vector<std::shared_ptr<Device>> devices = {
      NewHostDevice(), std::make_shared<FakeDevice>(11)};
  for (const std::shared_ptr<Device>& device : devices) {
    auto feeder = Start(
        {.rows = 8,
         .edit_plan =
             [](OpenResponse& plan) {
               plan.mutable_tensors(0)->mutable_device_transform()->set_dtype(
                   DTYPE_BFLOAT16);
               plan.mutable_tensors(1)->mutable_device_transform()->set_dtype(
                   DTYPE_FLOAT32);
               plan.mutable_tensors(3)->mutable_device_transform()->set_dtype(
                   DTYPE_INT32);
             }},
        device);
    for (int step = 0; step < 3; ++step) {
      auto batch = feeder->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      if (!device->is_host()) {
        static_cast<FakeDevice&>(*device).Synchronize();
      }
      ASSERT_EQ(batch->tensors[0].dtype, DTYPE_BFLOAT16);
      ASSERT_EQ(batch->tensors[1].dtype, DTYPE_FLOAT32);
      ASSERT_EQ(batch->tensors[4].name, "sample_index");
      ASSERT_EQ(batch->tensors[4].dtype, DTYPE_INT32);
      const auto* image =
          reinterpret_cast<const uint16_t*>(batch->tensors[0].data);
      const auto* label =
          reinterpret_cast<const float*>(batch->tensors[1].data);
      const auto* index =
          reinterpret_cast<const int32_t*>(batch->tensors[4].data);
      for (uint64_t r = 0; r < batch->rows; ++r) {
        const uint64_t position = batch->first_position + r;
        EXPECT_EQ(label[r], static_cast<float>(position % 10));
        EXPECT_EQ(index[r], static_cast<int32_t>(position));
        for (int i = 0; i < FakeHostLoader::kPixels; ++i) {
          ASSERT_EQ(image[r * FakeHostLoader::kPixels + i],
                    FloatToBfloat16(Expected(position, i)));
        }
      }
    }
  }
}

TEST(DeviceFeeder, RefusesATransformThatItDoesNotKnow) {
  FakeHostLoader::Options host = {.edit_plan = [](OpenResponse& plan) {
    plan.mutable_tensors(1)->mutable_device_transform()->set_dtype(DTYPE_BOOL);
  }};
  auto feeder = DeviceFeeder::Start(std::make_unique<FakeHostLoader>(host),
                                    NewHostDevice(), {});
  EXPECT_TRUE(absl::IsUnimplemented(feeder.status())) << feeder.status();
}

TEST(DeviceFeeder, RefusesABatchOfAnotherTypeThanThePlans) {
  auto feeder = Start(
      {.edit_plan =
           [](OpenResponse& plan) {
             // The batches still say int64.
             plan.mutable_tensors(1)->set_dtype(DTYPE_INT32);
             plan.mutable_tensors(1)->mutable_device_transform()->set_dtype(
                 DTYPE_FLOAT32);
           },
       .wire_labels = DTYPE_INT64},
      NewHostDevice());
  EXPECT_TRUE(absl::IsInternal(feeder->Next().status()));
}

// The consumer queues work that reads a batch, lets go of the batch at once or
// some batches later, and asks for the next: as a training step does. The
// reads run late; none may see the batch that uses the slot next.
TEST(DeviceFeeder, NeverReusesASlotUnderWorkThatIsQueued) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    auto device = std::make_shared<FakeDevice>(seed);
    auto feeder = Start({.rows = 8, .steps = 25, .epochs = 2, .window = 3},
                        device, {.prefetch = 1 + seed % 3});
    std::atomic<int> wrong = 0;
    std::atomic<int> read = 0;
    std::deque<DeviceBatch> held;
    std::mt19937 random(seed);
    while (true) {
      auto batch = feeder->Next();
      if (absl::IsOutOfRange(batch.status())) break;
      ASSERT_TRUE(batch.ok()) << batch.status();
      DeviceBatch plain = *batch;  // what a kernel sees: addresses alone
      for (DeviceTensor& tensor : plain.tensors) tensor.hold = nullptr;
      device->consumer().Queue([&wrong, &read, plain] {
        wrong += CountWrong(plain);
        ++read;
      });
      held.push_back(std::move(*batch));
      while (held.size() > random() % 3) held.pop_front();
    }
    held.clear();
    device->Synchronize();
    EXPECT_EQ(read, 50);
    EXPECT_EQ(wrong, 0) << "seed " << seed;
  }
}

// Work on the other stream reads a batch that dies where the first stream is
// current. The work stands at a gate until the batch's slot has been asked for
// again, so a copy that does not wait for the work always comes first.
void ExpectNoCopyUnderWorkOfTheOtherStream(
    const std::function<DeviceBatch(FakeDevice&, DeviceFeeder&)>& next) {
  auto device = std::make_shared<FakeDevice>(12);
  // Three slots: the fourth batch takes that of the first.
  auto feeder =
      Start({.rows = 8, .steps = 8, .window = 8}, device, {.prefetch = 1});
  std::promise<void> gate;
  std::atomic<int> wrong = -1;
  {
    const DeviceBatch batch = next(*device, *feeder);
    DeviceBatch plain = batch;
    for (DeviceTensor& tensor : plain.tensors) tensor.hold = nullptr;
    device->other().Queue([&, opened = gate.get_future().share(), plain] {
      opened.wait();
      wrong = CountWrong(plain);
    });
  }
  for (int i = 0; i < 3; ++i) {
    auto batch = feeder->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
  }
  EXPECT_TRUE(device->CopiesWaitForOther());
  if (!device->CopiesWaitForOther()) device->SynchronizeCopies();
  gate.set_value();
  device->SynchronizeOther();
  EXPECT_EQ(wrong, 0);
  feeder.reset();
}

TEST(DeviceFeeder, ReusesASlotAfterTheWorkOfTheStreamThatAskedForTheBatch) {
  ExpectNoCopyUnderWorkOfTheOtherStream([](FakeDevice&, DeviceFeeder& feeder) {
    const FakeDevice::OnOther on_other;
    auto batch = feeder.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    return *std::move(batch);
  });
}

TEST(DeviceFeeder, ReusesASlotAfterTheWorkOfAStreamThatItWasToldOf) {
  ExpectNoCopyUnderWorkOfTheOtherStream(
      [](FakeDevice& device, DeviceFeeder& feeder) {
        auto batch = feeder.Next();
        EXPECT_TRUE(batch.ok()) << batch.status();
        batch->slot.lock()->UsedOn(FakeDevice::kOther);
        const FakeDevice::OnOther on_other;
        device.ConsumerWaits(
            *device.RecordOn(DeviceStream()));  // of the first stream
        return *std::move(batch);
      });
}

TEST(SlotRing, HandsOutOneEventOfEachStreamThatASlotWasUsedOn) {
  auto device = std::make_shared<FakeDevice>(13);
  auto ring = SlotRing::Make(device, 1, 64);
  ASSERT_TRUE(ring.ok()) << ring.status();
  {
    auto lease = *(*ring)->Acquire(SteadyTime::min());
    lease->TakeEvents();
    lease->UsedOn(FakeDevice::kOther);
    lease->UsedOn(FakeDevice::kOther);
    const FakeDevice::OnOther on_other;
    for (int i = 0; i < 5; ++i) SlotRing::Hold(lease);  // tensors that die
  }
  auto again = *(*ring)->Acquire(SteadyTime::min());
  EXPECT_EQ(again->TakeEvents().size(), 1u);
  for (int i = 0; i < 2; ++i) SlotRing::Hold(again);  // on the first stream
  again.reset();
  EXPECT_EQ((*(*ring)->Acquire(SteadyTime::min()))->TakeEvents().size(), 2u);
}

TEST(DeviceFeeder, FillsNewSlotsAfterTheWorkOfTheirLastOwner) {
  auto device = std::make_shared<FakeDevice>(9);
  device->AllocateUnderLateWork();
  auto feeder = Start({.rows = 8}, device);
  std::atomic<int> wrong = 0;
  std::vector<DeviceBatch> held;
  for (int i = 0; i < 4; ++i) {  // every slot of the ring
    auto batch = feeder->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    DeviceBatch plain = *batch;
    for (DeviceTensor& tensor : plain.tensors) tensor.hold = nullptr;
    device->consumer().Queue([&wrong, plain] { wrong += CountWrong(plain); });
    held.push_back(std::move(*batch));
  }
  device->Synchronize();
  EXPECT_EQ(wrong, 0);
}

// The same without a race that might be won: the slot names the work.
TEST(SlotRing, HandsOutTheWorkThatWasQueuedBeforeIt) {
  auto device = std::make_shared<FakeDevice>(10);
  std::promise<void> gate;
  std::atomic<bool> done = false;
  device->consumer().Queue([&, opened = gate.get_future().share()] {
    opened.wait();
    done = true;
  });
  auto ring = SlotRing::Make(device, 2, 64);
  ASSERT_TRUE(ring.ok()) << ring.status();
  gate.set_value();
  for (int i = 0; i < 2; ++i) {
    auto lease = (*ring)->Acquire(SteadyTime::min());
    ASSERT_TRUE(lease.ok()) << lease.status();
    SlotRing::Events events = (*lease)->TakeEvents();
    ASSERT_EQ(events.size(), 1u);
    for (auto& event : events) event->Await();
    EXPECT_TRUE(done);
  }
  device->Synchronize();
}

TEST(DeviceFeeder, KeepsADeviceBatchAfterTheFeederIsGone) {
  auto device = std::make_shared<FakeDevice>(7);
  auto feeder = Start({.rows = 8}, device);
  auto batch = feeder->Next();
  ASSERT_TRUE(batch.ok());
  feeder.reset();
  device->Synchronize();
  EXPECT_EQ(CountWrong(*batch), 0);
}

TEST(DeviceFeeder, CountsCopiesUntilTheyAreDone) {
  auto device = std::make_shared<FakeDevice>(5, /*max_delay_us=*/2000);
  auto feeder = Start({.rows = 8, .steps = 20}, device, {.audit = true});
  for (int i = 0; i < 20; ++i) {
    auto batch = feeder->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    ASSERT_TRUE(batch->audit.has_value());
    EXPECT_EQ(batch->audit->samples, 8u);
  }
  device->Synchronize();
  // The last ones are counted by a thread of the feeder's.
  while (feeder->stats().device_copy_seconds <= 0) {
  }
  auto without = Start({.rows = 8}, NewHostDevice());
  auto batch = without->Next();
  ASSERT_TRUE(batch.ok());
  EXPECT_FALSE(batch->audit.has_value());
  EXPECT_EQ(without->stats().device_copy_seconds, 0);
}

TEST(DeviceFeeder, ClosesWithBatchesReadyThatNobodyTook) {
  auto device = std::make_shared<FakeDevice>(8, /*max_delay_us=*/2000);
  auto feeder = Start({.rows = 8}, device, {.prefetch = 3});
  ASSERT_TRUE(feeder->Next().ok());
  feeder.reset();  // memory goes back: ASan and TSan see a late copy
}

}  // namespace
}  // namespace millrace::device
