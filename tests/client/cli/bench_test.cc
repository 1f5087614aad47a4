// `millrace bench` against real servers: synthetic data, sweeps, and how it
// ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/common/picture/drawn_picture.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"

namespace millrace::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProgramPath;
using testing::ProgramResult;
using testing::ServerProcess;
using testing::Subprocess;

ProgramResult Bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {ProgramPath("client/cli/millrace"), "bench"});
  return testing::RunProgram(arguments);
}

// Of a key of the JSON that the bench prints; -1 without.
double NumberOf(const std::string& json, const std::string& key) {
  const size_t at = json.find("\"" + key + "\": ");
  double number = -1;
  if (at == std::string::npos) return number;
  const size_t begin = at + key.size() + 4;
  const size_t length = json.find_first_of(",}", begin) - begin;
  return absl::SimpleAtod(json.substr(begin, length), &number) ? number : -1;
}

std::string Server() {
  return "--server=" + ProgramPath("server/millrace-server");
}

// Of the server since its start.
uint64_t BatchesSentOf(const std::string& endpoint) {
  const ProgramResult status = testing::RunProgram(
      {ProgramPath("client/cli/millrace"), "status", endpoint, "--json"});
  const std::string key = "\"batches_sent\": ";
  const size_t at = status.out.find(key);
  if (at == std::string::npos) return 0;
  const size_t begin = at + key.size();
  uint64_t batches = 0;
  EXPECT_TRUE(absl::SimpleAtoi(
      status.out.substr(begin, status.out.find(',', begin) - begin), &batches));
  return batches;
}

class BenchTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto server = ServerProcess::Start(
        {"--synthetic_only", "--threads=2", "--memory_budget=256MiB"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = server->release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  static std::string Endpoint() { return "--endpoint=" + server_->address(); }

  static uint64_t BatchesSent() { return BatchesSentOf(Endpoint()); }

  static ServerProcess* server_;
};

ServerProcess* BenchTest::server_ = nullptr;

TEST_F(BenchTest, ReadyBatchesNeedNoDataset) {
  const ProgramResult result =
      Bench({Endpoint(), "--synthetic", "--shape=28,28", "--batches=50",
             "--samples=1000000000000", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // 49 batches of 64 samples, their labels as int16, indices and flags, each
  // tensor at a multiple of 64 bytes.
  const uint64_t payload = 64 * 28 * 28 + 64 * 2 + 64 * 8 + 64;
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("\"dataset\": \"synthetic, 4 ready batches\""),
            HasSubstr("\"batches\": 50,"), HasSubstr("\"batch_size\": 64"),
            HasSubstr(absl::StrCat("\"payload_bytes\": ", 49 * payload, ",")),
            HasSubstr("\"images_per_second\": "), HasSubstr("\"verdict\": "),
            HasSubstr("\"interrupted\": false")));
}

TEST_F(BenchTest, WaitsAtBordersOfEpochsAreToldApart) {
  // 20 steps an epoch; the first batch of the first one is not counted.
  const std::vector<std::string> arguments = {
      Endpoint(),        "--synthetic",       "--shape=8,8",
      "--batch_size=50", "--samples=1000",    "--epochs=3",
      "--loaders=2",     "--hedge_share=0.1", "--hedge_floor=50ms"};
  const ProgramResult text = Bench(arguments);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(
      text.out,
      AllOf(HasSubstr("wait for a batch"), HasSubstr("99th percentile"),
            HasSubstr("wait at 4 epoch borders"), HasSubstr("longest")));
  std::vector<std::string> more = arguments;
  more.push_back("--json");
  const ProgramResult json = Bench(more);
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(NumberOf(json.out, "batches"), 2 * 60);
  EXPECT_EQ(NumberOf(json.out, "borders"), 2 * 2);
  EXPECT_GT(NumberOf(json.out, "step_wait_ms"), 0);
  EXPECT_GE(NumberOf(json.out, "step_wait_p99_ms"),
            NumberOf(json.out, "step_wait_ms"));
  EXPECT_GT(NumberOf(json.out, "border_wait_ms"), 0);
  EXPECT_GE(NumberOf(json.out, "border_wait_longest_ms"),
            NumberOf(json.out, "border_wait_ms"));
  // Within one epoch there is none.
  const ProgramResult one =
      Bench({Endpoint(), "--synthetic", "--shape=8,8", "--batches=5",
             "--samples=100000", "--json"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, AllOf(HasSubstr("\"borders\": 0, \"border_wait_ms\": "
                                       "null, \"border_wait_longest_ms\": "
                                       "null")));
}

// What was asked for ahead arrives, too, but is not counted.
TEST_F(BenchTest, PackedBytesAreThoseOfTheBatchesThatCount) {
  for (const char* compression : {"zstd", "none"}) {
    const ProgramResult result = Bench(
        {Endpoint(), "--synthetic", "--shape=28,28", "--batches=40",
         "--window=32", absl::StrCat("--compression=", compression), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const double payload = NumberOf(result.out, "payload_bytes");
    const double wire = NumberOf(result.out, "wire_bytes");
    EXPECT_GT(payload, 0);
    EXPECT_LE(wire, payload);
    EXPECT_GT(wire, 0.8 * payload) << "noise does not pack";
  }
}

// Servers say so, and nothing mends it.
TEST_F(BenchTest, WhatNoServerKnowsIsAMistakeOfTheFlags) {
  const std::string millrace = ProgramPath("client/cli/millrace");
  const std::string batch = "--output=" + testing::NewTempDir() + "/batch";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"bench"},
        {"audit"},
        {"replay", "--position=0:0", batch}}) {
    for (const std::vector<std::string>& what :
         {std::vector<std::string>{"--dataset=nothing"},
          {"--dataset=nothing", "--preset=mnist"},
          {"--dataset=nothing", "--preset=nothing"}}) {
      std::vector<std::string> words = {millrace};
      words.insert(words.end(), command.begin(), command.end());
      words.insert(words.end(), what.begin(), what.end());
      words.push_back(Endpoint());
      const ProgramResult result = testing::RunProgram(words);
      EXPECT_EQ(result.exit_code, 2) << command[0] << result.err;
      EXPECT_THAT(result.err, HasSubstr("nothing")) << command[0];
    }
  }
  const ProgramResult wrong =
      Bench({Endpoint(), "--synthetic", "--outputs=nothing"});
  EXPECT_EQ(wrong.exit_code, 2) << wrong.err;
}

TEST_F(BenchTest, SamplesThatWaitAreReadLikeAnyOther) {
  const ProgramResult result =
      Bench({Endpoint(), "--synthetic_latency_us=100", "--shape=4,4",
             "--batch_size=8", "--batches=10", "--loaders=2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr("synthetic, read sample by sample, with 100 us of latency"),
          ::testing::ContainsRegex("parallel clients +2\n"),
          HasSubstr("images per second")));
}

TEST_F(BenchTest, ASweepRunsEverySettingAndNamesTheBest) {
  const std::string plot = testing::NewTempDir() + "/plot.png";
  const std::vector<std::string> arguments = {
      Endpoint(),       "--synthetic", "--shape=16,16",
      "--seconds=30ms", "--rounds=2",  "--sweep=window=2,4;batch_size=8,16",
      "--plot=" + plot};
  const ProgramResult text = Bench(arguments);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("window  batch_size  images/s"),
                              HasSubstr("\nbest: window=")));
  EXPECT_THAT(text.err, HasSubstr("round 2 of 2: window=4 batch_size=16\n"));
  const picture::RgbImage drawn = testing::DecodePng(testing::ReadFile(plot));
  EXPECT_GT(drawn.width(), 600);
  EXPECT_GT(drawn.height(), 4 * 20);
  const std::string svg = testing::NewTempDir() + "/plot.svg";
  std::vector<std::string> more = arguments;
  more.back() = "--plot=" + svg;
  more.push_back("--json");
  const ProgramResult json = Bench(more);
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_THAT(
      json.out,
      AllOf(HasSubstr("{\"setting\": {\"window\": \"4\", \"batch_size\": "
                      "\"16\"}, \"rounds\": 2, \"images_per_second\": "),
            HasSubstr("\"best\": \"best: window="),
            HasSubstr("\"interrupted\": false}")));
  EXPECT_THAT(testing::ReadFile(svg), HasSubstr("</svg>"));
}

