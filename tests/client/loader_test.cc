// DataLoader: what of the feeder becomes libtorch's tensors.

#include "client/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/audit/audit_check.h"
#include "client/audit/audit_log.h"
#include "client/audit/audit_record.h"
#include "client/data_loader_impl.h"
#include "tests/client/torch/fake_device.h"
#include "tests/client/torch/fake_host_loader.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<DataLoader> Open(device::FakeHostLoader::Options host,
                                 DataLoader::Options options = {}) {
  auto loader = internal::NewDataLoader(
      std::make_unique<device::FakeHostLoader>(std::move(host)),
      device::NewHostDevice(), options);
  EXPECT_TRUE(loader.ok()) << loader.status();
  return *std::move(loader);
}

TEST(DataLoader, GivesTensorsOfTheTypesAndShapesOfThePlan) {
  auto loader = Open({.rows = 4});
  auto batch = loader->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->tensor("image").scalar_type(), torch::kFloat);
  EXPECT_EQ(batch->tensor("image").sizes(), (std::vector<int64_t>{4, 2, 2, 3}));
  EXPECT_TRUE(
      batch->tensor("image").is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_EQ(batch->tensor("label").scalar_type(), torch::kLong);
  EXPECT_EQ(batch->tensor("label").sizes(), (std::vector<int64_t>{4}));
  EXPECT_EQ(batch->tensor("valid").scalar_type(), torch::kBool);
  EXPECT_EQ(batch->tensor("text").sizes(), (std::vector<int64_t>{6}));
  EXPECT_EQ(batch->tensor("text.offsets")[4].item<int64_t>(), 6);
  EXPECT_FALSE(batch->has("mask"));
  EXPECT_EQ(batch->rows, 4u);
  EXPECT_EQ(batch->local_valid, 4u);
}

TEST(DataLoader, NormalisesAsLibtorchWould) {
  auto loader = Open({.rows = 4});
  auto plain = Open({.rows = 4}, {.apply_device_transform = false});
  auto batch = loader->Next();
  auto bytes = plain->Next();
  ASSERT_TRUE(batch.ok() && bytes.ok());
  const torch::Tensor wire = bytes->tensor("image");
  EXPECT_EQ(wire.scalar_type(), torch::kByte);
  EXPECT_EQ(wire.sizes(), (std::vector<int64_t>{4, 2, 3, 2}));
  const torch::Tensor mean = at::tensor({0.25f, 0.5f});
  const torch::Tensor stddev = at::tensor({0.5f, 0.3f});
  const torch::Tensor expected = wire.to(torch::kFloat)
                                     .mul(1.0f / 255)
                                     .sub(mean)
                                     .div(stddev)
                                     .permute({0, 3, 1, 2});
  // Bit for bit: devices compute it with these very operations.
  EXPECT_TRUE(torch::equal(batch->tensor("image"), expected));
}

// The same roundings, bit for bit, and libtorch's names for every type.
TEST(DataLoader, CastsAsLibtorchWould) {
  const std::vector<std::pair<DType, torch::ScalarType>> types = {
      {DTYPE_FLOAT16, torch::kHalf},  {DTYPE_BFLOAT16, torch::kBFloat16},
      {DTYPE_FLOAT32, torch::kFloat}, {DTYPE_FLOAT64, torch::kDouble},
      {DTYPE_INT8, torch::kChar},     {DTYPE_INT16, torch::kShort},
      {DTYPE_UINT16, torch::kUInt16}, {DTYPE_INT32, torch::kInt},
      {DTYPE_UINT8, torch::kByte}};
  for (const auto& [dtype, type] : types) {
    const bool floating = at::isFloatingType(type);
    auto loader = Open(
        {.rows = 16,
         .edit_plan = [dtype = dtype, floating](OpenResponse& plan) {
           if (floating) {
             plan.mutable_tensors(0)->mutable_device_transform()->set_dtype(
                 dtype);
           }
           plan.mutable_tensors(1)->mutable_device_transform()->set_dtype(
               dtype);
         }});
    auto plain = Open({.rows = 16});
    for (int step = 0; step < 3; ++step) {
      auto batch = loader->Next();
      auto reference = plain->Next();
      ASSERT_TRUE(batch.ok() && reference.ok());
      ASSERT_EQ(batch->tensor("label").scalar_type(), type);
      EXPECT_TRUE(torch::equal(batch->tensor("label").to(torch::kLong),
                               reference->tensor("label")));
      if (!floating) continue;
      ASSERT_EQ(batch->tensor("image").scalar_type(), type);
      EXPECT_TRUE(torch::equal(batch->tensor("image"),
                               reference->tensor("image").to(type)));
    }
  }
}

