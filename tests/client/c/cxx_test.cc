// The C++ face of the C interface (millrace.hpp): what it returns, what it
// throws, and how long its handles keep a batch. interface_test.cc has the
// behaviour of the functions that it calls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <locale>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "client/c/millrace.hpp"
#include "client/c/millrace_dlpack.h"
#include "client/prefetch/host_loader.h"
#include "tests/testing/digits.h"
#include "tests/testing/listener.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"

namespace millrace::c {
namespace {

using ::millrace::testing::DigitLabel;
using ::millrace::testing::ServerProcess;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSamples = 600;
constexpr uint64_t kBatch = 50;
constexpr uint64_t kSteps = kSamples / kBatch;

static_assert(!std::is_copy_constructible_v<BatchLoader>);
static_assert(std::is_nothrow_move_constructible_v<BatchLoader>);
static_assert(std::is_nothrow_move_constructible_v<BatchLoaderOptions>);
static_assert(std::is_copy_constructible_v<LoadedBatch>);
static_assert(std::is_copy_constructible_v<LoadedTensor>);
static_assert(std::is_base_of_v<std::runtime_error, LoadError>);

class CxxTest : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() { millrace_set_log_level("error", nullptr); }

  // Of ServiceTest::DigitsSpec(kBatch).
  static BatchLoaderOptions Digits(const std::string& endpoint) {
    BatchLoaderOptions options;
    options.Set("endpoint", endpoint)
        .Set("dataset", "digits")
        .Set("preset", std::string("mnist"))
        .Set("batch_size", kBatch)
        .Set("seed", 11);
    return options;
  }
  static std::unique_ptr<ServerProcess> ServeDigits() {
    return Serve({ServiceTest::Digits(kSamples)});
  }
  static std::string BytesOf(const LoadedBatch& batch) {
    return {static_cast<const char*>(batch.info().data), batch.info().bytes};
  }
  static std::string BytesOf(const LoadedTensor& tensor) {
    return {static_cast<const char*>(tensor.data()), tensor.bytes()};
  }
  // The status that `function` throws; the sentence has `words`.
  template <typename Function>
  static std::string Thrown(const Function& function,
                            const std::string& words) {
    try {
      function();
    } catch (const LoadError& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
      EXPECT_THAT(error.detail(), ::testing::StartsWith("{"));
      return error.status_name();
    }
    return "nothing";
  }
};

TEST_F(CxxTest, GivesEveryBatchOnceAndThenNone) {
  const auto server = ServeDigits();
  const std::vector<std::string> expected =
      ReceiveBytes(*Open(Options(server->address(), kBatch)), kSteps);
  BatchLoader loader(Digits(server->address()));
  for (uint64_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(loader.position().step, step);
    const std::optional<LoadedBatch> batch = loader.Next();
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(batch->position().epoch, 0u);
    EXPECT_EQ(batch->position().step, step);
    EXPECT_EQ(batch->info().rows, kBatch);
    EXPECT_EQ(BytesOf(*batch), expected[step]);
  }
  EXPECT_FALSE(loader.Next().has_value());
  EXPECT_FALSE(loader.Next().has_value());
  EXPECT_EQ(loader.position().epoch, 1u);
  loader.Seek({0, 3});
  EXPECT_EQ(BytesOf(loader.Next().value()), expected[3]);
}

TEST_F(CxxTest, OptionsTakeEveryKindOfValue) {
  BatchLoaderOptions options = Digits("127.0.0.1:1");
  options.Set("verify_payload", false)
      .Set("open_timeout", 2.5)
      .Set("start_epoch", uint64_t{18446744073709551615u})
      .Set("window", int8_t{8})
      .Set("pipeline_name", "text");
  options.Validate();
  EXPECT_EQ(Thrown([&] { options.Set("verify_payload", 7); },
                   "option verify_payload=7"),
            "INVALID_ARGUMENT");
  EXPECT_EQ(Thrown([&] { options.Set("windw", 8); }, "did you mean window?"),
            "INVALID_ARGUMENT");
  EXPECT_EQ(Thrown([&] { options.Set("dataset", std::string("a\0b", 3)); },
                   "option dataset: the value has a 0 byte"),
            "INVALID_ARGUMENT");
  options.Validate();  // nothing has changed
  BatchLoaderOptions moved = std::move(options);
  moved.Set("world_size", 3);
  EXPECT_EQ(Thrown([&] { moved.Validate(); }, "shared equally by 3 ranks"),
            "INVALID_ARGUMENT");
  EXPECT_EQ(
      Thrown([&] { BatchLoader loader(moved); }, "shared equally by 3 ranks"),
      "INVALID_ARGUMENT");
}

// A program may have set a locale that writes 2,5.
TEST_F(CxxTest, NumbersDoNotDependOnTheLocale) {
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
  };
  const std::locale before =
      std::locale::global(std::locale(std::locale(), new Comma));
  BatchLoaderOptions options;
  EXPECT_EQ(Thrown([&] { options.Set("hedge_share", 0.25); }, ""), "nothing");
  std::locale::global(before);
}