// Minutes of measurements were lost when the picture could not be written.
TEST_F(BenchTest, APlotThatCannotBeWrittenCostsNoMeasurement) {
  const std::vector<std::string> sweep = {
      Endpoint(),     "--synthetic", "--shape=16,16",
      "--batches=12", "--rounds=1",  "--sweep=window=2,4"};
  const auto with = [&sweep](const std::string& plot) {
    std::vector<std::string> arguments = sweep;
    arguments.push_back("--plot=" + plot);
    return Bench(arguments);
  };
  const ProgramResult early = with("/no/such/folder/plot.svg");
  EXPECT_EQ(early.exit_code, 1);
  EXPECT_THAT(early.err,
              AllOf(HasSubstr("cannot write /no/such/folder/plot.svg: No such "
                              "file"),
                    Not(HasSubstr("round 1"))));
  // It can be opened, and not be written.
  const std::string full = testing::NewTempDir() + "/full.svg";
  ASSERT_EQ(symlink("/dev/full", full.c_str()), 0);
  const ProgramResult late = with(full);
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_THAT(late.out, AllOf(HasSubstr("images/s"), HasSubstr("\nbest: ")));
  EXPECT_THAT(late.err, HasSubstr("No space left"));
  // The look before leaves a file as it was, and none where there was none.
  const std::string folder = testing::NewTempDir();
  testing::WriteFile(folder + "/old.svg", "<svg>old</svg>");
  std::vector<std::string> wrong = {"--endpoint=127.0.0.1:1", "--synthetic",
                                    "--timeout=100ms", "--sweep=window=2",
                                    "--plot=" + folder + "/old.svg"};
  EXPECT_EQ(Bench(wrong).exit_code, 1);
  EXPECT_EQ(testing::ReadFile(folder + "/old.svg"), "<svg>old</svg>");
  // Another file is not replaced by a plot.
  testing::WriteFile(folder + "/old.svg", "notes");
  const testing::ProgramResult kept = Bench(wrong);
  EXPECT_EQ(kept.exit_code, 2);
  EXPECT_THAT(kept.err, HasSubstr("is not an SVG picture but appears to be a "
                                  "text file"));
  wrong.back() = "--plot=" + folder + "/new.svg";
  EXPECT_EQ(Bench(wrong).exit_code, 1);
  EXPECT_NE(access((folder + "/new.svg").c_str(), F_OK), 0);
}

TEST_F(BenchTest, RatesOfFewBatchesSaySo) {
  const auto run = [](const std::string& batches, const std::string& more) {
    return Bench({Endpoint(), "--synthetic", "--shape=16,16",
                  "--batches=" + batches, "--window=16", more});
  };
  EXPECT_THAT(run("4", "--timeout=5s").out,
              HasSubstr("the rates come from 3 batches, which is too few"));
  EXPECT_THAT(run("4", "--json").out, HasSubstr("\"few_batches\": true"));
  EXPECT_THAT(run("16", "--timeout=5s").out,
              HasSubstr("all requested before the measurement began "
                        "(window 16)"));
  EXPECT_THAT(run("100", "--timeout=5s").out, Not(HasSubstr("few batches")));
  EXPECT_THAT(run("100", "--json").out, HasSubstr("\"few_batches\": false"));
  EXPECT_THAT(run("4", "--rounds=2").out,
              HasSubstr("\nrates from too few batches: as given (3 batches in "
                        "a round)"));
}

TEST_F(BenchTest, SaysWhereTheWindowBeganAndWhereItIs) {
  const ProgramResult json =
      Bench({Endpoint(), "--synthetic", "--shape=16,16", "--batches=10",
             "--window=auto", "--initial_window=2", "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_THAT(json.out, HasSubstr("\"first_window\": 2, \"window_changes\": "));
  const ProgramResult fixed = Bench({Endpoint(), "--synthetic", "--shape=16,16",
                                     "--batches=10", "--window=5"});
  ASSERT_EQ(fixed.exit_code, 0) << fixed.err;
  EXPECT_THAT(fixed.out, ::testing::ContainsRegex("window +5\n"));
}

TEST(OwnServerTest, KnobsOfTheServerAreTriedWithAServerEach) {
  const ProgramResult result =
      Bench({Server(), "--synthetic", "--shape=16,16", "--seconds=30ms",
             "--rounds=1", "--sweep=threads=1,2,9999"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("threads  images/s"),
                    // What a server says of a setting that cannot be.
                    HasSubstr("9999     the server exited at its start: "),
                    HasSubstr("best: threads=")));
}