TEST(DataLoader, KeepsASlotForTheStreamsThatABatchIsUsedOn) {
  for (const bool told : {false, true}) {
    auto device = std::make_shared<device::FakeDevice>(14);
    auto loader =
        internal::NewDataLoader(std::make_unique<device::FakeHostLoader>(
                                    device::FakeHostLoader::Options{
                                        .rows = 4, .steps = 8, .window = 8}),
                                device, {.device_prefetch = 1});
    ASSERT_TRUE(loader.ok()) << loader.status();
    Batch kept;  // a batch alone keeps no slot: its tensors do
    {
      auto batch = (*loader)->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      if (told) {
        batch->RecordStream(c10::Stream::unpack3(device::FakeDevice::kOther.id,
                                                 /*device_index=*/0,
                                                 c10::DeviceType::CPU));
      }
      kept = *batch;
      kept.tensors.clear();
    }
    for (int i = 0; i < 5; ++i) {
      auto batch = (*loader)->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
    }
    EXPECT_EQ(device->CopiesWaitForOther(), told);
    kept.RecordStream(c10::Stream(c10::Stream::DEFAULT, torch::kCPU));
    (*loader)->Close();
  }
  // On the CPU there is nothing to record.
  auto plain = Open({.rows = 4});
  auto batch = plain->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  batch->RecordStream(c10::Stream(c10::Stream::DEFAULT, torch::kCPU));
}

TEST(DataLoader, KeepsTensorsThatOutliveTheBatchAndTheLoader) {
  auto loader =
      Open({.rows = 4, .steps = 6, .window = 2}, {.device_prefetch = 4});
  std::vector<torch::Tensor> images;
  std::vector<torch::Tensor> copies;
  for (int i = 0; i < 6; ++i) {
    auto batch = loader->Next();  // labels let go of their slot each time
    ASSERT_TRUE(batch.ok()) << batch.status();
    images.push_back(batch->tensor("image").slice(0, 1, 3));
    copies.push_back(images.back().clone());
  }
  loader.reset();
  for (size_t i = 0; i < images.size(); ++i) {
    EXPECT_TRUE(torch::equal(images[i], copies[i]));
  }
}

TEST(DataLoader, UsesASlotAgainWhenItsLastTensorHasDied) {
  auto loader = Open({.rows = 4, .steps = 50, .window = 1});
  for (int i = 0; i < 50; ++i) {
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->tensor("sample_index")[0].item<int64_t>(), 4 * i);
  }
  EXPECT_TRUE(absl::IsOutOfRange(loader->Next().status()));
}

TEST(DataLoader, SaysThatTheCallerHoldsAllSlots) {
  DataLoader::Options options;
  options.device_prefetch = 1;
  options.next_timeout = absl::Milliseconds(10);
  auto loader = Open({.window = 8}, options);
  std::vector<Batch> held;
  absl::Status status;
  while (held.size() < 8 && status.ok()) {
    auto batch = loader->Next();
    status = batch.status();
    if (batch.ok()) held.push_back(*std::move(batch));
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("slots are held"));
}

