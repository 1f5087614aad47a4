// Arguments that no caller should pass, in every function and at random: each
// is an error that says so, or a result; never a crash. Under AddressSanitizer,
// no byte outside is touched either.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/c/millrace.h"
#include "client/c/millrace_dlpack.h"
#include "common/utf8.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"

namespace millrace::c {
namespace {

using ::testing::HasSubstr;

class ArgumentsTest : public testing::ServiceTest {
 protected:
  void Open(const char* memory) {
    server_ = Serve({Digits(200)});
    millrace_set_log_level("error", nullptr);
    options_ = millrace_options_new();
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, std::string>>{
             {"endpoint", server_->address()},
             {"dataset", "digits"},
             {"batch_size", "10"},
             {"epochs", "0"},
             {"memory", memory}}) {
      ASSERT_EQ(
          millrace_options_set(options_, name.c_str(), value.c_str(), nullptr),
          MILLRACE_STATUS_OK);
    }
    ASSERT_EQ(millrace_loader_open(options_, &loader_, nullptr),
              MILLRACE_STATUS_OK);
    ASSERT_EQ(millrace_loader_wait_open(loader_, -1, nullptr),
              MILLRACE_STATUS_OK);
  }
  void TearDown() override {
    millrace_batch_free(batch_);
    millrace_loader_free(loader_);
    millrace_options_free(options_);
    for (void* buffer : buffers_) std::free(buffer);
  }