TEST(OwnServerTest, WhenNoServerStartsItSaysWhy) {
  const ProgramResult result =
      Bench({Server(), "--dataset=d", "--dataset_uri=lmdb:/no/such/folder",
             "--sweep=threads=1,2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("the server exited at its start"),
                                HasSubstr("/no/such/folder")));
}

// Whether a SIGINT waits to be taken by the process: bit 1 of the mask.
bool IsSignalPending(pid_t pid) {
  const std::string status =
      testing::ReadFile(absl::StrCat("/proc/", pid, "/status"));
  const size_t at = status.find("ShdPnd:");
  return at != std::string::npos &&
         (std::stoull(status.substr(at + 7), nullptr, 16) & 2) != 0;
}

// Ctrl-C ends it with what came until then, not with an error. `timeout -s INT`
// sends the signal twice: to the program and to its process group.
TEST_F(BenchTest, InterruptedItShowsWhatItHas) {
  for (const bool twice : {false, true}) {
    SCOPED_TRACE(twice);
    const uint64_t before = BatchesSent();
    Subprocess bench({ProgramPath("client/cli/millrace"), "bench", Endpoint(),
                      "--synthetic", "--shape=16,16", "--batches=1000000000"});
    const absl::Time give_up = absl::Now() + absl::Minutes(1);
    while (BatchesSent() < before + 100) {
      ASSERT_TRUE(bench.Running()) << bench.Stderr();
      ASSERT_LT(absl::Now(), give_up);
    }
    bench.Signal(SIGINT);
    if (twice) {
      while (IsSignalPending(bench.pid())) {
      }
      bench.Signal(SIGINT);
    }
    EXPECT_EQ(bench.Wait(), 0) << bench.Stderr();
    EXPECT_THAT(bench.Stdout(), AllOf(HasSubstr("images per second"),
                                      HasSubstr("interrupted")));
  }
}

// docs/operations.md promised exit code 0 here, too.
TEST_F(BenchTest, ASweepThatIsInterruptedInItsFirstMeasurementHasNoFigures) {
  const uint64_t before = BatchesSent();
  Subprocess bench({ProgramPath("client/cli/millrace"), "bench", Endpoint(),
                    "--synthetic", "--shape=16,16", "--sweep=window=4,8",
                    "--seconds=10m"});
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (BatchesSent() < before + 100) {
    ASSERT_TRUE(bench.Running()) << bench.Stderr();
    ASSERT_LT(absl::Now(), give_up);
  }
  bench.Signal(SIGINT);
  EXPECT_EQ(bench.Wait(), 1);
  EXPECT_THAT(bench.Stderr(),
              HasSubstr("before the first measurement of the "
                        "sweep ended, so there are no figures"));
}

// Its figures were thrown away.
TEST(OwnServerTest, WhenTheServerStopsTheFiguresUntilThenAreShown) {
  for (const bool timed : {true, false}) {
    SCOPED_TRACE(timed);
    auto server = ServerProcess::Start(
        {"--synthetic_only", "--threads=2", "--memory_budget=256MiB"});
    ASSERT_TRUE(server.ok()) << server.status();
    // Enough to be past the warm-up, and far from the end.
    const std::string endpoint = "--endpoint=" + (*server)->address();
    Subprocess bench({ProgramPath("client/cli/millrace"), "bench", endpoint,
                      "--synthetic", "--shape=16,16", "--window=4", "--json",
                      "--step_timeout=1s", "--timeout=1s",
                      timed ? "--seconds=10m" : "--batches=1000000000"});
    const absl::Time give_up = absl::Now() + absl::Minutes(1);
    while (BatchesSentOf(endpoint) < 1000) {
      ASSERT_TRUE(bench.Running()) << bench.Stderr();
      ASSERT_LT(absl::Now(), give_up);
    }
    (*server)->process().Signal(SIGKILL);
    EXPECT_EQ(bench.Wait(), 1) << bench.Stderr();
    EXPECT_GT(NumberOf(bench.Stdout(), "batches"), 100) << bench.Stdout();
    EXPECT_GT(NumberOf(bench.Stdout(), "images_per_second"), 0);
    EXPECT_LT(NumberOf(bench.Stdout(), "wait_share"), 1);
    EXPECT_THAT(bench.Stdout(),
                AllOf(HasSubstr("\"interrupted\": false"),
                      HasSubstr("\"ended_by\": \"no batch within ")));
    EXPECT_THAT(bench.Stderr(), HasSubstr("no batch within "));
  }
}

