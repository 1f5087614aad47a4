// What a real run leaves behind for its user: TensorBoard's files, opened with
// the real package, a profile, and the times in its summary.

#include <dirent.h>
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/digits.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"
#include "tests/trainer/monitoring/event_reader.h"

namespace millrace::testing {
namespace {

using ::google::protobuf::Struct;
using ::google::protobuf::Value;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> files;
  DIR* open = opendir(folder.c_str());
  if (open == nullptr) return files;
  while (const dirent* entry = readdir(open)) {
    if (entry->d_name[0] != '.') {
      files.push_back(absl::StrCat(folder, "/", entry->d_name));
    }
  }
  closedir(open);
  std::sort(files.begin(), files.end());
  return files;
}

Struct ParseJson(const std::string& text) {
  Struct json;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text, &json).ok())
      << text.substr(0, 500);
  return json;
}

class TrainLogs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string uri = absl::StrCat("lmdb:", NewTempDir(), "/digits");
    ASSERT_TRUE(WriteDigits(uri, 200).ok());
    auto server = ServerProcess::Start(
        {absl::StrCat("--dataset=digits=", uri), "--threads=1"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = server->release();
  }
  static void TearDownTestSuite() { delete server_; }

  static std::vector<std::string> Command(
      const std::vector<std::string>& flags) {
    std::vector<std::string> command = {ProgramPath("trainer/millrace-train"),
                                        "--endpoint=" + server_->address(),
                                        "--dataset=digits",
                                        "--preset=mnist",
                                        "--batch_size=20",
                                        "--seed=1"};
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }
  static ProgramResult Run(const std::vector<std::string>& flags) {
    return RunProgram(Command(flags));
  }

  // tag -> step -> value, as the tensorboard package reads a folder.
  static std::map<std::string, std::map<int64_t, double>> OpenInTensorBoard(
      const std::string& folder) {
    const ProgramResult read =
        RunProgram({"/usr/bin/python3", "-B",
                    ProgramPath("tests/trainer/monitoring/read_events.py"),
                    ProgramPath("external/tensorboard/site"), folder});
    EXPECT_EQ(read.exit_code, 0) << read.err;
    std::map<std::string, std::map<int64_t, double>> tags;
    const Struct json = ParseJson(read.out);
    for (const auto& [tag, points] : json.fields()) {
      for (const Value& point : points.list_value().values()) {
        const auto& pair = point.list_value().values();
        tags[tag][static_cast<int64_t>(pair[0].number_value())] =
            pair[1].number_value();
      }
    }
    return tags;
  }

  static ServerProcess* server_;
  const std::string folder_ = NewTempDir();
};

ServerProcess* TrainLogs::server_ = nullptr;

std::vector<int64_t> Steps(const std::map<int64_t, double>& points) {
  std::vector<int64_t> steps;
  for (const auto& [step, value] : points) steps.push_back(step);
  return steps;
}