  std::unique_ptr<testing::ServerProcess> server_;
  millrace_options* options_ = nullptr;
  millrace_loader* loader_ = nullptr;
  millrace_batch* batch_ = nullptr;
  std::vector<void*> buffers_;  // offered
};

// With each pointer missing in turn.
TEST_F(ArgumentsTest, EveryMissingPointerIsNamed) {
  Open("own");
  ASSERT_EQ(millrace_loader_next(loader_, -1, &batch_, nullptr),
            MILLRACE_STATUS_OK);
  millrace_error* error = nullptr;
  const auto expect = [&](millrace_status status, const std::string& name) {
    EXPECT_EQ(status, MILLRACE_STATUS_INVALID_ARGUMENT) << name;
    EXPECT_EQ(millrace_error_message(error), name + " is NULL");
    millrace_error_free(error);
  };
  uint64_t number = 7;
  uint32_t count = 7;
  size_t index = 7;
  char* text = nullptr;
  millrace_plan plan = {.struct_size = sizeof(plan)};
  millrace_batch_info info = {.struct_size = sizeof(info)};
  millrace_tensor tensor = {.struct_size = sizeof(tensor)};
  DLManagedTensor* dlpack = nullptr;
  DLManagedTensorVersioned* versioned = nullptr;
  auto** const e = &error;

  expect(millrace_set_log_level(nullptr, e), "level");
  expect(millrace_options_set(nullptr, "rank", "0", e), "options");
  expect(millrace_options_set(options_, nullptr, "0", e), "name");
  expect(millrace_options_set(options_, "rank", nullptr, e), "value");
  expect(millrace_options_set_int(nullptr, "rank", 0, e), "options");
  expect(millrace_options_set_int(options_, nullptr, 0, e), "name");
  expect(millrace_options_validate(nullptr, e), "options");
  millrace_loader* loader = loader_;
  expect(millrace_loader_open(nullptr, &loader, e), "options");
  EXPECT_EQ(loader, nullptr);
  expect(millrace_loader_open(options_, nullptr, e), "loader");
  expect(millrace_loader_wait_open(nullptr, 0, e), "loader");
  millrace_batch* batch = batch_;
  expect(millrace_loader_next(nullptr, 0, &batch, e), "loader");
  EXPECT_EQ(batch, nullptr);
  expect(millrace_loader_position(nullptr, &number, &number, e), "loader");
  EXPECT_EQ(number, 0);
  expect(millrace_loader_seek(nullptr, 0, 0, e), "loader");
  expect(millrace_loader_get_plan(nullptr, &plan, e), "loader");
  expect(millrace_loader_stats(nullptr, &text, e), "loader");
  expect(millrace_loader_where_the_time_went(nullptr, &text, e), "loader");
  expect(millrace_loader_explain(nullptr, 0, 0, 0, &text, e), "loader");
  expect(millrace_loader_cancel_explain(nullptr, e), "loader");
  expect(millrace_loader_offer(nullptr, &number, 8, e), "loader");
  expect(millrace_loader_wanted(nullptr, &count, e), "loader");
  EXPECT_EQ(count, 0);
  expect(millrace_batch_get_info(nullptr, &info, e), "batch");
  expect(millrace_batch_get_tensor(nullptr, 0, &tensor, e), "batch");
  expect(millrace_batch_find_tensor(nullptr, "image", &index, e), "batch");
  EXPECT_EQ(index, 0);
  expect(millrace_batch_cast(nullptr, 0, &number, 8, e), "batch");
  expect(millrace_batch_dlpack(nullptr, 0, &dlpack, e), "batch");
  expect(millrace_batch_dlpack_versioned(nullptr, 0, &versioned, e), "batch");
}

TEST_F(ArgumentsTest, EveryMissingResultIsNamed) {
  Open("own");
  ASSERT_EQ(millrace_loader_next(loader_, -1, &batch_, nullptr),
            MILLRACE_STATUS_OK);
  millrace_error* error = nullptr;
  const auto expect = [&](millrace_status status, const std::string& name) {
    EXPECT_EQ(status, MILLRACE_STATUS_INVALID_ARGUMENT) << name;
    EXPECT_EQ(millrace_error_message(error), name + " is NULL");
    millrace_error_free(error);
  };
  uint64_t number = 0;
  auto** const e = &error;
  expect(millrace_loader_next(loader_, -1, nullptr, e), "batch");
  expect(millrace_loader_position(loader_, nullptr, &number, e), "epoch");
  expect(millrace_loader_position(loader_, &number, nullptr, e), "step");
  expect(millrace_loader_get_plan(loader_, nullptr, e), "plan");
  expect(millrace_loader_stats(loader_, nullptr, e), "json");
  expect(millrace_loader_where_the_time_went(loader_, nullptr, e), "text");
  expect(millrace_loader_explain(loader_, 0, 0, 0, nullptr, e), "json");
  expect(millrace_loader_wanted(loader_, nullptr, e), "buffers");
  expect(millrace_batch_get_info(batch_, nullptr, e), "millrace_batch_info");
  expect(millrace_batch_get_tensor(batch_, 0, nullptr, e), "millrace_tensor");
  expect(millrace_batch_find_tensor(batch_, "image", nullptr, e), "index");
  expect(millrace_batch_find_tensor(batch_, nullptr, &number, e), "name");
  expect(millrace_batch_dlpack(batch_, 0, nullptr, e), "tensor");
  expect(millrace_batch_dlpack_versioned(batch_, 0, nullptr, e), "tensor");
  // A batch that nobody takes is not lost.
  EXPECT_EQ(millrace_loader_position(loader_, &number, &number, nullptr),
            MILLRACE_STATUS_OK);
  EXPECT_EQ(number, 1);
}

TEST_F(ArgumentsTest, NothingToFreeIsNoMistake) {
  millrace_error_free(nullptr);
  millrace_text_free(nullptr);
  millrace_options_free(nullptr);
  millrace_loader_close(nullptr);
  millrace_loader_free(nullptr);
  millrace_batch_free(nullptr);
  EXPECT_EQ(millrace_error_status(nullptr), MILLRACE_STATUS_UNKNOWN);
  EXPECT_STREQ(millrace_error_message(nullptr), "");
  EXPECT_STREQ(millrace_error_detail(nullptr), "{}");
}

// Every function, with arguments that are drawn from the good ones and the bad
// ones. Whatever comes back keeps the promises of the header.
class RandomArguments {
 public:
  RandomArguments(millrace_options* options, millrace_loader* loader,
                  std::vector<void*>* buffers, uint32_t seed)
      : random_(seed), options_(options), loader_(loader), buffers_(buffers) {}
  ~RandomArguments() {
    for (millrace_batch* batch : batches_) millrace_batch_free(batch);
    for (DLManagedTensorVersioned* tensor : tensors_) tensor->deleter(tensor);
    for (DLManagedTensor* tensor : old_tensors_) tensor->deleter(tensor);
  }

