// Every flag and value that a verdict or the doctor advises, given to the real
// programs: `--threads=N, 0 takes all` was refused by the server, and
// `--read_threads=0` turned reading ahead off.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/bench_run.h"
#include "client/diagnosis/run_verdict.h"
#include "client/diagnosis/server_verdict.h"
#include "client/diagnosis/wait_verdict.h"
#include "tests/integration/audit_data.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What the doctor can say of a run.
std::set<std::string> DoctorsAdvice() {
  std::set<std::string> sentences;
  for (const char* device : {"cpu", "cuda:0"}) {
    for (const char* cause :
         {"reading", "decoding", "augmenting", "work", "link", "shared_memory",
          "memory", "window", "no_answer", "preparing", "unclear",
          "consumer"}) {
      for (const bool flags : {false, true}) {
        for (const double overhead : {0., 4.}) {
          for (const char* source : {"nvml", "step_times"}) {
            diagnosis::RunSummary run;
            run.device = device;
            run.endpoint = "localhost:1";
            run.batch_size = 8;
            run.times.seconds = 10;
            run.times.steps = 10;
            run.times.data_seconds = 2;
            run.times.wait_cause = diagnosis::WaitCauseOf(cause);
            run.times.allreduce_seconds = 2;
            run.times.forward_seconds = 6 - overhead;
            run.times.backward_seconds = 2;  // waits for other ranks
            run.times.copy_seconds = 5;
            run.times.device_copy_seconds = 9;
            run.times.device_busy_source = source;
            run.times.cpu_seconds = 100;
            run.times.cpus = 10;
            if (flags) {
              run.flags = {"--window=8", "--accumulate=2", "--prepare_ahead"};
            }
            for (const diagnosis::Finding& finding : diagnosis::JudgeRun(run)) {
              sentences.insert(finding.advice.begin(), finding.advice.end());
            }
            diagnosis::RunSummary at_start = run;
            at_start.times.start_seconds = 2;
            at_start.times.start_data_seconds = 2;
            for (const diagnosis::Finding& finding :
                 diagnosis::JudgeRun(at_start)) {
              sentences.insert(finding.advice.begin(), finding.advice.end());
            }
            run.rank_stall_shares = {0, 0.9};
            for (const diagnosis::Finding& finding : diagnosis::JudgeRun(run)) {
              sentences.insert(finding.advice.begin(), finding.advice.end());
            }
          }
        }
      }
    }
  }
  return sentences;
}

// What the line "waited 11 %: ..." can say.
std::set<std::string> Verdicts() {
  diagnosis::ServerTimes work;
  work.address = "a:1";
  work.batches = work.timed_batches = 100;
  work.decode_seconds = 300;
  work.make_seconds = 100;
  work.waited_seconds = 5;
  diagnosis::ServerTimes augment = work;
  std::swap(augment.decode_seconds, augment.augment_seconds);
  diagnosis::ServerTimes both = work;
  both.augment_seconds = 300;
  diagnosis::ServerTimes window = work;
  window.idle_seconds = 90;
  diagnosis::ServerTimes reading = window;
  reading.read_seconds = 3000;
  diagnosis::ServerTimes memory = window;
  memory.wait_memory_seconds = 400;
  diagnosis::ServerTimes link = window;
  link.send_seconds = 400;
  diagnosis::ServerTimes shared = link;
  shared.shared_batches = shared.batches;
  std::set<std::string> sentences;
  std::set<diagnosis::WaitCause> causes;
  for (const diagnosis::ServerTimes& times :
       {work, augment, both, window, reading, memory, link, shared}) {
    diagnosis::WaitReport report;
    report.elapsed_seconds = 100;
    report.wait_seconds = report.host_wait_seconds = 50;
    report.servers = {times};
    const diagnosis::WaitVerdict verdict = diagnosis::JudgeWait(report);
    causes.insert(verdict.cause);
    sentences.insert(verdict.text);
  }
  EXPECT_EQ(causes.size(), 8u);
  EXPECT_EQ(causes.count(diagnosis::WaitCause::kUnclear), 0u);
  return sentences;
}

