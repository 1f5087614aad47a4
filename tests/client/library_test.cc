// The client as a library in somebody's program, over a real server: several
// loaders side by side, what it says when something is wrong, and what is left
// of it at the end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/loader.h"
#include "tests/testing/digits.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::millrace::testing::DigitLabel;
using ::millrace::testing::DigitPixel;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSamples = 640;

class Library : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() {
    server_ =
        Serve({Digits(kSamples), "--threads=2", "--memory_budget=256MiB"});
  }
  static void TearDownTestSuite() { server_.reset(); }

  static DataLoader::Options Options() {
    DataLoader::Options options;
    options.endpoint = server_->address();
    options.dataset = "digits";
    options.preset = "mnist";
    options.batch_size = 32;
    options.seed = 3;
    options.verify_payload = true;
    return options;
  }
  static std::unique_ptr<DataLoader> Open(const DataLoader::Options& options) {
    auto loader = DataLoader::Open(options);
    EXPECT_TRUE(loader.ok()) << loader.status();
    return *std::move(loader);
  }
  static std::string Refused(const DataLoader::Options& options,
                             absl::StatusCode code) {
    const absl::Status status = DataLoader::Open(options).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }

  static inline std::unique_ptr<testing::ServerProcess> server_;
};

// Bytes that are not what the packer wrote, of a batch without transform; the
// samples go to `seen`.
int CountWrong(const Batch& batch, std::multiset<int64_t>* seen) {
  int wrong = 0;
  const torch::Tensor& image = batch.tensor("image");
  const uint8_t* const pixels = image.data_ptr<uint8_t>();
  for (uint64_t row = 0; row < batch.rows; ++row) {
    const auto r = static_cast<int64_t>(row);
    const int64_t index = batch.tensor("sample_index")[r].item<int64_t>();
    seen->insert(index);
    wrong += batch.tensor("label")[r].item<int64_t>() != DigitLabel(index);
    for (int64_t i = 0; i < 28 * 28; ++i) {
      wrong += pixels[r * 28 * 28 + i] != DigitPixel(index, i);
    }
  }
  return wrong;
}

// Training that shuffles, and evaluation in another order and batch size, turn
// and turn about, each with tensors kept while the other goes on.
TEST_F(Library, TwoLoadersOfOneProcessGiveEachItsOwnBatches) {
  DataLoader::Options options = Options();
  options.apply_device_transform = false;
  options.prepare_ahead = true;
  const auto training = Open(options);
  options.batch_size = 64;
  options.seed = 4;
  options.prepare_ahead = false;
  const auto evaluation = Open(options);
  std::multiset<int64_t> trained, evaluated;
  for (int i = 0; i < kSamples / 64; ++i) {
    auto first = training->Next();
    auto judged = evaluation->Next();
    auto second = training->Next();
    ASSERT_TRUE(first.ok() && judged.ok() && second.ok())
        << first.status() << judged.status() << second.status();
    EXPECT_EQ(CountWrong(*second, &trained), 0);
    EXPECT_EQ(CountWrong(*judged, &evaluated), 0);
    EXPECT_EQ(CountWrong(*first, &trained), 0);
  }
  EXPECT_TRUE(absl::IsOutOfRange(training->Next().status()));
  EXPECT_TRUE(absl::IsOutOfRange(evaluation->Next().status()));
  for (int64_t index = 0; index < kSamples; ++index) {
    EXPECT_EQ(trained.count(index), 1u) << index;
    EXPECT_EQ(evaluated.count(index), 1u) << index;
  }
  // One that is closed takes nothing with it.
  ASSERT_TRUE(evaluation->Seek({0, 0}).ok());
  training->Close();
  EXPECT_TRUE(evaluation->Next().ok());
}

// Names of the threads of this process.
std::vector<std::string> Threads() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    names.push_back(name);
  }
  return names;
}

// gRPC names its threads, and keeps them while there is anything of it; ours
// have the name of the program.
size_t OurThreads() {
  const std::vector<std::string> threads = Threads();
  return std::count(threads.begin(), threads.end(), threads.front());
}