// It said that it waited -21 s and was the bottleneck itself.
TEST(OwnServerTest, InterruptedDuringAnOutageItNamesTheServer) {
  auto server = ServerProcess::Start(
      {"--synthetic_only", "--threads=2", "--memory_budget=256MiB"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string endpoint = "--endpoint=" + (*server)->address();
  const absl::Time began = absl::Now();
  const absl::Time give_up = began + absl::Minutes(1);
  Subprocess bench({ProgramPath("client/cli/millrace"), "bench", endpoint,
                    "--synthetic", "--shape=16,16", "--window=4", "--json",
                    "--batches=1000000000"});
  while (BatchesSentOf(endpoint) < 100) {
    ASSERT_TRUE(bench.Running()) << bench.Stderr();
    ASSERT_LT(absl::Now(), give_up);
  }
  (*server)->process().Signal(SIGKILL);
  const absl::Time killed = absl::Now();
  while (!absl::StrContains(bench.Stderr(), "no server of endpoint")) {
    ASSERT_TRUE(bench.Running()) << bench.Stderr();
    ASSERT_LT(absl::Now(), give_up);
    absl::SleepFor(absl::Milliseconds(10));
  }
  // So that the outage is most of the time.
  absl::SleepFor(2 * (killed - began));
  bench.Signal(SIGINT);
  EXPECT_EQ(bench.Wait(), 0) << bench.Stderr();
  EXPECT_GT(NumberOf(bench.Stdout(), "wait_seconds"), 0) << bench.Stdout();
  EXPECT_THAT(bench.Stdout(),
              AllOf(HasSubstr("no server answered (" + (*server)->address()),
                    HasSubstr("\"interrupted\": true")));
}

TEST_F(BenchTest, MistakesAreUsageErrors) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--sweep=threads=1,2", "--synthetic"},
       "threads is set when a server starts; give --server=PROGRAM"},
      {{"--sweep=windows=1", "--synthetic"}, "there is no knob `windows`"},
      {{"--synthetic", "--window=many"}, "--window=many: write auto, or"},
      {{"--synthetic", "--window=8", "--initial_window=2"},
       "flag --initial_window=2 and a fixed window of 8 batches cannot be used "
       "together"},
      // It became 256 without a word, and 1 was taken.
      {{"--synthetic", "--initial_window=257"},
       "flag --initial_window=257 is outside the limits: give 2 to 256 "
       "batches, or 0 for a first window"},
      {{"--synthetic", "--initial_window=1"},
       "flag --initial_window=1 is outside the limits: give 2 to 256"},
      {{"--sweep=prefetch=2", "--synthetic"},
       "device_prefetch is a flag of millrace-train"},
      {{"--synthetic", "--dataset=d"},
       "--dataset and synthetic data cannot be used together"},
      {{"--synthetic", "--shape=3,0"}, "flag --shape=3,0: expected numbers"},
      {{"--synthetic", "--shape=99999,9999"},
       "flag --shape=99999,9999: synthetic field \"image\" is larger than "
       "the maximum of 8388608 bytes"},
      {{"--synthetic", "--seed=1"}, "--seed has no effect on ready batches"},
      {{"--synthetic", "--rank=2", "--world=2"},
       "flag --rank=2 is outside the limits: there is no rank 2 of 2"},
      {{"--synthetic", "--world=0"}, "flag --world=0: expected"},
      {{"--synthetic", "--window=1"}, "--window=1 is outside the limits"},
      {{"--dataset", "--preset=mnist"},
       "flag --dataset needs a value, and `--preset=mnist` looks like"},
      {{"--dataset=a\xff"}, "flag --dataset=a\\377: the value is not UTF-8"},
      {{"--dataset=a", "--preset=\xc0"}, "flag --preset=\\300: the value is"},
      {{"--dataset=a", "--outputs=\xc0"}, "flag --outputs=\\300: the value is"},
      {{"--synthetic", "--dtype=uint9"}, "flag --dtype=uint9"},
      {{"--synthetic", "--ready_batches=many"}, "--ready_batches=many"},
      {{"--synthetic", "--synthetic_latency_us=5", "--ready_batches=2"},
       "ready_batches and latency_us cannot be used together"},
      {{"--synthetic", "--samples=0"}, "flag --samples=0: "},
      {{"--synthetic", "--plot=a.svg"},
       "--plot draws the results of a --sweep"},
      {{"--synthetic", "--sweep=window=1", "--plot=a.jpg"},
       "--plot=a.jpg ends in neither .png nor .svg"},
      {{"--synthetic", "--loaders=0"}, "flag --loaders=0"},
      {{"--synthetic", "--dataset_uri=lmdb:/d"},
       "--dataset_uri has no effect without --server"},
      {{"--synthetic", Server()},
       "--server and --endpoint cannot be used together: "
       "remove one of them"},
      {{}, "flag --dataset=NAME is missing"},
      {{"--synthetic", "--epochs=2", "--seconds=1s"},
       "--epochs and --seconds cannot be used together"},
      {{"--synthetic", "--warmup=1s"},
       "--warmup has no effect without --seconds"},
      {{"--synthetic", "--warmup=1s", "--batches=9", "--sweep=window=2,4"},
       "--warmup has no effect without --seconds"},
      {{"--dataset=d", "--shape=8,8"},
       "--shape has no effect without --synthetic or --synthetic_latency_us: "
       "add one of them, or remove --shape"},
      {{"--dataset=d", "--dtype=uint8"}, "--dtype has no effect without"},
      {{"--dataset=d", "--samples=8"}, "--samples has no effect without"},
      {{"--dataset=d", "--ready_batches=2"}, "--ready_batches has no effect"},
      {{"--dataset=d", "--synthetic_latency_us=0"}, "give a time above 0"},
      {{"--synthetic", "--batches=9", "--seconds=1s"},
       "--batches and --seconds cannot be used together"},
      {{"--synthetic", "--batches=9", "--epochs=1"},
       "--batches and --epochs cannot be used together"},
      {{"--synthetic", "--window=4", "--sweep=window=2,4"},
       "--window and --sweep=window=... cannot be used together: remove one"},
      {{"--synthetic", "--batch_size=4", "--sweep=batch_size=2,4"},
       "--batch_size and --sweep=batch_size=... cannot be used together"},
      {{"--synthetic", "--initial_window=4", "--sweep=window=2,4"},
       "add auto to the values of window"},
      {{"--synthetic", "--rounds=0"}, "flag --rounds=0: expected 1 to 1000"},
      {{"--synthetic", "--batch_size=0"}, "flag --batch_size=0: expected"},
      {{"--synthetic", "--hedge_share=0", "--hedge_floor=1s"},
       "--hedge_floor has no effect with --hedge_share=0"},
      // The default, but given.
      {{"--synthetic", "--hedge_share=0", "--hedge_floor=20ms"},
       "--hedge_floor has no effect with --hedge_share=0"},
      {{"--synthetic", "--json", "--json"}, "flag --json is given twice"},
      {{"--dataset="}, "flag --dataset=: expected a value"},
      {{"--synthetic", "--hedge_share=1.5"},
       "flag --hedge_share=1.5 is outside the limits: give a share of the "
       "steps from 0"},
      {{"--synthetic", "--hedge_share=often"}, "--hedge_share=often: expected"},
      {{"--synthetic", "--hedge_floor=-1ms"}, "expected a time, "},
      {{"--synthetic", "--step_timeout=0"}, "a time above 0"},
      {{"--synthetic", "--same_host=maybe"},
       "flag --same_host=maybe: expected off, auto or require"},
      {{"--synthetic", "--last_batch=keep"},
       "flag --last_batch=keep: expected drop, pad or partial"},
      {{"--synthetic", "--compression=zip"},
       "flag --compression=zip: expected none or zstd"},
  };
  for (const auto& [flags, message] : cases) {
    std::vector<std::string> arguments = flags;
    arguments.insert(arguments.begin(), Endpoint());
    const ProgramResult result = Bench(arguments);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

}  // namespace
}  // namespace millrace::cli
