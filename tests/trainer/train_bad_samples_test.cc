// What a run says of damaged samples, as a user sees it: the error that ends
// it, and what became of them under ZERO and SUBSTITUTE.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// "photos" has 24 samples of two classes, of which two are damaged.
class BadSamples : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("OMP_NUM_THREADS", "1", 1);
    const std::string folder = NewTempDir();
    for (int i = 0; i < 24; ++i) {
      const std::string path =
          absl::StrCat(folder, i % 2 == 0 ? "/in/cat/" : "/in/dog/");
      for (const std::string& made :
           {folder + "/in", path.substr(0, path.size() - 1)}) {
        mkdir(made.c_str(), 0755);
      }
      JpegKind kind;
      kind.width = kind.height = 16;
      const std::vector<uint8_t> jpeg = WriteJpeg(kind, i);
      const size_t bytes = i == 6 || i == 17 ? 20 : jpeg.size();
      WriteFile(absl::StrCat(path, i, ".jpg"),
                std::string(jpeg.begin(), jpeg.begin() + bytes));
    }
    const std::string uri = absl::StrCat("lmdb:", folder, "/photos.lmdb");
    const ProgramResult packed =
        RunProgram({ProgramPath("server/data_tool/millrace-data"), "pack",
                    "--no_decode", "--format=imagefolder",
                    "--input=" + folder + "/in", "--output=" + uri});
    ASSERT_EQ(packed.exit_code, 0) << packed.err;
    auto started =
        ServerProcess::Start({"--dataset=photos=" + uri, "--threads=1"});
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = std::move(*started).release();
  }
  static void TearDownTestSuite() { delete server_; }

  ProgramResult Run(const std::string& policy,
                    const std::vector<std::string>& flags) const {
    std::vector<std::string> command = {ProgramPath("trainer/millrace-train"),
                                        "--endpoint=" + server_->address(),
                                        "--dataset=photos",
                                        "--pipeline=" + Pipeline(policy),
                                        "--model=cnn",
                                        "--seed=1",
                                        "--batch_size=8",
                                        "--epochs=2",
                                        "--json=" + Path("run.json")};
    command.insert(command.end(), flags.begin(), flags.end());
    return RunProgram(command);
  }
  std::string Pipeline(const std::string& policy) const {
    const std::string path = Path(policy + ".textproto");
    WriteFile(path, absl::StrCat("transforms { decode_image {} } transforms { "
                                 "center_crop { height: 16 width: 16 } } "
                                 "bad_samples { action: ",
                                 policy, " }"));
    return path;
  }
  std::string Path(const std::string& name) const {
    return folder_ + "/" + name;
  }

  static inline ServerProcess* server_ = nullptr;
  const std::string folder_ = NewTempDir();
};

TEST_F(BadSamples, EndTheRunByTheirPlace) {
  const ProgramResult run = Run("FAIL", {});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("millrace-train: DATA_LOSS: [decode error, "
                              "dataset photos, shard photos.lmdb, row "),
                    HasSubstr("sample "),
                    HasSubstr("`millrace-data verify` names all damaged "
                              "samples of a dataset; to train without them: "
                              "bad_samples { action: SUBSTITUTE } (or ZERO) in "
                              "the file of --pipeline")));
}

// The message ended with "the JPEG is truncated".
TEST_F(BadSamples, EndTheOtherProgramsWithWhatToDo) {
  for (const std::string command : {"bench", "audit", "replay"}) {
    std::vector<std::string> words = {
        ProgramPath("client/cli/millrace"), command,
        "--endpoint=" + server_->address(), "--dataset=photos",
        "--pipeline=" + Pipeline("FAIL"),   "--batch_size=24"};
    if (command == "replay") {
      words.insert(words.end(),
                   {"--position=0:0", "--output=" + Path("batch")});
    }
    const ProgramResult run = RunProgram(words);
    EXPECT_EQ(run.exit_code, 1) << command;
    EXPECT_THAT(run.err,
                AllOf(HasSubstr("DATA_LOSS: [decode error, dataset photos"),
                      HasSubstr("`millrace-data verify` names all damaged "
                                "samples of a dataset"),
                      HasSubstr("bad_samples { action: SUBSTITUTE }")))
        << command;
  }
}