  void Call() {
    switch (Below(18)) {
      case 0:
        return Check(
            millrace_options_set(Maybe(Scratch()), Word(), Word(), error()));
      case 1:
        return Check(millrace_options_set_int(
            Maybe(Scratch()), Word(), static_cast<int64_t>(Number()), error()));
      case 2: {
        millrace_loader* loader = nullptr;
        Check(millrace_loader_open(Maybe(Scratch()), Maybe(&loader), error()));
        return millrace_loader_free(loader);
      }
      case 3:
        return Check(
            millrace_loader_wait_open(Maybe(loader_), Timeout(), error()));
      case 4: {
        millrace_batch* batch = nullptr;
        Check(millrace_loader_next(Maybe(loader_), Timeout(), Maybe(&batch),
                                   error()));
        if (batch != nullptr) batches_.push_back(batch);
        return;
      }
      case 5:
        return Check(millrace_loader_position(
            Maybe(loader_), Maybe(&numbers_[0]), Maybe(&numbers_[1]), error()));
      case 6:
        return Check(
            millrace_loader_seek(Maybe(loader_), Number(), Number(), error()));
      case 7: {
        millrace_plan plan = {.struct_size = Size(sizeof(plan))};
        return Check(
            millrace_loader_get_plan(Maybe(loader_), Maybe(&plan), error()));
      }
      case 8: {
        char* text = nullptr;
        Check(Below(2) == 0
                  ? millrace_loader_stats(Maybe(loader_), Maybe(&text), error())
                  : millrace_loader_where_the_time_went(Maybe(loader_),
                                                        Maybe(&text), error()));
        return millrace_text_free(text);
      }
      case 9: {
        char* text = nullptr;
        Check(millrace_loader_explain(Maybe(loader_), Number(), Number(),
                                      static_cast<int64_t>(Below(20)),
                                      Maybe(&text), error()));
        return millrace_text_free(text);
      }
      case 10: {
        constexpr uint64_t kBytes = 1 << 16;
        void* const buffer = std::aligned_alloc(64, kBytes);
        buffers_->push_back(buffer);
        auto* const data = static_cast<uint8_t*>(buffer) + Below(3) * 8;
        return Check(millrace_loader_offer(
            Maybe(loader_), Maybe(data),
            Below(2) == 0 ? kBytes - 16 : Below(kBytes), error()));
      }
      case 11:
        return Check(
            millrace_loader_wanted(Maybe(loader_), Maybe(&count_), error()));
      case 12: {
        millrace_batch_info info = {.struct_size = Size(sizeof(info))};
        return Check(millrace_batch_get_info(Batch(), Maybe(&info), error()));
      }
      case 13: {
        millrace_tensor tensor = {.struct_size = Size(sizeof(tensor))};
        return Check(millrace_batch_get_tensor(Batch(), Number(),
                                               Maybe(&tensor), error()));
      }
      case 14: {
        DLManagedTensorVersioned* tensor = nullptr;
        Check(millrace_batch_dlpack_versioned(Batch(), Number(), Maybe(&tensor),
                                              error()));
        if (tensor != nullptr) tensors_.push_back(tensor);
        return Drop();
      }
      case 15: {
        DLManagedTensor* tensor = nullptr;
        Check(millrace_batch_dlpack(Batch(), Number(), Maybe(&tensor),
                                    error()));
        if (tensor != nullptr) old_tensors_.push_back(tensor);
        return Drop();
      }
      case 16:
        return Check(millrace_set_log_level(Word(), error()));
      default: {
        std::vector<uint8_t> out(Below(1 << 16));
        size_t index = 0;
        Check(Below(2) == 0
                  ? millrace_batch_cast(Batch(), Number(), Maybe(out.data()),
                                        out.size(), error())
                  : millrace_batch_find_tensor(Batch(), Word(), Maybe(&index),
                                               error()));
        return Drop();
      }
    }
  }

  int good() const { return good_; }
  int bad() const { return bad_; }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }

  // Missing now and then.
  template <typename T>
  T* Maybe(T* pointer) {
    return Below(20) == 0 ? nullptr : pointer;
  }

  // Options that only this test changes; a loader that they open has no server.
  millrace_options* Scratch() {
    millrace_options_set(options_, "endpoint", "127.0.0.1:1", nullptr);
    return options_;
  }

  const char* Word() {
    static const char* const kWords[] = {
        "rank",   "batch_size", "window",   "shuffle",
        "memory", "image",      "label",    "global",
        "own",    "64",         "-1",       "1e400",
        "",       "\xff",       "nan",      "18446744073709551616",
        "true",   "5s",         "pipeline", "sources { dataset: \"a\" }",
        "error",  nullptr};
    return kWords[Below(std::size(kWords))];
  }

  uint64_t Number() {
    const uint64_t kNumbers[] = {
        0, 1, 2, 3, 19, 20, 1 << 20, UINT64_MAX, uint64_t{1} << 63, random_()};
    return kNumbers[Below(Below(2) == 0 ? 4 : std::size(kNumbers))];
  }