// What `millrace status` can say of a server.
std::set<std::string> ServerVerdicts() {
  GetStatusResponse busy;
  busy.set_uptime_seconds(100);
  busy.set_threads(4);
  busy.set_idle_thread_seconds(10);
  busy.set_active_streams(2);
  StageTime* const stage = busy.add_stages();
  stage->set_stage("decode");
  stage->set_seconds(300);
  GetStatusResponse reads = busy;
  reads.mutable_stages(0)->set_stage("read");
  GetStatusResponse memory = busy;
  memory.set_idle_thread_seconds(390);
  memory.set_waiting_for_memory(3);
  GetStatusResponse share = busy;
  share.set_idle_thread_seconds(390);
  FullShare& full = *share.add_full_shares();
  full.set_peer("ipv4:127.0.0.1");
  full.set_waiting_clients(1);
  full.set_advised_budget_bytes(uint64_t{192} << 20);
  return {diagnosis::ServerVerdict({}, busy),
          diagnosis::ServerVerdict({}, reads),
          diagnosis::ServerVerdict({}, memory),
          diagnosis::ServerVerdict({}, share)};
}

// What `millrace bench` can add to what Verdicts() says: of a server that has
// read and sent less than an epoch.
std::set<std::string> BenchVerdicts() {
  cli::BenchResult result;
  result.plan.set_steps_per_epoch(100);
  result.seconds = 10;
  result.wait_seconds = 9;
  result.batches = 30;
  diagnosis::ServerTimes& server = result.servers_times.emplace_back();
  server.address = "a:1";
  server.batches = server.timed_batches = 10;
  server.waited_seconds = server.make_seconds = 9;
  server.read_seconds = 8;
  server.decode_seconds = 2;
  return {cli::BenchVerdict(result, 1)};
}

struct Advised {
  std::string name;
  std::string value;  // "" for a flag that is only named
  std::string sentence;
};

std::vector<Advised> FlagsOf(const std::set<std::string>& sentences) {
  std::vector<Advised> flags;
  // "--window=64", or "raise --memory_budget to 192MiB".
  const std::regex flag("--([a-z_]+)((=| to (?=[0-9]))([^\\s,;)`]+))?");
  for (const std::string& sentence : sentences) {
    for (std::sregex_iterator it(sentence.begin(), sentence.end(), flag);
         it != std::sregex_iterator(); ++it) {
      flags.push_back({(*it)[1], (*it)[4], sentence});
    }
  }
  return flags;
}

constexpr char kDigits[] =
    "sources { synthetic { samples: 64 "
    "fields { name: 'image' dtype: DTYPE_UINT8 shape: [8, 8, 1] } "
    "fields { name: 'label' dtype: DTYPE_INT64 num_classes: 10 } } } "
    "batch_size: 8 ";

class AdviceTest : public ServiceTest {
 protected:
  static std::set<std::string> Sentences() {
    std::set<std::string> all = DoctorsAdvice();
    all.merge(Verdicts());
    all.merge(ServerVerdicts());
    all.merge(BenchVerdicts());
    return all;
  }
  static bool IsOfStatus(const std::string& sentence) {
    return absl::StrContains(sentence, "millrace status");
  }
  static bool IsOfBench(const std::string& sentence) {
    return absl::StrContains(sentence, "millrace bench") ||
           BenchVerdicts().count(sentence) > 0;
  }
  static std::string Help(const std::string& program) {
    return RunProgram({ProgramPath(program), "--help"}).out;
  }

  const std::string server_help_ = Help("server/millrace-server");
  const std::string trainer_help_ = Help("trainer/millrace-train");
  const std::string client_help_ = absl::StrCat(
      Millrace({"status", "--help"}).out, Millrace({"bench", "--help"}).out);
};

