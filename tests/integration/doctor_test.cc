// Real runs, each with one thing that is too slow on purpose: the doctor names
// that thing.

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/integration/audit_data.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/tcp_gate.h"

namespace millrace::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class DoctorIntegrationTest : public ServiceTest {
 protected:
  static std::unique_ptr<ServerProcess> Serve(std::vector<std::string> flags) {
    flags.push_back("--memory_budget=256MiB");
    return ServiceTest::Serve(flags);
  }

  // Trains on `pipeline` and leaves the summary at Path(name).
  void Train(const std::string& name, const std::string& endpoint,
             const std::string& pipeline,
             const std::vector<std::string>& flags) const {
    WriteFile(Path("pipeline"), pipeline);
    std::vector<std::string> command = {
        ProgramPath("trainer/millrace-train"), "--endpoint=" + endpoint,
        "--pipeline=" + Path("pipeline"), "--json=" + Path(name),
        "--model=cnn"};  // unless `flags` name another
    command.insert(command.end(), flags.begin(), flags.end());
    const ProgramResult run = RunProgram(command);
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }

  static google::protobuf::Struct Doctor(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "doctor");
    arguments.push_back("--json");
    const ProgramResult doctor = Millrace(arguments);
    EXPECT_EQ(doctor.exit_code, 0) << doctor.err;
    google::protobuf::Struct answer;
    EXPECT_TRUE(
        google::protobuf::util::JsonStringToMessage(doctor.out, &answer).ok())
        << doctor.out;
    return answer;
  }

  // By the first run.
  void ExpectNamed(const std::string& part, const std::string& advice,
                   const std::string& endpoint, const std::string& pipeline,
                   const std::vector<std::string>& flags) const {
    Train("run.json", endpoint, pipeline, flags);
    if (HasFatalFailure()) return;
    const auto answer = Doctor({"--run=" + Path("run.json")});
    std::string found = answer.fields().at("bottleneck").string_value();
    // Other tests may keep the machine busy, which is said first.
    const auto& findings = answer.fields().at("findings").list_value().values();
    if (found == "other_programs" && findings.size() > 1) {
      found = findings[1].struct_value().fields().at("part").string_value();
    }
    EXPECT_EQ(found, part) << ReadFile(Path("run.json"));
    const ProgramResult doctor =
        Millrace({"doctor", "--run=" + Path("run.json")});
    EXPECT_EQ(doctor.exit_code, 0) << doctor.err;
    EXPECT_THAT(doctor.out, HasSubstr("bottleneck: "));
    EXPECT_THAT(doctor.out, HasSubstr(advice));
  }
};

// A small image to learn from, a label, and `more` fields beside them.
std::string Synthetic(const std::string& options, const std::string& more) {
  return absl::StrCat(
      "sources { synthetic { samples: 100000 ", options,
      " fields { name: 'image' dtype: DTYPE_UINT8 shape: [8, 8, 1] }"
      " fields { name: 'label' dtype: DTYPE_INT64 num_classes: 10 } ",
      more, " } } ");
}

TEST_F(DoctorIntegrationTest, StorageIsNamed) {
  const auto server =
      Serve({"--synthetic_only", "--threads=4", "--read_threads=2"});
  ExpectNamed("storage", "--read_threads", server->address(),
              absl::StrCat(Synthetic("latency_us: 2000", ""), "batch_size: 8"),
              {"--max_steps=240", "--window=8"});
}

// A row takes ten times as long as a step, also beside other tests. An epoch of
// fewer than four batches has no verdict.
TEST_F(DoctorIntegrationTest, DecodingIsNamed) {
  const auto server = Serve(
      {"--threads=1", Pack("photos", "imagefolder",
                           WriteImageFolder(24, /*scale=*/4), "lmdb", 1)});
  ExpectNamed("decoding", "add servers: --endpoint=", server->address(),
              "sources { dataset: 'photos' } batch_size: 4 "
              "transforms { decode_image { color: GRAY mode: EXACT } } "
              "transforms { resize { height: 28 width: 28 } } "
              "transforms { normalize { mean: 0.5 stddev: 0.5 } }",
              {"--model=mlp", "--epochs=5", "--window=8"});
}

// Ten batches a second, each much more than what the gate lets through at once.
TEST_F(DoctorIntegrationTest, TheNetworkIsNamed) {
  const auto server = Serve({"--synthetic_only", "--threads=4"});
  TcpGate gate(server->port());
  gate.Limit(40'000'000);
  ExpectNamed("network", "COMPRESSION_ZSTD", gate.address(),
              absl::StrCat(Synthetic("",
                                     "fields { name: 'more' dtype: "
                                     "DTYPE_UINT8 shape: 16000 }"),
                           "batch_size: 250"),
              {"--max_steps=25", "--window=4"});
}

// The server's batches lie ready; a step needs much more than a batch.
TEST_F(DoctorIntegrationTest, TheModelIsNamed) {
  const auto server = Serve({"--synthetic_only", "--threads=1"});
  ExpectNamed("compute", "--batch_size=32", server->address(),
              "sources { synthetic { samples: 100000 ready_batches: 4"
              " fields { name: 'image' dtype: DTYPE_UINT8 shape: [32, 32, 3] }"
              " fields { name: 'label' dtype: DTYPE_INT64 num_classes: 10 }"
              " } } batch_size: 16",
              {"--model=resnet18", "--max_steps=12"});
}