TEST_F(CxxTest, ErrorsHaveTheStatusAndTheSentence) {
  const auto server = ServeDigits();
  BatchLoaderOptions options = Digits(server->address());
  options.Set("dataset", "letters");
  BatchLoader loader(options);
  EXPECT_EQ(Thrown([&] { loader.WaitOpen(); }, "letters"), "NOT_FOUND");
  EXPECT_EQ(Thrown([&] { loader.Next(); }, "letters"), "NOT_FOUND");
  EXPECT_EQ(Thrown([&] { loader.Seek({0, 1}); }, ""), "NOT_FOUND");
  EXPECT_EQ(Thrown([&] { loader.plan(); }, ""), "NOT_FOUND");
}

TEST_F(CxxTest, WaitsAsLongAsItIsTold) {
  const Listener silent;
  ASSERT_TRUE(silent.good());
  BatchLoaderOptions options = Digits(silent.address());
  options.Set("open_timeout", "1h");
  BatchLoader loader(options);
  std::optional<LoadedBatch> batch;
  EXPECT_FALSE(loader.WaitOpenWithin(milliseconds(1)));
  EXPECT_FALSE(loader.NextWithin(milliseconds(1), &batch));
  // A time that is over is not "no limit".
  EXPECT_FALSE(loader.NextWithin(milliseconds(-1), &batch));
  EXPECT_FALSE(loader.WaitOpenWithin(milliseconds(-1)));
  EXPECT_FALSE(batch.has_value());
  std::thread waiting([&] {
    EXPECT_EQ(Thrown([&] { loader.Next(); }, "closed"), "CANCELLED");
  });
  loader.Close();
  waiting.join();
}

TEST_F(CxxTest, NextWithinTellsTheEndFromATimeThatIsOver) {
  const auto server = ServeDigits();
  BatchLoader loader(Digits(server->address()));
  uint64_t batches = 0;
  std::optional<LoadedBatch> batch;
  while (true) {
    if (!loader.NextWithin(milliseconds(5), &batch)) {
      EXPECT_FALSE(batch.has_value());
      continue;
    }
    if (!batch.has_value()) break;
    ++batches;
  }
  EXPECT_EQ(batches, kSteps);
}

TEST_F(CxxTest, TensorsHaveNamesShapesAndWhatIsLeftToTheClient) {
  const auto server = ServeDigits();
  BatchLoaderOptions options = Digits(server->address());
  options.Set("shuffle", "sequential");
  BatchLoader loader(options);
  const LoadedBatch batch = loader.Next().value();
  EXPECT_TRUE(batch.has("label"));
  EXPECT_FALSE(batch.has("mask"));
  EXPECT_EQ(Thrown([&] { batch.tensor("mask"); }, "it has image, label"),
            "NOT_FOUND");
  EXPECT_EQ(Thrown([&] { batch.tensor(batch.size()); }, "no tensor number"),
            "INVALID_ARGUMENT");
  const LoadedTensor image = batch.tensor(0);
  EXPECT_EQ(image.name(), "image");
  EXPECT_EQ(image.info().dtype, MILLRACE_DTYPE_UINT8);
  EXPECT_THAT(image.shape(), ElementsAre(kBatch, 28, 28, 1));
  EXPECT_THAT(image.strides(), ElementsAre(784, 28, 1, 1));
  EXPECT_EQ(image.bytes(), kBatch * 784);
  EXPECT_EQ(image.info().cast_dtype, MILLRACE_DTYPE_FLOAT32);
  EXPECT_EQ(Thrown([&] { image.Cast(nullptr, 1); }, "it needs 156800"),
            "INVALID_ARGUMENT");

  const LoadedTensor label = batch.tensor("label");
  ASSERT_EQ(label.info().cast_dtype, MILLRACE_DTYPE_INT64);
  std::vector<int64_t> labels(kBatch);
  label.Cast(labels.data(), labels.size() * sizeof(labels[0]));
  for (uint64_t i = 0; i < kBatch; ++i) {
    EXPECT_EQ(labels[i], DigitLabel(static_cast<int>(i)));
  }
  EXPECT_EQ(Thrown([&] { batch.tensor("valid").Cast(labels.data(), 8); },
                   "leaves nothing to compute for tensor valid"),
            "FAILED_PRECONDITION");
}