TEST_F(AdviceTest, NamesOnlyFlagsThatThereAre) {
  const std::vector<Advised> flags = FlagsOf(Sentences());
  EXPECT_GT(flags.size(), 20u);
  for (const Advised& flag : flags) {
    const std::string& help =
        absl::StrContains(flag.sentence, "millrace-server") ? server_help_
        : IsOfStatus(flag.sentence) || IsOfBench(flag.sentence)
            ? client_help_
            : absl::StrCat(trainer_help_, server_help_);
    EXPECT_THAT(help, HasSubstr("--" + flag.name)) << flag.sentence;
  }
}

TEST_F(AdviceTest, TheServerStartsWithEveryValue) {
  std::map<std::string, std::string> tried;
  for (const Advised& flag : FlagsOf(Sentences())) {
    const bool of_server =
        absl::StrContains(flag.sentence, "millrace-server") ||
        (absl::StrContains(server_help_, "--" + flag.name) &&
         !absl::StrContains(trainer_help_, "--" + flag.name));
    if (!of_server || flag.value.empty()) continue;
    tried[absl::StrCat("--", flag.name, "=", flag.value)] = flag.sentence;
  }
  EXPECT_GE(tried.size(), 2u);
  EXPECT_EQ(tried.count("--memory_budget=192MiB"), 1u);
  for (const auto& [flag, sentence] : tried) {
    const auto server = ServerProcess::Start({"--synthetic_only", flag});
    EXPECT_TRUE(server.ok()) << sentence << "\n" << server.status();
  }
}

// "millrace status --interval=5s", and what `millrace bench` says of itself.
TEST_F(AdviceTest, TheClientRunsWithEveryValue) {
  const auto server = Serve({"--synthetic_only", "--memory_budget=256MiB"});
  const std::string pipeline = Path("pipeline.textproto");
  WriteFile(pipeline, kDigits);
  std::map<std::string, std::string> tried;
  for (const Advised& flag : FlagsOf(Sentences())) {
    const bool of_bench = IsOfBench(flag.sentence);
    if (flag.name == "endpoint" || flag.value.empty() ||
        !(of_bench || IsOfStatus(flag.sentence))) {
      continue;
    }
    const std::string text = absl::StrCat("--", flag.name, "=", flag.value);
    if (!tried.emplace(text, flag.sentence).second) continue;
    std::vector<std::string> arguments = {
        of_bench ? "bench" : "status", "--endpoint=" + server->address(), text};
    if (of_bench) arguments.push_back("--pipeline=" + pipeline);
    const ProgramResult run = Millrace(arguments);
    EXPECT_EQ(run.exit_code, 0) << flag.sentence << "\n" << run.err;
  }
  EXPECT_EQ(tried.count("--epochs=2"), 1u);
  EXPECT_EQ(tried.count("--interval=5s"), 1u);
}

// "without --read_threads" and "without --threads".
TEST_F(AdviceTest, WithoutTheFlagsTheServersThreadsAdapt) {
  const auto server = Serve({"--synthetic_only"});
  const GetStatusResponse status = StatusOf(*server);
  EXPECT_GT(status.most_read_threads(), 0u);
  EXPECT_GT(status.most_threads(), 0u);
}

TEST_F(AdviceTest, TheTrainerRunsWithEveryValue) {
  const auto server = Serve({"--synthetic_only", "--memory_budget=256MiB"});
  const std::string pipeline = Path("pipeline.textproto");
  WriteFile(pipeline, kDigits);
  // Flags without a value that are advised as they stand.
  const std::set<std::string> switches = {"graph", "prepare_ahead",
                                          "same_host"};
  std::map<std::string, std::string> tried;
  for (const Advised& flag : FlagsOf(Sentences())) {
    // The endpoint is the run's own, with a place for one more server.
    if (flag.name == "endpoint" ||
        absl::StrContains(flag.sentence, "millrace-server") ||
        IsOfStatus(flag.sentence) || IsOfBench(flag.sentence) ||
        !absl::StrContains(trainer_help_, "--" + flag.name)) {
      continue;
    }
    if (!flag.value.empty()) {
      tried[absl::StrCat("--", flag.name, "=", flag.value)] = flag.sentence;
    } else if (switches.count(flag.name) > 0) {
      tried["--" + flag.name] = flag.sentence;
    }
  }
  EXPECT_GE(tried.size(), 6u);
  for (const auto& [flag, sentence] : tried) {
    const ProgramResult run =
        RunProgram({ProgramPath("trainer/millrace-train"),
                    "--endpoint=" + server->address(), "--pipeline=" + pipeline,
                    "--model=cnn", "--max_steps=2", flag});
    // A machine without a GPU says so; the value is one that the flag takes.
    if (flag == "--device=cuda" && run.exit_code != 0) {
      EXPECT_THAT(run.err, ::testing::ContainsRegex("CUDA|GPU|NVIDIA"))
          << sentence;
      continue;
    }
    EXPECT_EQ(run.exit_code, 0) << sentence << "\n" << flag << "\n" << run.err;
  }
}