  int64_t Timeout() { return static_cast<int64_t>(Below(20)); }

  uint32_t Size(uint32_t size) {
    return Below(4) == 0 ? static_cast<uint32_t>(Below(size)) : size;
  }

  const millrace_batch* Batch() {
    return batches_.empty() ? nullptr : Maybe(batches_[Below(batches_.size())]);
  }

  // Sometimes ends what is held.
  void Drop() {
    if (!batches_.empty() && Below(3) == 0) {
      millrace_batch_free(batches_.front());
      batches_.erase(batches_.begin());
    }
    if (!tensors_.empty() && Below(2) == 0) {
      tensors_.front()->deleter(tensors_.front());
      tensors_.erase(tensors_.begin());
    }
    if (!old_tensors_.empty() && Below(2) == 0) {
      old_tensors_.front()->deleter(old_tensors_.front());
      old_tensors_.erase(old_tensors_.begin());
    }
  }

  millrace_error** error() {
    error_ = nullptr;
    wants_error_ = Below(10) != 0;
    return wants_error_ ? &error_ : nullptr;
  }

  void Check(millrace_status status) {
    const bool failed =
        status != MILLRACE_STATUS_OK && status != MILLRACE_STATUS_NOT_READY;
    ++(failed ? bad_ : good_);
    ASSERT_NE(status, MILLRACE_STATUS_INTERNAL)
        << millrace_error_message(error_);
    ASSERT_EQ(error_ != nullptr, failed && wants_error_) << status;
    if (error_ == nullptr) return;
    EXPECT_EQ(millrace_error_status(error_), status);
    EXPECT_GT(std::strlen(millrace_error_message(error_)), 0);
    EXPECT_TRUE(IsUtf8(millrace_error_message(error_)));
    millrace_error_free(error_);
  }

  std::mt19937_64 random_;
  millrace_options* const options_;
  millrace_loader* const loader_;
  std::vector<void*>* const buffers_;
  std::vector<millrace_batch*> batches_;
  std::vector<DLManagedTensorVersioned*> tensors_;
  std::vector<DLManagedTensor*> old_tensors_;
  uint64_t numbers_[2] = {};
  uint32_t count_ = 0;
  millrace_error* error_ = nullptr;
  bool wants_error_ = false;
  int good_ = 0;
  int bad_ = 0;
};

// A number from the environment.
uint32_t Setting(const char* name, uint32_t otherwise) {
  const char* const text = std::getenv(name);
  uint32_t value = otherwise;
  if (text != nullptr) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &value)) << name << '=' << text;
  }
  return value;
}

// For a long run with other numbers, `bazel test --test_env=NAME=VALUE` with
// MILLRACE_RANDOM_CALLS and MILLRACE_RANDOM_SEED.
class RandomArgumentsTest
    : public ArgumentsTest,
      public ::testing::WithParamInterface<std::tuple<std::string, uint32_t>> {
};

TEST_P(RandomArgumentsTest, GiveAResultOrAnErrorThatSaysWhy) {
  const auto& [memory, number] = GetParam();
  const uint32_t seed = Setting("MILLRACE_RANDOM_SEED", 20261126) + number;
  const uint32_t calls = Setting("MILLRACE_RANDOM_CALLS", 4000);
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Open(memory.c_str());
  {
    RandomArguments arguments(options_, loader_, &buffers_, seed);
    for (uint32_t i = 0; i < calls && !HasFailure(); ++i) arguments.Call();
    EXPECT_GT(arguments.good(), calls / 10);
    EXPECT_GT(arguments.bad(), calls / 10);
  }
  // The loader is still good.
  ASSERT_EQ(millrace_loader_seek(loader_, 0, 3, nullptr), MILLRACE_STATUS_OK);
  if (memory == "own") {
    ASSERT_EQ(millrace_loader_next(loader_, -1, &batch_, nullptr),
              MILLRACE_STATUS_OK);
    millrace_batch_info info = {.struct_size = sizeof(info)};
    ASSERT_EQ(millrace_batch_get_info(batch_, &info, nullptr),
              MILLRACE_STATUS_OK);
    EXPECT_EQ(info.step, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Memory, RandomArgumentsTest,
    ::testing::Combine(::testing::Values("own", "offered"),
                       ::testing::Values(0, 1, 2)),
    [](const auto& test) {
      return absl::StrCat(std::get<0>(test.param), std::get<1>(test.param));
    });

}  // namespace
}  // namespace millrace::c