TEST_F(CxxTest, HandlesAndExportsOutliveTheLoaderAndTheServer) {
  auto server = ServeDigits();
  std::optional<BatchLoader> loader(Digits(server->address()));
  std::optional<LoadedBatch> batch = loader->Next();
  std::optional<LoadedTensor> image = batch->tensor("image");
  const std::string bytes = BytesOf(*image);
  DLManagedTensorVersioned* exported = image->ToDLPack();
  DLManagedTensor* old = image->ToOldDLPack();
  EXPECT_EQ(exported->dl_tensor.data, image->data());
  batch.reset();
  loader.reset();
  server.reset();
  EXPECT_EQ(BytesOf(*image), bytes);
  image.reset();
  EXPECT_EQ(std::string(static_cast<const char*>(exported->dl_tensor.data),
                        bytes.size()),
            bytes);
  exported->deleter(exported);
  EXPECT_EQ(
      std::string(static_cast<const char*>(old->dl_tensor.data), bytes.size()),
      bytes);
  old->deleter(old);
}

TEST_F(CxxTest, TheMemoryOfABatchIsReusedAfterItsLastHandle) {
  const auto server = ServeDigits();
  BatchLoaderOptions options = Digits(server->address());
  options.Set("window", 2);
  BatchLoader loader(options);
  std::vector<LoadedTensor> held;
  held.push_back(loader.Next()->tensor("label"));
  held.push_back(loader.Next()->tensor("label"));
  const LoadedTensor copy = held[0];
  std::optional<LoadedBatch> batch;
  EXPECT_FALSE(loader.NextWithin(milliseconds(300), &batch));
  held.erase(held.begin());
  EXPECT_FALSE(loader.NextWithin(milliseconds(300), &batch));
  held.clear();
  EXPECT_EQ(loader.Next().value().position().step, 2u);
}

TEST_F(CxxTest, TellsThePlanTheCountersAndTheDraws) {
  const auto server = ServeDigits();
  BatchLoader first(Digits(server->address()));
  BatchLoader loader = std::move(first);
  loader.WaitOpen();
  EXPECT_TRUE(loader.WaitOpenWithin(milliseconds(0)));
  EXPECT_EQ(loader.plan().steps_per_epoch, kSteps);
  EXPECT_THAT(loader.plan().json, HasSubstr("\"tensors\""));
  loader.Next();
  EXPECT_THAT(loader.Stats(), HasSubstr("\"batches\": 1"));
  EXPECT_FALSE(loader.WhereTheTimeWent().empty());
  EXPECT_THAT(loader.Explain({0, 1}), HasSubstr("\"samples\""));
  EXPECT_EQ(Thrown([&] { loader.Explain({0, kSteps}); }, ""), "OUT_OF_RANGE");
  EXPECT_EQ(loader.Wanted(), 0u);
  EXPECT_EQ(Thrown([&] { loader.Offer(&first, 8); }, "memory=own"),
            "FAILED_PRECONDITION");
}

TEST_F(CxxTest, ReceivesIntoOfferedMemory) {
  const auto server = ServeDigits();
  BatchLoaderOptions options = Digits(server->address());
  options.Set("memory", "offered");
  BatchLoader loader(options);
  loader.WaitOpen();
  const uint64_t bytes = (loader.plan().max_batch_bytes + 63) / 64 * 64;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::vector<std::unique_ptr<void, Free>> buffers;
  for (uint32_t left = loader.Wanted(); left > 0; --left) {
    buffers.emplace_back(std::aligned_alloc(64, bytes));
    loader.Offer(buffers.back().get(), bytes);
  }
  ASSERT_FALSE(buffers.empty());
  const LoadedBatch batch = loader.Next().value();
  EXPECT_TRUE(std::any_of(
      buffers.begin(), buffers.end(),
      [&](const auto& buffer) { return buffer.get() == batch.info().data; }));
  loader.Close();
}

}  // namespace
}  // namespace millrace::c