// A large tensor is made floats and normalised by the trainer, and not used.
// (The first batches may come before the shared memory is there.)
TEST_F(DoctorIntegrationTest, TheTrainersOwnCpuIsNamed) {
  const auto server = Serve({"--synthetic_only", "--threads=4"});
  ExpectNamed(
      "trainer_cpu", "PLACEMENT_SERVER", server->address(),
      absl::StrCat(Synthetic("",
                             "fields { name: 'more' dtype: "
                             "DTYPE_UINT8 shape: [512, 512, 3] }"),
                   "batch_size: 8 transforms { normalize { fields: "
                   "'more' mean: [0.5, 0.5, 0.5] stddev: [0.5, 0.5, "
                   "0.5] } }"),
      {"--input=image", "--max_steps=240", "--window=8", "--same_host"});
}

// Reads that wait, and reads that do not.
TEST_F(DoctorIntegrationTest, AChangeThatHelpedIsSeen) {
  const auto server = Serve({"--synthetic_only", "--threads=2"});
  const auto pipeline = [](int latency_us) {
    return absl::StrCat(
        "sources { synthetic { samples: 256 latency_us: ", latency_us,
        " fields { name: 'image' dtype: DTYPE_UINT8 shape: [8, 8, 1] }"
        " fields { name: 'label' dtype: DTYPE_INT64 num_classes: 10 } } } "
        "batch_size: 16");
  };
  Train("slow.json", server->address(), pipeline(20000),
        {"--epochs=3", "--window=4"});
  Train("fast.json", server->address(), pipeline(0),
        {"--epochs=3", "--window=8"});
  const auto answer =
      Doctor({"--compare", Path("slow.json"), Path("fast.json")});
  const auto& comparison =
      answer.fields().at("comparison").struct_value().fields();
  EXPECT_EQ(comparison.at("result").string_value(), "faster");
  EXPECT_GT(comparison.at("times_as_fast").number_value(), 1);
  const ProgramResult text = Millrace({"doctor", "--run=" + Path("slow.json"),
                                       "--compare=" + Path("fast.json")});
  EXPECT_THAT(text.out, HasSubstr("the change hurt: "));
  EXPECT_THAT(text.out, HasSubstr("--window=8"));
}

// It said "waiting for data 0.00 s" and named other programs.
TEST_F(DoctorIntegrationTest, ARunThatEndedInAWaitIsNamed) {
  const auto server = Serve({"--synthetic_only", "--threads=1"});
  WriteFile(Path("pipeline"),
            "sources { synthetic { samples: 64"
            " fields { name: 'image' dtype: DTYPE_UINT8 shape: [8, 8, 1] }"
            " fields { name: 'label' dtype: DTYPE_INT64 num_classes: 10 } } } "
            "batch_size: 16");
  Subprocess run({ProgramPath("trainer/millrace-train"),
                  "--endpoint=" + server->address(),
                  "--pipeline=" + Path("pipeline"),
                  "--json=" + Path("run.json"), "--model=cnn",
                  "--epochs=100000000", "--data_timeout=3s", "--log_every=0"});
  while (run.Running() && run.Stdout().find("epoch 2/") == std::string::npos) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  server->process().Signal(SIGSTOP);
  EXPECT_EQ(run.Wait(), 1);
  server->process().Signal(SIGCONT);
  const auto answer = Doctor({"--run=" + Path("run.json")});
  EXPECT_EQ(answer.fields().at("bottleneck").string_value(), "no_answer");
  EXPECT_EQ(answer.fields().at("ended").string_value(), "failed");
  const ProgramResult text = Millrace({"doctor", "--run=" + Path("run.json")});
  EXPECT_EQ(text.out.find("the run failed: no batch within 3"), 0u) << text.out;
  const auto& finding =
      answer.fields().at("findings").list_value().values()[0].struct_value();
  EXPECT_GT(finding.fields().at("share").number_value(), 0);
  google::protobuf::Struct run_json;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(
                  ReadFile(Path("run.json")), &run_json)
                  .ok());
  EXPECT_GE(run_json.fields()
                .at("times")
                .struct_value()
                .fields()
                .at("data_seconds")
                .number_value(),
            3);
}

TEST_F(DoctorIntegrationTest, SaysWhatItNeeds) {
  EXPECT_EQ(Millrace({"doctor"}).exit_code, 2);
  const ProgramResult none = Millrace({"doctor", "--run=/no/such/run.json"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("/no/such/run.json"));
  WriteFile(Path("old.json"), "{\"model\": \"mlp\"}");
  const ProgramResult old = Millrace({"doctor", "--run=" + Path("old.json")});
  EXPECT_EQ(old.exit_code, 2);
  EXPECT_THAT(old.err, HasSubstr("earlier version"));
}

}  // namespace
}  // namespace millrace::testing