TEST(DataLoader, KnowsThePositionAfterTheLastBatch) {
  auto loader = Open({.steps = 2, .epochs = 2});
  EXPECT_EQ(loader->position(), (Position{0, 0}));
  ASSERT_TRUE(loader->Next().ok());
  EXPECT_EQ(loader->position(), (Position{0, 1}));
  ASSERT_TRUE(loader->Next().ok());
  EXPECT_EQ(loader->position(), (Position{1, 0}));
  loader->Close();
  loader->Close();
  EXPECT_TRUE(absl::IsCancelled(loader->Next().status()));
}

TEST(DataLoader, WritesDownWhatItGaveOut) {
  for (const bool ahead : {false, true}) {
    const std::string path = absl::StrCat(::testing::TempDir(), "/loader-",
                                          ahead ? "ahead" : "inline", ".log");
    DataLoader::Options options;
    options.prepare_ahead = ahead;
    options.audit_file = path;
    options.audit_attempt = 7;
    options.rank = 0;
    auto loader = Open({.rows = 4, .steps = 6}, options);
    // What is prepared ahead and not given out is not in it.
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(loader->Next().ok());
    loader->Close();
    const auto file = audit::ReadAuditFile(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ(file->segments.size(), 1u);
    EXPECT_EQ(file->segments[0].records, 3u);
    EXPECT_EQ(file->segments[0].run.attempt(), 7u);
    uint64_t position = 0;
    ASSERT_TRUE(audit::ReadAuditRecords(file->segments[0], 0, 3,
                                        [&](const audit::AuditRecord& record) {
                                          EXPECT_EQ(record.samples, 4u);
                                          uint64_t sum = 0;
                                          for (int row = 0; row < 4; ++row) {
                                            sum += audit::SampleHash(
                                                0, position++);
                                          }
                                          EXPECT_EQ(record.sample_sum, sum);
                                        })
                    .ok());
  }
}

// Sent back, a job trains steps again, as after a restart: nothing is doubled.
// Sent forth, it has left some out, and the log says which.
TEST(DataLoader, WritesDownWhereItWasSent) {
  DataLoader::Options options;
  options.audit_file = ::testing::TempDir() + "/seek.log";
  options.audit_attempt = 7;
  auto loader = Open(
      {.rows = 4,
       .steps = 6,
       .epochs = 2,
       .edit_plan =
           [](OpenResponse& plan) {
             plan.set_samples_per_epoch(24);
             plan.mutable_resolved_spec()->add_sources()->set_dataset("digits");
           }},
      options);
  const auto take = [&loader](int batches) {
    for (int i = 0; i < batches; ++i) ASSERT_TRUE(loader->Next().ok());
  };
  const auto check = [&options] {
    const auto file = audit::ReadAuditFile(options.audit_file);
    EXPECT_TRUE(file.ok()) << file.status();
    auto result = audit::CheckAuditLogs({&*file, 1});
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  };
  take(4);
  ASSERT_TRUE(loader->Seek({0, 1}).ok());
  EXPECT_EQ(loader->position(), (Position{0, 1}));
  take(2);
  ASSERT_TRUE(loader->Seek({0, 2}).ok());
  take(4 + 1);  // to epoch 1
  EXPECT_EQ(loader->position(), (Position{1, 1}));
  audit::AuditResult result = check();
  EXPECT_EQ(result.problem_count, 0u) << result.problems[0];
  EXPECT_EQ(result.records, 11u);
  EXPECT_EQ(result.superseded, 4u);
  ASSERT_EQ(result.epochs.size(), 2u);
  EXPECT_EQ(result.epochs[0].proof, audit::AuditEpoch::kProved);
  EXPECT_EQ(result.epochs[1].proof, audit::AuditEpoch::kIncomplete);

  ASSERT_TRUE(loader->Seek({1, 4}).ok());
  auto batch = loader->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->position, (Position{1, 4}));
  EXPECT_EQ(batch->generation, 3u);
  EXPECT_EQ(batch->tensor("sample_index")[0].item<int64_t>(), 16);
  take(1);
  result = check();
  ASSERT_EQ(result.problem_count, 1u);
  EXPECT_THAT(result.problems[0],
              HasSubstr("lost: rank 0 of 1 did not receive epoch 1 step 1 to "
                        "epoch 1 step 3"));
  // When it goes back for them, all is well.
  ASSERT_TRUE(loader->Seek({1, 1}).ok());
  take(5);
  EXPECT_TRUE(absl::IsOutOfRange(loader->Next().status()));
  result = check();
  EXPECT_EQ(result.problem_count, 0u) << result.problems[0];
  EXPECT_EQ(result.epochs[1].proof, audit::AuditEpoch::kProved);
  loader->Close();
  EXPECT_TRUE(absl::IsCancelled(loader->Seek({0, 0})));
}