TEST_F(Library, NoThreadIsLeftAfterClose) {
  // The first use of the libraries makes threads of theirs that stay.
  Open(Options())->Close();
  const auto settled = [](size_t threads) {
    return Soon([threads] { return Threads().size() <= threads; });
  };
  static_cast<void>(Soon([] {
    const std::vector<std::string> threads = Threads();
    return std::count(threads.begin(), threads.end(), "event_engine") == 0;
  }));
  const size_t before = Threads().size();
  ASSERT_EQ(OurThreads(), 1u);
  for (int round = 0; round < 3; ++round) {
    DataLoader::Options options = Options();
    options.prepare_ahead = true;
    auto first = Open(options);
    auto second = Open(options);
    ASSERT_TRUE(first->Next().ok());
    ASSERT_TRUE(second->Next().ok());
    EXPECT_GE(OurThreads(), 3u);
    first->Close();
    first->Close();
    second->Close();
    // The objects live, and have no thread.
    EXPECT_EQ(OurThreads(), 1u) << ::testing::PrintToString(Threads());
    EXPECT_TRUE(absl::IsCancelled(first->Next().status()));
    first.reset();
    second.reset();
    // Then gRPC's end, too, some time later.
    EXPECT_TRUE(settled(before)) << ::testing::PrintToString(Threads());
  }
}

TEST_F(Library, SaysThatNoServerAnswers) {
  DataLoader::Options options = Options();
  options.endpoint = "127.0.0.1:1";
  options.open_timeout = absl::Milliseconds(300);
  EXPECT_THAT(Refused(options, absl::StatusCode::kUnavailable),
              HasSubstr("127.0.0.1:1"));
  options.endpoint = "";
  EXPECT_THAT(Refused(options, absl::StatusCode::kInvalidArgument),
              HasSubstr("HOST:PORT"));
}

TEST_F(Library, NamesWhatTheServerDoesNotHave) {
  DataLoader::Options options = Options();
  options.dataset = "letters";
  EXPECT_THAT(Refused(options, absl::StatusCode::kNotFound),
              AllOf(HasSubstr("letters"), HasSubstr("digits")));
  options = Options();
  options.preset = "nothing";
  EXPECT_THAT(Refused(options, absl::StatusCode::kNotFound),
              AllOf(HasSubstr("nothing"), HasSubstr("mnist")));
}

TEST_F(Library, RefusesRanksThatCannotBe) {
  DataLoader::Options options = Options();
  options.rank = 2;
  options.world_size = 2;
  EXPECT_THAT(Refused(options, absl::StatusCode::kInvalidArgument),
              HasSubstr("rank=2 is outside the limits"));
  options.rank = 0;
  options.world_size = 3;
  EXPECT_THAT(Refused(options, absl::StatusCode::kInvalidArgument),
              AllOf(HasSubstr("32"), HasSubstr("3")));
  options.world_size = 0;
  EXPECT_NE(Refused(options, absl::StatusCode::kInvalidArgument), "");
}

TEST_F(Library, SaysThatTheCallerHoldsAllSlotsAndGoesOnWhenItLetsGo) {
  DataLoader::Options options = Options();
  options.device_prefetch = 1;
  options.next_timeout = absl::Milliseconds(50);
  const auto loader = Open(options);
  std::vector<Batch> held;
  absl::StatusOr<Batch> batch = loader->Next();
  // With a deadline this short a loaded machine may need another call.
  while (held.size() < 3) {
    if (batch.ok()) {
      held.push_back(*std::move(batch));
    } else {
      ASSERT_TRUE(absl::IsDeadlineExceeded(batch.status())) << batch.status();
    }
    batch = loader->Next();
  }
  ASSERT_TRUE(absl::IsDeadlineExceeded(batch.status())) << batch.status();
  EXPECT_THAT(std::string(batch.status().message()),
              HasSubstr("all 3 slots are held by the caller"));
  held.clear();
  batch = loader->Next();
  while (absl::IsDeadlineExceeded(batch.status())) batch = loader->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->position, (Position{0, 3}));
}

// docs/client.md shows it, and the README.
TEST_F(Library, TheProgramOfTheDocumentsLearnsForTwoEpochs) {
  const testing::ProgramResult run =
      testing::RunProgram({testing::ProgramPath("docs/example/train_loop"),
                           server_->address(), "digits", "mnist"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  std::vector<double> losses;
  const std::regex line("epoch ([01]) step ([0-9]): loss ([0-9.]+)\n");
  for (std::sregex_iterator it(run.out.begin(), run.out.end(), line), end;
       it != end; ++it) {
    EXPECT_EQ((*it)[1].str() + (*it)[2].str(),
              absl::StrCat(losses.size() / 10, losses.size() % 10));
    losses.push_back(std::stod((*it)[3]));
  }
  ASSERT_EQ(losses.size(), 20u) << run.out;
  // Each run begins with other weights, so single steps say little.
  const auto middle = losses.begin() + 10;
  EXPECT_LT(std::accumulate(middle, losses.end(), 0.0),
            std::accumulate(losses.begin(), middle, 0.0))
      << "it learns";
  const testing::ProgramResult wrong =
      testing::RunProgram({testing::ProgramPath("docs/example/train_loop"),
                           server_->address(), "letters", "mnist"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("letters"));
}

}  // namespace
}  // namespace millrace