// "(as a flag: --last_batch=pad)" was said by programs without that flag.
TEST_F(AdviceTest, AFlagIsNamedByTheProgramsThatHaveIt) {
  const auto server = Serve({"--synthetic_only", "--memory_budget=256MiB"});
  const std::string pipeline = Path("pipeline.textproto");
  WriteFile(pipeline, kDigits);
  const std::string endpoint = "--endpoint=" + server->address();
  const std::string file = "--pipeline=" + pipeline;
  const std::string large = "--batch_size=65";
  for (const ProgramResult& refused :
       {Millrace({"bench", endpoint, file, large, "--batches=4"}),
        RunProgram({ProgramPath("trainer/millrace-train"), endpoint, file,
                    large, "--model=cnn"})}) {
    EXPECT_NE(refused.exit_code, 0);
    EXPECT_THAT(
        refused.err,
        HasSubstr(
            "or set last_batch: LAST_BATCH_PAD (as a flag: --last_batch=pad)"));
  }
  EXPECT_THAT(
      Millrace({"bench", endpoint, "--synthetic", "--last_batch=pad"}).err,
      HasSubstr("use last_batch: LAST_BATCH_DROP (as a flag: "
                "--last_batch=drop)"));
  WriteFile(pipeline, absl::StrReplaceAll(
                          kDigits, {{"batch_size: 8", "batch_size: 65"}}));
  const ProgramResult check = RunServer(
      {"--synthetic_only", "--check_config", "--check_pipeline=" + pipeline});
  EXPECT_EQ(check.exit_code, 2) << check.err;
  EXPECT_THAT(check.err, HasSubstr("or set last_batch: LAST_BATCH_PAD"));
  EXPECT_THAT(check.err, Not(HasSubstr("as a flag")));
}

// `placement: PLACEMENT_SERVER` and the like.
TEST_F(AdviceTest, WhatGoesIntoAPipelineFileIsServed) {
  const auto server = Serve({"--synthetic_only", "--memory_budget=256MiB"});
  const std::string pipeline = Path("pipeline.textproto");
  std::set<std::string> tried;
  const std::regex field("`([a-z_]+: [A-Z_]+)`");
  for (const std::string& sentence : Sentences()) {
    for (std::sregex_iterator it(sentence.begin(), sentence.end(), field);
         it != std::sregex_iterator(); ++it) {
      tried.insert((*it)[1]);
    }
  }
  EXPECT_GE(tried.size(), 3u);
  for (const std::string& line : tried) {
    const bool of_transform = absl::StartsWith(line, "placement");
    WriteFile(pipeline,
              absl::StrCat(kDigits,
                           of_transform
                               ? absl::StrCat("transforms { normalize { mean: "
                                              "0.5 stddev: 0.5 ",
                                              line, " } }")
                               : line));
    const ProgramResult bench =
        Millrace({"bench", "--endpoint=" + server->address(),
                  "--pipeline=" + pipeline, "--batches=4"});
    EXPECT_EQ(bench.exit_code, 0) << line << "\n" << bench.err;
  }
}

}  // namespace
}  // namespace millrace::testing