TEST_F(BadSamples, OfAnEvaluationAreMetByItsOwnPipeline) {
  const ProgramResult run =
      Run("ZERO", {"--eval_dataset=photos", "--eval_preset=imagenet_eval",
                   "--model=resnet18", "--max_steps=1"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err,
              HasSubstr("to train without them: --eval_pipeline=FILE with the "
                        "text `preset: \"imagenet_eval\" bad_samples { action: "
                        "SUBSTITUTE }` (or ZERO)"));
}

TEST_F(BadSamples, LeaveEmptyRowsThatAreCounted) {
  const ProgramResult run = Run(
      "ZERO", {"--nproc=2", "--audit_dir=" + Path("audit"),
               "--eval_dataset=photos", "--eval_pipeline=" + Pipeline("ZERO")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(
      run.err,
      AllOf(HasSubstr("a data server found a damaged sample: photos shard "
                      "photos.lmdb row "),
            HasSubstr("bad_samples ZERO leaves its row empty")));
  EXPECT_THAT(
      run.out,
      AllOf(HasSubstr("bad samples: 2 of 24 rows of this epoch are empty "
                      "(bad_samples ZERO); damaged: photos shard photos.lmdb "
                      "row "),
            HasSubstr("22 samples (2 damaged samples left out by bad_samples "
                      "ZERO)"),
            HasSubstr("bad samples (ZERO): the servers found 2 damaged "
                      "samples, 4 rows were left empty"),
            HasSubstr("both produce the same from a sample")));
  const std::string json = ReadFile(Path("run.json"));
  EXPECT_THAT(json, AllOf(HasSubstr("{\"policy\": \"ZERO\", \"empty_rows\": "
                                    "[2, 2], \"eval_empty_rows\": [2, 2],"),
                          HasSubstr("{\"dataset\": \"photos\", \"shard\": "
                                    "\"photos.lmdb\", \"row\": ")));

  const auto audit = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> command = {ProgramPath("client/cli/millrace"),
                                        "audit", "--files=" + Path("audit")};
    command.insert(command.end(), flags.begin(), flags.end());
    return RunProgram(command);
  };
  const ProgramResult alone = audit({});
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_THAT(alone.out,
              AllOf(HasSubstr("exactly once, damaged samples as empty rows"),
                    HasSubstr("they do not show which or how many rows were "
                              "empty")));
  const ProgramResult compared =
      audit({"--endpoint=" + server_->address(), "--compare=1000", "--json"});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_THAT(compared.out,
              AllOf(HasSubstr("\"result\": \"exactly_once_or_empty\""),
                    HasSubstr("\"compared_empty_rows\": 4")));
}

TEST_F(BadSamples, AreReplacedAndNamed) {
  const ProgramResult run = Run(
      "SUBSTITUTE", {"--audit_dir=" + Path("audit"), "--eval_dataset=photos",
                     "--eval_pipeline=" + Pipeline("ZERO")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(
      run.err,
      AllOf(HasSubstr("found a damaged sample: photos shard photos.lmdb "),
            HasSubstr("SUBSTITUTE puts another sample in its place")));
  EXPECT_THAT(
      run.out,
      AllOf(HasSubstr(
                "the servers found 2 damaged samples so far and substituted "
                "others (bad_samples SUBSTITUTE); damaged: photos "
                "shard photos.lmdb row "),
            HasSubstr(absl::StrCat(
                "pipelines: training by --pipeline=",
                Path("SUBSTITUTE.textproto"),
                ", evaluation by --eval_pipeline=", Path("ZERO.textproto"))),
            HasSubstr("they differ in bad_samples (SUBSTITUTE for training, "
                      "ZERO for evaluation)")));
  EXPECT_THAT(ReadFile(Path("run.json")),
              HasSubstr("{\"policy\": \"SUBSTITUTE\", \"empty_rows\": [], "
                        "\"eval_empty_rows\": [2, 2],"));
  const ProgramResult audit = RunProgram({ProgramPath("client/cli/millrace"),
                                          "audit", "--files=" + Path("audit")});
  EXPECT_EQ(audit.exit_code, 0) << audit.err;
  EXPECT_THAT(audit.out,
              AllOf(HasSubstr("they do not show which samples were replaced"),
                    Not(HasSubstr("exactly once"))));
}

}  // namespace
}  // namespace millrace::testing