// 10 steps an epoch; the second run goes on where a checkpoint was written.
TEST_F(TrainLogs, OpenInTensorBoardAlsoAfterAResume) {
  const std::string logs = folder_ + "/logs/run";
  const std::string checkpoint = folder_ + "/run.ckpt";
  const ProgramResult first = Run(
      {"--epochs=2", "--max_steps=10", "--log_every=4", "--lr=0.01",
       "--eval_dataset=digits", "--eval_preset=mnist", "--tensorboard=" + logs,
       "--checkpoint=" + checkpoint, "--json=" + folder_ + "/first.json"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  auto tags = OpenInTensorBoard(logs);
  EXPECT_THAT(Steps(tags["Loss/train"]), ElementsAre(4, 8, 10));
  EXPECT_THAT(Steps(tags["Loss/val"]), ElementsAre(10));

  const ProgramResult rest =
      Run({"--epochs=2", "--log_every=4", "--lr=0.01", "--eval_dataset=digits",
           "--eval_preset=mnist", "--tensorboard=" + logs,
           "--resume=" + checkpoint, "--json=" + folder_ + "/rest.json"});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_THAT(FilesIn(logs), SizeIs(2));
  tags = OpenInTensorBoard(logs);
  EXPECT_THAT(Steps(tags["Loss/train"]), ElementsAre(4, 8, 10, 14, 18, 20));
  EXPECT_THAT(Steps(tags["Accuracy/val"]), ElementsAre(10, 20));
  EXPECT_THAT(Steps(tags["Loss/train_epoch"]), ElementsAre(10, 20));
  EXPECT_NEAR(tags["Train/learning_rate"][14], 0.01, 1e-6);
  std::set<std::string> names;
  for (const auto& [tag, points] : tags) names.insert(tag);
  EXPECT_THAT(
      names,
      IsSupersetOf({"Time/step_ms", "Time/data_ms", "Time/copy_ms",
                    "Time/compute_ms", "Time/forward_ms", "Time/backward_ms",
                    "Time/optimizer_ms", "Time/allreduce_ms",
                    "Load/stall_percent", "Load/device_busy_percent",
                    "Load/cpu_percent", "Load/pinned_bytes",
                    "Train/samples_per_second", "Train/epoch_seconds"}));
  for (const auto& [step, value] : tags["Time/backward_ms"]) {
    EXPECT_GT(value, 0) << step;
    EXPECT_LE(value, tags["Time/step_ms"][step]) << step;
  }
  const Struct summary = ParseJson(ReadFile(folder_ + "/rest.json"));
  const double accuracy = summary.fields().at("eval_accuracy").number_value();
  EXPECT_NEAR(tags["Accuracy/val"][20], accuracy, 1e-6);

  // What our own reader says: every record is whole.
  for (const std::string& file : FilesIn(logs)) {
    EXPECT_EQ(ReadEvents(ReadFile(file)).error, "") << file;
  }

  // The summary's times belong together.
  const auto& times = summary.fields().at("times").struct_value().fields();
  const auto number = [&times](const char* key) {
    return times.at(key).number_value();
  };
  EXPECT_EQ(number("steps"), 10);
  EXPECT_EQ(number("samples"), 200);
  EXPECT_GT(number("forward_seconds"), 0);
  EXPECT_GT(number("backward_seconds"), 0);
  EXPECT_GT(number("optimizer_seconds"), 0);
  EXPECT_GT(number("cpu_seconds"), 0);
  EXPECT_LE(number("data_seconds") + number("compute_seconds"),
            number("seconds") * 1.0001);
  EXPECT_EQ(summary.fields().at("epoch_times").list_value().values_size(), 1);
}

// The trace is what Perfetto and TensorBoard read: Chrome's trace format.
TEST_F(TrainLogs, AProfileNamesTheStepsAndTheOperators) {
  const std::string traces = folder_ + "/traces";
  const ProgramResult run = Run({"--nproc=2", "--epochs=1", "--model=cnn",
                                 "--profile=" + traces, "--profile_steps=3-4"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("profile of steps 3 to 4: " + traces),
                             HasSubstr("aten::convolution_backward"),
                             HasSubstr("self CPU")));
  const std::vector<std::string> files = FilesIn(traces);
  ASSERT_THAT(files, SizeIs(2)) << "one for each rank";
  for (const std::string& file : files) {
    EXPECT_TRUE(absl::EndsWith(file, ".pt.trace.json")) << file;
    const Struct trace = ParseJson(ReadFile(file));
    std::map<std::string, int> names;
    for (const Value& event :
         trace.fields().at("traceEvents").list_value().values()) {
      const auto& fields = event.struct_value().fields();
      if (fields.count("dur") > 0) {
        ++names[fields.at("name").string_value()];
      }
    }
    EXPECT_EQ(names["ProfilerStep#3"], 1);
    EXPECT_EQ(names["ProfilerStep#4"], 1);
    EXPECT_EQ(names["ProfilerStep#5"], 0);
    for (const char* part :
         {"data", "ranks", "forward", "backward", "optimizer"}) {
      EXPECT_EQ(names[part], 2) << part;
    }
    EXPECT_GT(names["gloo:all_reduce"], 0);
    EXPECT_GT(names["aten::convolution_backward"], 0);
  }
}

// The run ended with 0 and named a file that was not there.
TEST_F(TrainLogs, AProfileThatCannotBeWrittenIsAnError) {
  const std::string traces = folder_ + "/full";
  std::vector<std::string> limited = {"/bin/sh", "-c",
                                      "ulimit -f 20; exec \"$@\"", "sh"};
  for (const std::string& word : Command(
           {"--max_steps=4", "--profile=" + traces, "--profile_steps=2-3"})) {
    limited.push_back(word);
  }
  const ProgramResult run = RunProgram(limited);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("millrace-train: --profile: the trace could "
                                 "not be written to " +
                                 traces));
  EXPECT_THAT(run.out, AllOf(HasSubstr("epoch 1/"), HasSubstr("self CPU"),
                             Not(HasSubstr(traces))));
  EXPECT_THAT(FilesIn(traces), SizeIs(0));
}

TEST_F(TrainLogs, AProfileThatNeverBeganIsSaid) {
  const ProgramResult run =
      Run({"--max_steps=3", "--profile=" + folder_ + "/traces"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("this run had 3 steps, and --profile_steps "
                                 "begins with step 5"));
  EXPECT_THAT(FilesIn(folder_ + "/traces"), SizeIs(0));
}

TEST_F(TrainLogs, MistakesAreSaidBeforeTraining) {
  WriteFile(folder_ + "/file", "");
  struct Mistake {
    std::vector<std::string> flags;
    std::string expected;
    int exit_code;
  };
  const Mistake kMistakes[] = {
      {{"--profile_steps=3-4"},
       "--profile_steps has no effect without --profile",
       2},
      {{"--profile=" + folder_, "--profile_steps=4-3"}, "give FROM-TO", 2},
      {{"--profile=" + folder_, "--profile_steps=0"}, "give FROM-TO", 2},
      {{"--profile=" + folder_ + "/file"}, folder_ + "/file is a file", 2},
      {{"--tensorboard=" + folder_ + "/file"}, folder_ + "/file is a file", 2},
      {{"--tensorboard=" + folder_ + "/file/logs"},
       folder_ + "/file is a file; name a folder",
       2},
      {{"--audit_dir=" + folder_ + "/file"}, folder_ + "/file is a file", 2},
      // Was accepted, and the batch of a loss of NaN was lost.
      {{"--failed_batch=" + folder_ + "/file"}, folder_ + "/file is a file", 2},
      {{"--failed_batch=" + folder_ + "/file/bad"},
       folder_ + "/file is a file",
       2},
  };
  for (const auto& [flags, expected, exit_code] : kMistakes) {
    const ProgramResult run = Run(flags);
    EXPECT_EQ(run.exit_code, exit_code) << flags.back();
    EXPECT_THAT(run.err, HasSubstr(expected)) << flags.back();
  }
}

// Folders of --profile and --tensorboard stayed, and an event file without a
// point.
TEST_F(TrainLogs, ARunThatFailsBeforeItsFirstStepLeavesNoFolders) {
  WriteFile(folder_ + "/file", "no weights");
  const ProgramResult run = Run(
      {"--init_weights=" + folder_ + "/file", "--profile=" + folder_ + "/p",
       "--profile_steps=1-2", "--tensorboard=" + folder_ + "/t/run1",
       "--audit_dir=" + folder_ + "/a", "--failed_batch=" + folder_ + "/f"});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_THAT(FilesIn(folder_), ElementsAre(folder_ + "/file"));
}

}  // namespace
}  // namespace millrace::testing
