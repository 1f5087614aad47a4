// The C interface against real servers: the batches are those of HostLoader,
// waits end when they should, and every object may die before the others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/c/millrace.h"
#include "client/c/millrace_dlpack.h"
#include "client/prefetch/host_loader.h"
#include "tests/testing/listener.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"

namespace millrace::c {
namespace {

using ::millrace::testing::ServerProcess;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSamples = 1000;
constexpr uint64_t kBatch = 50;
constexpr uint64_t kSteps = kSamples / kBatch;

using Settings = std::map<std::string, std::string>;

struct FreeOptions {
  void operator()(millrace_options* options) const {
    millrace_options_free(options);
  }
};
struct FreeLoader {
  void operator()(millrace_loader* loader) const {
    millrace_loader_free(loader);
  }
};
struct FreeBatch {
  void operator()(millrace_batch* batch) const { millrace_batch_free(batch); }
};
using OptionList = std::unique_ptr<millrace_options, FreeOptions>;
using Loader = std::unique_ptr<millrace_loader, FreeLoader>;
using Batch = std::unique_ptr<millrace_batch, FreeBatch>;

// Takes the error; "" without one.
std::string Text(millrace_error* error) {
  if (error == nullptr) return "";
  const std::string text = millrace_error_message(error);
  millrace_error_free(error);
  return text;
}

// A free 64-byte aligned buffer.
struct FreeBuffer {
  void operator()(uint8_t* buffer) const { std::free(buffer); }
};
using Buffer = std::unique_ptr<uint8_t, FreeBuffer>;
Buffer NewBuffer(uint64_t bytes) {
  return Buffer(
      static_cast<uint8_t*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
}

class InterfaceTest : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() { millrace_set_log_level("error", nullptr); }

  // Of DigitsSpec(kBatch).
  static Settings DigitsSettings(const std::string& endpoint) {
    return {{"endpoint", endpoint},
            {"dataset", "digits"},
            {"preset", "mnist"},
            {"batch_size", absl::StrCat(kBatch)},
            {"seed", "11"}};
  }

  static OptionList Make(const Settings& settings) {
    OptionList options(millrace_options_new());
    for (const auto& [name, value] : settings) {
      millrace_error* error = nullptr;
      EXPECT_EQ(millrace_options_set(options.get(), name.c_str(), value.c_str(),
                                     &error),
                MILLRACE_STATUS_OK)
          << Text(error);
    }
    return options;
  }

  // Opening.
  static Loader Begin(const Settings& settings) {
    millrace_loader* loader = nullptr;
    millrace_error* error = nullptr;
    EXPECT_EQ(millrace_loader_open(Make(settings).get(), &loader, &error),
              MILLRACE_STATUS_OK)
        << Text(error);
    return Loader(loader);
  }
  // Open.
  static Loader Open(const Settings& settings) {
    Loader loader = Begin(settings);
    millrace_error* error = nullptr;
    EXPECT_EQ(millrace_loader_wait_open(loader.get(), -1, &error),
              MILLRACE_STATUS_OK)
        << Text(error);
    return loader;
  }

  static Batch Next(millrace_loader* loader) {
    millrace_batch* batch = nullptr;
    millrace_error* error = nullptr;
    EXPECT_EQ(millrace_loader_next(loader, -1, &batch, &error),
              MILLRACE_STATUS_OK)
        << Text(error);
    return Batch(batch);
  }
  // The status of a next() that gives no batch, and the words of its error.
  static millrace_status NoNext(millrace_loader* loader, int64_t timeout_ms,
                                std::string* words = nullptr) {
    auto* batch = reinterpret_cast<millrace_batch*>(&loader);
    auto* error = reinterpret_cast<millrace_error*>(&loader);
    const millrace_status status =
        millrace_loader_next(loader, timeout_ms, &batch, &error);
    EXPECT_EQ(batch, nullptr);
    EXPECT_EQ(error == nullptr, status == MILLRACE_STATUS_OK ||
                                    status == MILLRACE_STATUS_NOT_READY);
    const std::string text = Text(error);
    if (words != nullptr) *words = text;
    return status;
  }

  // The same without a limit, as soon as no other thread is inside.
  static millrace_status NoNextAtLast(millrace_loader* loader) {
    millrace_status status;
    do {
      status = NoNext(loader, -1);
    } while (status == MILLRACE_STATUS_FAILED_PRECONDITION);
    return status;
  }

  static millrace_batch_info InfoOf(const Batch& batch) {
    millrace_batch_info info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(millrace_batch_get_info(batch.get(), &info, nullptr),
              MILLRACE_STATUS_OK);
    return info;
  }
  static millrace_plan PlanOf(const Loader& loader) {
    millrace_plan plan = {};
    plan.struct_size = sizeof(plan);
    EXPECT_EQ(millrace_loader_get_plan(loader.get(), &plan, nullptr),
              MILLRACE_STATUS_OK);
    return plan;
  }
  static std::string BytesOfC(const Batch& batch) {
    const millrace_batch_info info = InfoOf(batch);
    return std::string(static_cast<const char*>(info.data), info.bytes);
  }
  // "epoch:step".
  static std::string PositionOf(const Loader& loader) {
    uint64_t epoch = 0;
    uint64_t step = 0;
    EXPECT_EQ(millrace_loader_position(loader.get(), &epoch, &step, nullptr),
              MILLRACE_STATUS_OK);
    return absl::StrCat(epoch, ":", step);
  }
  // The payloads of an epoch, from a HostLoader.
  static std::vector<std::string> Expected(const std::string& endpoint) {
    const auto loader =
        ServiceTest::Open(ServiceTest::Options(endpoint, kBatch));
    return ReceiveBytes(*loader, kSteps);
  }
  // The JSON or text that `function` returns.
  template <typename Function, typename... Arguments>
  static std::string TextOf(Function function, const Arguments&... arguments) {
    char* text = nullptr;
    millrace_error* error = nullptr;
    EXPECT_EQ(function(arguments..., &text, &error), MILLRACE_STATUS_OK)
        << Text(error);
    const std::string copy = text == nullptr ? "" : text;
    millrace_text_free(text);
    return copy;
  }
};

TEST_F(InterfaceTest, GivesTheBatchesOfHostLoader) {
  const auto server = Serve({Digits(kSamples)});
  const std::vector<std::string> expected = Expected(server->address());
  const Loader loader = Open(DigitsSettings(server->address()));
  for (uint64_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(PositionOf(loader), absl::StrCat("0:", step));
    const Batch batch = Next(loader.get());
    ASSERT_NE(batch, nullptr);
    const millrace_batch_info info = InfoOf(batch);
    EXPECT_EQ(info.epoch, 0);
    EXPECT_EQ(info.step, step);
    EXPECT_EQ(info.rows, kBatch);
    EXPECT_EQ(info.local_valid, kBatch);
    EXPECT_EQ(info.global_valid, kBatch);
    EXPECT_EQ(info.first_position, step * kBatch);
    EXPECT_NE(info.payload_xxh3, 0);
    EXPECT_EQ(BytesOfC(batch), expected[step]);
    for (uint32_t i = 0; i < info.tensor_count; ++i) {
      millrace_tensor tensor = {};
      tensor.struct_size = sizeof(tensor);
      ASSERT_EQ(millrace_batch_get_tensor(batch.get(), i, &tensor, nullptr),
                MILLRACE_STATUS_OK);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % 64, 0);
      EXPECT_EQ(tensor.shape[0], kBatch);
    }
  }
  std::string words;
  EXPECT_EQ(NoNext(loader.get(), -1, &words), MILLRACE_STATUS_OUT_OF_RANGE);
  EXPECT_THAT(words, HasSubstr("were delivered"));
  EXPECT_EQ(PositionOf(loader), "1:0");
}

TEST_F(InterfaceTest, TellsThePlanTheCountersAndWhereTheTimeWent) {
  const auto server = Serve({Digits(kSamples)});
  const Loader loader = Open(DigitsSettings(server->address()));
  const millrace_plan plan = PlanOf(loader);
  EXPECT_EQ(plan.steps_per_epoch, kSteps);
  EXPECT_EQ(plan.samples_per_epoch, kSamples);
  EXPECT_EQ(plan.dropped_per_epoch, 0);
  EXPECT_EQ(plan.batch_size, kBatch);
  EXPECT_EQ(std::strlen(plan.plan_hash) % 2, 0);
  EXPECT_GT(std::strlen(plan.fingerprint), 0);
  EXPECT_THAT(plan.json,
              AllOf(HasSubstr("\"steps_per_epoch\": 20"),
                    HasSubstr("{\"name\": \"image\", \"dtype\": \"uint8\", "
                              "\"sample_shape\": [28, 28, 1]"),
                    HasSubstr("\"view\": \"channels_first\""),
                    HasSubstr("\"cast\": {\"dtype\": \"float32\", \"scale\": "
                              "0.00392156886"),
                    HasSubstr("\"class_names\": ["),
                    HasSubstr("\"name\": \"sample_index\""),
                    HasSubstr("\"pipeline\": \"spec_version: 1 ")));
  EXPECT_GE(plan.max_batch_bytes, kBatch * 28 * 28);
  for (int i = 0; i < 3; ++i) Next(loader.get());
  EXPECT_THAT(
      TextOf(millrace_loader_stats, loader.get()),
      AllOf(HasSubstr("{\"batches\": 3, \"samples\": 150, "),
            HasSubstr(absl::StrCat("{\"address\": \"", server->address()))));
  EXPECT_NE(TextOf(millrace_loader_where_the_time_went, loader.get()), "");
  // The loader of a checkpoint.
  Settings settings = DigitsSettings(server->address());
  settings["expected_plan_hash"] = plan.plan_hash;
  settings["expected_fingerprint"] = plan.fingerprint;
  EXPECT_NE(Next(Open(settings).get()), nullptr);
  settings["seed"] = "12";
  const Loader other = Begin(settings);
  millrace_error* error = nullptr;
  EXPECT_EQ(millrace_loader_wait_open(other.get(), -1, &error),
            MILLRACE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(Text(error), HasSubstr("plan"));
}

TEST_F(InterfaceTest, ExplainsABatch) {
  const auto server = Serve({Digits(kSamples)});
  const Loader loader = Open(DigitsSettings(server->address()));
  const std::string json = TextOf(millrace_loader_explain, loader.get(),
                                  uint64_t{0}, uint64_t{7}, int64_t{-1});
  EXPECT_THAT(json, AllOf(HasSubstr("\"epoch\": 0, \"step\": 7, \"rows\": 50"),
                          HasSubstr("{\"row\": 49, \"position\": 399, "
                                    "\"sample\": "),
                          HasSubstr("\"dataset\": \"digits\"")));
  char* text = nullptr;
  millrace_error* error = nullptr;
  EXPECT_EQ(millrace_loader_explain(loader.get(), 0, kSteps, -1, &text, &error),
            MILLRACE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(text, nullptr);
  EXPECT_NE(Text(error), "");
}

TEST_F(InterfaceTest, ExplainEndsWhenItIsCancelledOrTheLoaderIsClosed) {
  // A server that is stopped does not answer. An explanation waits up to 60 s.
  const auto server = Serve({Digits(kSamples)});
  const Loader loader = Open(DigitsSettings(server->address()));
  ASSERT_EQ(millrace_loader_cancel_explain(loader.get(), nullptr),
            MILLRACE_STATUS_OK)
      << "nothing waits";
  server->process().Signal(SIGSTOP);
  const auto ends = [&](const std::function<void()>& end) {
    std::atomic<bool> done{false};
    char* text = nullptr;
    millrace_error* error = nullptr;
    std::thread waiter([&] {
      EXPECT_EQ(millrace_loader_explain(loader.get(), 0, 7, -1, &text, &error),
                MILLRACE_STATUS_CANCELLED);
      done.store(true);
    });
    absl::SleepFor(absl::Milliseconds(200));
    EXPECT_FALSE(done.load()) << "it does not wait";
    const absl::Time began = absl::Now();
    // Again and again: the thread may not have begun to wait.
    while (!done.load() && absl::Now() - began < absl::Seconds(20)) {
      end();
      absl::SleepFor(absl::Milliseconds(5));
    }
    const absl::Duration took = absl::Now() - began;
    waiter.join();
    EXPECT_LT(took, absl::Seconds(5));
    EXPECT_EQ(text, nullptr);
    return Text(error);
  };
  EXPECT_EQ(
      ends([&] { millrace_loader_cancel_explain(loader.get(), nullptr); }),
      "the request was cancelled");
  server->process().Signal(SIGCONT);
  EXPECT_THAT(TextOf(millrace_loader_explain, loader.get(), uint64_t{0},
                     uint64_t{7}, int64_t{-1}),
              HasSubstr("\"step\": 7"))
      << "the loader stays open";
  server->process().Signal(SIGSTOP);
  EXPECT_EQ(ends([&] { millrace_loader_close(loader.get()); }),
            "the loader was closed");
  server->process().Signal(SIGCONT);
}

TEST_F(InterfaceTest, TheDatasetsOwnPresetIsTheDefault) {
  const auto server = Serve({Digits(kSamples)});
  Settings settings = DigitsSettings(server->address());
  settings.erase("preset");
  const Loader loader = Open(settings);
  EXPECT_THAT(PlanOf(loader).json, HasSubstr("\"name\": \"image\""));
  EXPECT_NE(Next(loader.get()), nullptr);
}

TEST_F(InterfaceTest, SeeksAndResumes) {
  const auto server = Serve({Digits(kSamples)});
  const std::vector<std::string> expected = Expected(server->address());
  Settings settings = DigitsSettings(server->address());
  settings["start_step"] = "17";
  const Loader loader = Begin(settings);
  EXPECT_EQ(PositionOf(loader), "0:17") << "also while it opens";
  EXPECT_EQ(BytesOfC(Next(loader.get())), expected[17]);
  ASSERT_EQ(millrace_loader_seek(loader.get(), 0, 3, nullptr),
            MILLRACE_STATUS_OK);
  EXPECT_EQ(PositionOf(loader), "0:3");
  const Batch batch = Next(loader.get());
  EXPECT_EQ(BytesOfC(batch), expected[3]);
  EXPECT_EQ(InfoOf(batch).generation, 1);
  // Past the end, and back from there.
  ASSERT_EQ(millrace_loader_seek(loader.get(), 1, 0, nullptr),
            MILLRACE_STATUS_OK);
  EXPECT_EQ(NoNext(loader.get(), -1), MILLRACE_STATUS_OUT_OF_RANGE);
  millrace_error* error = nullptr;
  EXPECT_EQ(millrace_loader_seek(loader.get(), 0, kSteps + 1, &error),
            MILLRACE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(Text(error), HasSubstr("an epoch has 20 steps"));
  ASSERT_EQ(millrace_loader_seek(loader.get(), 0, kSteps - 1, nullptr),
            MILLRACE_STATUS_OK);
  EXPECT_EQ(BytesOfC(Next(loader.get())), expected[kSteps - 1]);
}

TEST_F(InterfaceTest, RanksShareABatch) {
  const auto server = Serve({Digits(kSamples)});
  Settings settings = DigitsSettings(server->address());
  settings["world_size"] = "2";
  settings["rank"] = "1";
  const Loader loader = Open(settings);
  const millrace_batch_info info = InfoOf(Next(loader.get()));
  EXPECT_EQ(info.rows, kBatch / 2);
  EXPECT_EQ(info.first_position, kBatch / 2);
  EXPECT_EQ(info.global_valid, kBatch);
}

TEST_F(InterfaceTest, ErrorsOfOpeningComeFromEveryFunctionThatWaits) {
  const auto server = Serve({Digits(kSamples)});
  Settings settings = DigitsSettings(server->address());
  settings["dataset"] = "letters";
  const Loader loader = Begin(settings);
  millrace_error* error = nullptr;
  EXPECT_EQ(millrace_loader_wait_open(loader.get(), -1, &error),
            MILLRACE_STATUS_NOT_FOUND);
  EXPECT_STREQ(millrace_error_detail(error),
               "{\"stage\": \"plan\", \"dataset\": \"letters\"}");
  EXPECT_THAT(Text(error), HasSubstr("letters"));
  std::string words;
  EXPECT_EQ(NoNext(loader.get(), 0, &words), MILLRACE_STATUS_NOT_FOUND);
  EXPECT_THAT(words, HasSubstr("letters"));
  EXPECT_EQ(millrace_loader_seek(loader.get(), 0, 0, nullptr),
            MILLRACE_STATUS_NOT_FOUND);
  EXPECT_THAT(TextOf(millrace_loader_stats, loader.get()),
              HasSubstr("\"batches\": 0"));
}

TEST_F(InterfaceTest, AWaitForASilentServerEndsInTimeAndByClose) {
  const Listener silent;
  ASSERT_TRUE(silent.good());
  Settings settings = DigitsSettings(silent.address());
  settings["open_timeout"] = "1h";
  const Loader loader = Begin(settings);
  EXPECT_EQ(millrace_loader_wait_open(loader.get(), 0, nullptr),
            MILLRACE_STATUS_NOT_READY);
  const absl::Time begun = absl::Now();
  EXPECT_EQ(millrace_loader_wait_open(loader.get(), 50, nullptr),
            MILLRACE_STATUS_NOT_READY);
  EXPECT_EQ(NoNext(loader.get(), 50), MILLRACE_STATUS_NOT_READY);
  EXPECT_GE(absl::Now() - begun, absl::Milliseconds(100));
  // Needs the plan.
  millrace_error* error = nullptr;
  EXPECT_EQ(millrace_loader_seek(loader.get(), 0, 0, &error),
            MILLRACE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(Text(error), HasSubstr("not open yet"));
  std::atomic<bool> closed{false};
  std::thread waiting([&] {
    EXPECT_EQ(NoNext(loader.get(), -1), MILLRACE_STATUS_CANCELLED);
    EXPECT_TRUE(closed.load());
  });
  absl::SleepFor(absl::Milliseconds(20));
  closed.store(true);
  millrace_loader_close(loader.get());
  waiting.join();
  EXPECT_LT(absl::Now() - begun, absl::Seconds(20)) << "not the open_timeout";
  EXPECT_EQ(NoNext(loader.get(), -1), MILLRACE_STATUS_CANCELLED);
  EXPECT_EQ(millrace_loader_wait_open(loader.get(), -1, nullptr),
            MILLRACE_STATUS_CANCELLED);
  millrace_loader_close(loader.get());
}

TEST_F(InterfaceTest, ANextThatWaitsForAStoppedServerIsCancelled) {
  const auto server = Serve({Digits(kSamples)});
  Settings settings = DigitsSettings(server->address());
  settings["window"] = "2";
  settings["epochs"] = "0";
  const Loader loader = Open(settings);
  Next(loader.get());
  server->process().Signal(SIGSTOP);
  // What had arrived before.
  millrace_status status = MILLRACE_STATUS_OK;
  for (int i = 0; i < 10 && status == MILLRACE_STATUS_OK; ++i) {
    millrace_batch* batch = nullptr;
    status = millrace_loader_next(loader.get(), 100, &batch, nullptr);
    millrace_batch_free(batch);
  }
  EXPECT_EQ(status, MILLRACE_STATUS_NOT_READY);
  EXPECT_EQ(NoNext(loader.get(), 0), MILLRACE_STATUS_NOT_READY);
  std::thread waiting([&] {
    EXPECT_EQ(NoNextAtLast(loader.get()), MILLRACE_STATUS_CANCELLED);
  });
  absl::SleepFor(absl::Milliseconds(20));
  // A second consumer is refused, and changes nothing.
  std::string words;
  EXPECT_TRUE(Soon([&] {
    return NoNext(loader.get(), 0, &words) ==
           MILLRACE_STATUS_FAILED_PRECONDITION;
  }));
  EXPECT_THAT(words, HasSubstr("another thread is in millrace_loader_next()"));
  millrace_loader_close(loader.get());
  waiting.join();
  server->process().Signal(SIGCONT);
}

TEST_F(InterfaceTest, SlicesOfAWaitShareTheTimeoutOfNext) {
  const auto server = Serve({Digits(kSamples)});
  Settings settings = DigitsSettings(server->address());
  settings["window"] = "2";
  settings["epochs"] = "0";
  settings["next_timeout"] = "400ms";
  const Loader loader = Open(settings);
  Next(loader.get());
  server->process().Signal(SIGSTOP);
  int slices = 0;
  millrace_status status = MILLRACE_STATUS_OK;
  std::string words;
  while (status == MILLRACE_STATUS_OK || status == MILLRACE_STATUS_NOT_READY) {
    millrace_batch* batch = nullptr;
    millrace_error* error = nullptr;
    status = millrace_loader_next(loader.get(), 50, &batch, &error);
    millrace_batch_free(batch);
    words = Text(error);
    ASSERT_LT(++slices, 100);
  }
  EXPECT_EQ(status, MILLRACE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_THAT(words, HasSubstr("no batch within "));
  EXPECT_GE(slices, 4);
  // It goes on where it was.
  server->process().Signal(SIGCONT);
  EXPECT_NE(Next(loader.get()), nullptr);
}

TEST_F(InterfaceTest, TensorsOutliveTheBatchTheLoaderAndTheServer) {
  const auto server = Serve({Digits(kSamples)});
  const std::vector<std::string> expected = Expected(server->address());
  std::vector<DLManagedTensorVersioned*> images;
  {
    Settings settings = DigitsSettings(server->address());
    settings["window"] = "4";
    const Loader loader = Open(settings);
    for (int step = 0; step < 4; ++step) {
      const Batch batch = Next(loader.get());
      size_t index = 0;
      ASSERT_EQ(
          millrace_batch_find_tensor(batch.get(), "image", &index, nullptr),
          MILLRACE_STATUS_OK);
      ASSERT_EQ(millrace_batch_dlpack_versioned(
                    batch.get(), index, &images.emplace_back(), nullptr),
                MILLRACE_STATUS_OK);
    }
    // Every slot is held.
    EXPECT_EQ(NoNext(loader.get(), 100), MILLRACE_STATUS_NOT_READY);
    images[1]->deleter(images[1]);
    EXPECT_NE(Next(loader.get()), nullptr) << "a slot came back";
  }
  EXPECT_EQ(server->Stop(), 0);
  for (const size_t step : {3, 0, 2}) {
    const DLTensor& image = images[step]->dl_tensor;
    EXPECT_EQ(std::string(static_cast<const char*>(image.data), kBatch * 784),
              expected[step].substr(0, kBatch * 784));
    images[step]->deleter(images[step]);
  }
}

TEST_F(InterfaceTest, ReceivesIntoMemoryThatTheCallerOffers) {
  const auto server = Serve({Digits(kSamples)});
  const std::vector<std::string> expected = Expected(server->address());
  Settings settings = DigitsSettings(server->address());
  settings["memory"] = "offered";
  settings["next_timeout"] = "300ms";
  const Loader loader = Open(settings);
  const uint64_t bytes = PlanOf(loader).max_batch_bytes;
  // Nobody has offered anything.
  std::string words;
  EXPECT_EQ(NoNext(loader.get(), -1, &words),
            MILLRACE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_THAT(words, HasSubstr("has offered no memory"));
  std::map<void*, Buffer> lent;
  std::vector<Buffer> full;
  std::vector<Batch> batches;
  for (uint64_t step = 0; step < kSteps; ++step) {
    uint32_t wanted = 0;
    ASSERT_EQ(millrace_loader_wanted(loader.get(), &wanted, nullptr),
              MILLRACE_STATUS_OK);
    EXPECT_GT(wanted, 0);
    for (; wanted > 0; --wanted) {
      Buffer buffer = NewBuffer(bytes);
      millrace_error* error = nullptr;
      ASSERT_EQ(
          millrace_loader_offer(loader.get(), buffer.get(), bytes, &error),
          MILLRACE_STATUS_OK)
          << Text(error);
      lent[buffer.get()] = std::move(buffer);
    }
    Batch batch = Next(loader.get());
    ASSERT_NE(batch, nullptr);
    const auto place = lent.find(InfoOf(batch).data);
    ASSERT_NE(place, lent.end()) << "in no memory that was offered";
    full.push_back(std::move(place->second));
    lent.erase(place);
    // Some batches are freed at once: that gives their memory to nobody.
    if (step % 2 == 0) batches.push_back(std::move(batch));
  }
  EXPECT_EQ(NoNext(loader.get(), -1), MILLRACE_STATUS_OUT_OF_RANGE);
  for (uint64_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(full[step].get()),
                          expected[step].size()),
              expected[step]);
  }
  millrace_loader_close(loader.get());
  // Now it is the caller's.
  for (auto& [data, buffer] : lent) std::memset(data, 0xee, bytes);
  EXPECT_EQ(millrace_loader_offer(loader.get(), full[0].get(), bytes, nullptr),
            MILLRACE_STATUS_CANCELLED);
}

TEST_F(InterfaceTest, BatchesInSharedMemoryComeInPlaceAndAreMarked) {
  constexpr uint64_t kEpochs = 3;
  const auto server = Serve({Digits(kSamples)});
  Settings settings = DigitsSettings(server->address());
  settings["epochs"] = absl::StrCat(kEpochs);
  std::vector<std::string> expected;
  const Loader remote = Open(settings);
  for (uint64_t step = 0; step < kEpochs * kSteps; ++step) {
    expected.push_back(BytesOfC(Next(remote.get())));
  }
  settings["same_host"] = "require";
  settings["read_only"] = "true";
  // The first call asks for the memory, so its batches come over the network.
  settings["initial_window"] = "2";
  std::vector<DLManagedTensorVersioned*> images;
  {
    const Loader loader = Open(settings);
    for (const std::string& payload : expected) {
      const Batch batch = Next(loader.get());
      EXPECT_EQ(BytesOfC(batch), payload);
      ASSERT_EQ(millrace_batch_dlpack_versioned(
                    batch.get(), 0, &images.emplace_back(), nullptr),
                MILLRACE_STATUS_OK);
      EXPECT_EQ(images.back()->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
    }
    EXPECT_THAT(TextOf(millrace_loader_stats, loader.get()),
                Not(HasSubstr("\"shared_batches\": 0,")));
  }
  // The server is gone; its memory lives as long as the tensors.
  Kill(*server);
  for (size_t i = 0; i < images.size(); ++i) {
    EXPECT_EQ(std::string(static_cast<const char*>(images[i]->dl_tensor.data),
                          kBatch * 784),
              expected[i].substr(0, kBatch * 784));
    images[i]->deleter(images[i]);
  }
}

TEST_F(InterfaceTest, MemoryOfItsOwnTakesNoOffers) {
  const auto server = Serve({Digits(kSamples)});
  const Loader loader = Open(DigitsSettings(server->address()));
  const Buffer buffer = NewBuffer(1 << 20);
  millrace_error* error = nullptr;
  EXPECT_EQ(millrace_loader_offer(loader.get(), buffer.get(), 1 << 20, &error),
            MILLRACE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(Text(error), HasSubstr("memory=offered"));
  uint32_t wanted = 7;
  EXPECT_EQ(millrace_loader_wanted(loader.get(), &wanted, nullptr),
            MILLRACE_STATUS_OK);
  EXPECT_EQ(wanted, 0);
}

TEST_F(InterfaceTest, FreeEndsACallThatWaitsAndWaitsForItsEnd) {
  const Listener silent;
  ASSERT_TRUE(silent.good());
  for (int round = 0; round < 10; ++round) {
    millrace_loader* const loader =
        Begin(DigitsSettings(silent.address())).release();
    // The call below may be inside first.
    std::thread consumer(
        [&] { EXPECT_EQ(NoNextAtLast(loader), MILLRACE_STATUS_CANCELLED); });
    // Until the consumer is inside.
    EXPECT_TRUE(Soon([&] {
      return NoNext(loader, 0) == MILLRACE_STATUS_FAILED_PRECONDITION;
    }));
    millrace_loader_free(loader);
    consumer.join();
  }
}

TEST_F(InterfaceTest, LoadersMayBeFreedAtAnyTime) {
  const auto server = Serve({Digits(kSamples)});
  for (int ms = 0; ms < 20; ++ms) {
    const Loader loader = Begin(DigitsSettings(server->address()));
    absl::SleepFor(absl::Milliseconds(ms));
  }
}

int CountIn(const char* folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    count += !entry.path().empty();
  }
  return count;
}

TEST_F(InterfaceTest, LoadersLeaveNoThreadAndNoDescriptor) {
  const auto server = Serve({Digits(kSamples)});
  const auto use = [&](int loaders) {
    for (int i = 0; i < loaders; ++i) {
      const Loader loader = Begin(DigitsSettings(server->address()));
      Next(loader.get());
    }
  };
  use(3);
  const int descriptors = CountIn("/proc/self/fd");
  const int threads = CountIn("/proc/self/task");
  use(100);
  EXPECT_TRUE(Soon([&] {
    return CountIn("/proc/self/fd") <= descriptors &&
           CountIn("/proc/self/task") <= threads;
  })) << CountIn("/proc/self/fd")
      << " descriptors, " << descriptors << " before; "
      << CountIn("/proc/self/task") << " threads, " << threads << " before";
}

// What a forked child says, as its exit code: 0 when all of it is right.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    // A child that hangs.
    alarm(20);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(InterfaceTest, OptionsAreCheckedWithoutAServer) {
  // Nobody listens at this address.
  Settings settings = DigitsSettings("127.0.0.1:1");
  millrace_error* error = nullptr;
  EXPECT_EQ(millrace_options_validate(Make(settings).get(), &error),
            MILLRACE_STATUS_OK);
  EXPECT_EQ(error, nullptr);
  for (const auto& [name, value, words] :
       std::vector<std::array<std::string, 3>>{
           {"endpoint", "data", "endpoint `data`: no port"},
           {"window", "1", "window=1 is outside the limits"},
           {"initial_window", "1",
            "initial_window=1 is outside the limits: give 2 to 256 batches"},
           {"initial_window", "257", "initial_window=257 is outside"},
           {"hedge_share", "2", "hedge_share=2 is outside the limits"},
           {"world_size", "3", "cannot be shared equally by 3 ranks"}}) {
    Settings wrong = settings;
    wrong[name] = value;
    const OptionList options = Make(wrong);
    EXPECT_EQ(millrace_options_validate(options.get(), &error),
              MILLRACE_STATUS_INVALID_ARGUMENT);
    const std::string said = Text(error);
    EXPECT_THAT(said, HasSubstr(words));
    // Opening says the same.
    millrace_loader* loader = nullptr;
    EXPECT_EQ(millrace_loader_open(options.get(), &loader, &error),
              MILLRACE_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(Text(error), said);
  }
}

TEST_F(InterfaceTest, AForkedChildGetsClearErrorsAndDisturbsNothing) {
  const auto server = Serve({Digits(kSamples)});
  const std::vector<std::string> expected = Expected(server->address());
  const Settings settings = DigitsSettings(server->address());
  const Loader loader = Open(settings);
  const Batch batch = Next(loader.get());
  DLManagedTensorVersioned* tensor = nullptr;
  ASSERT_EQ(millrace_batch_dlpack_versioned(batch.get(), 0, &tensor, nullptr),
            MILLRACE_STATUS_OK);
  const OptionList options = Make(settings);
  const int code = InChild([&] {
    millrace_error* error = nullptr;
    millrace_batch* next = nullptr;
    uint64_t epoch = 0;
    uint64_t step = 0;
    size_t index = 0;
    char* text = nullptr;
    millrace_loader* other = nullptr;
    constexpr millrace_status kRefused = MILLRACE_STATUS_FAILED_PRECONDITION;
    if (millrace_loader_next(loader.get(), -1, &next, &error) != kRefused) {
      return 1;
    }
    if (std::strstr(millrace_error_message(error), "forked child") == nullptr) {
      return 2;
    }
    millrace_error_free(error);
    if (millrace_loader_wait_open(loader.get(), -1, nullptr) != kRefused) {
      return 3;
    }
    if (millrace_loader_position(loader.get(), &epoch, &step, nullptr) !=
        kRefused) {
      return 4;
    }
    if (millrace_loader_seek(loader.get(), 0, 0, nullptr) != kRefused) return 5;
    if (millrace_loader_stats(loader.get(), &text, nullptr) != kRefused) {
      return 6;
    }
    if (millrace_batch_find_tensor(batch.get(), "image", &index, nullptr) !=
        kRefused) {
      return 7;
    }
    if (millrace_options_validate(options.get(), nullptr) !=
        MILLRACE_STATUS_OK) {
      return 10;
    }
    if (millrace_loader_open(options.get(), &other, &error) != kRefused) {
      return 8;
    }
    if (std::strstr(millrace_error_message(error), "spawn") == nullptr) {
      return 9;
    }
    millrace_error_free(error);
    tensor->deleter(tensor);
    millrace_batch_free(batch.get());
    millrace_loader_close(loader.get());
    millrace_loader_free(loader.get());
    return 0;
  });
  EXPECT_EQ(code, 0);
  // The parent goes on.
  EXPECT_EQ(std::string(static_cast<const char*>(tensor->dl_tensor.data),
                        kBatch * 784),
            expected[0].substr(0, kBatch * 784));
  tensor->deleter(tensor);
  for (uint64_t step = 1; step < kSteps; ++step) {
    EXPECT_EQ(BytesOfC(Next(loader.get())), expected[step]);
  }
}

// With a thread in the middle of everything, many times: nothing that a child
// does takes a lock that the fork has left held.
TEST_F(InterfaceTest, AChildOfABusyParentNeitherHangsNorCrashes) {
  const auto server = Serve({Digits(kSamples)});
  Settings settings = DigitsSettings(server->address());
  settings["epochs"] = "0";
  const Loader loader = Open(settings);
  const Batch batch = Next(loader.get());
  DLManagedTensorVersioned* tensor = nullptr;
  ASSERT_EQ(millrace_batch_dlpack_versioned(batch.get(), 0, &tensor, nullptr),
            MILLRACE_STATUS_OK);
  std::atomic<bool> done{false};
  std::thread consumer([&] {
    while (!done.load()) Next(loader.get());
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(InChild([&] {
                tensor->deleter(tensor);
                millrace_batch_free(batch.get());
                millrace_loader_free(loader.get());
                return 0;
              }),
              0);
  }
  done.store(true);
  consumer.join();
  tensor->deleter(tensor);
}

TEST_F(InterfaceTest, LogLevelsAreWords) {
  for (const char* level : {"debug", "info", "warning", "error"}) {
    EXPECT_EQ(millrace_set_log_level(level, nullptr), MILLRACE_STATUS_OK);
  }
  millrace_error* error = nullptr;
  EXPECT_EQ(millrace_set_log_level("silent", &error),
            MILLRACE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(Text(error), HasSubstr("expected debug, info, warning or error"));
}

}  // namespace
}  // namespace millrace::c