TEST(DataLoader, WantsToKnowWhichStartItWritesDown) {
  DataLoader::Options options;
  options.audit_file = ::testing::TempDir() + "/unstarted.log";
  auto loader = Open({.rows = 4}, options);
  EXPECT_TRUE(absl::IsFailedPrecondition(loader->Next().status()));
  ASSERT_TRUE(loader->StartAudit(1).ok());
  EXPECT_TRUE(loader->Next().ok());
  auto without = Open({.rows = 4});
  EXPECT_TRUE(absl::IsFailedPrecondition(without->StartAudit(1)));
}

TEST(DataLoader, ValidatesTheOptionsOfReceiving) {
  const auto open = [](auto change) {
    DataLoader::Options options;
    options.endpoint = "localhost:1";
    options.dataset = "digits";
    options.batch_size = 4;
    change(options);
    return std::string(DataLoader::Open(options).status().message());
  };
  using Options = DataLoader::Options;
  // The two were dropped beside a spec, and so was a spec without a source.
  const auto with_spec = [&](auto change) {
    return open([&](Options& o) {
      o.dataset.clear();
      o.batch_size = 0;
      o.spec.add_sources()->set_dataset("digits");
      o.spec.set_batch_size(4);
      change(o);
    });
  };
  EXPECT_THAT(with_spec([](Options& o) { o.batch_size = 8; }),
              HasSubstr("batch_size or seed are set"));
  EXPECT_THAT(with_spec([](Options& o) { o.seed = 8; }),
              HasSubstr("batch_size or seed are set"));
  EXPECT_THAT(open([](Options& o) { o.spec.set_preset("mnist"); }),
              HasSubstr("the spec has no sources"));
  EXPECT_THAT(open([](Options& o) { o.hedge_share = 2; }),
              HasSubstr("hedge_share=2 is outside the limits"));
  EXPECT_THAT(open([](Options& o) { o.hedge_floor = -absl::Seconds(1); }),
              HasSubstr("hedge_floor=-1s is outside the limits"));
  EXPECT_THAT(open([](Options& o) { o.step_timeout = absl::ZeroDuration(); }),
              HasSubstr("step_timeout=0 is outside the limits: give a time "
                        "above 0"));
  EXPECT_THAT(open([](Options& o) { o.device_prefetch = 0; }),
              HasSubstr("device_prefetch=0 is outside the limits"));
}

TEST(DataLoader, TheFormerNameOfRepeatBatchesCounts) {
  DataLoader::Options options;
  options.endpoint = "localhost:1";
  options.dataset = "digits";
  options.batch_size = 4;
  options.replay_batches = 2;
  options.audit_file = ::testing::TempDir() + "/repeats.log";
  EXPECT_THAT(std::string(DataLoader::Open(options).status().message()),
              HasSubstr("repeat_batches and audit_file"));
}

TEST(DataLoader, SaysWhereTheTimeWent) {
  auto loader = Open({.rows = 4});
  const DataLoader::Stats before = loader->stats();
  ASSERT_TRUE(loader->Next().ok());
  const DataLoader::Stats after = loader->stats();
  EXPECT_EQ(WhereTheTimeWent(before, after, 1e9),
            "waited 0 %: the trainer is the bottleneck");
}

}  // namespace
}  // namespace millrace
