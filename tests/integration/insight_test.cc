// What a job leaves behind and what is made of it: `millrace replay`, `millrace
// audit --files`, the line that says why it waited; and how often a server
// opens files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/audit/audit_log.h"
#include "client/audit/audit_record.h"
#include "client/prefetch/host_loader.h"
#include "tests/integration/audit_data.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::millrace::testing::Millrace;
using ::millrace::testing::NewTempDir;
using ::millrace::testing::Pack;
using ::millrace::testing::ProgramResult;
using ::millrace::testing::ReadFile;
using ::millrace::testing::WriteFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kDigits = 1003;
constexpr int kPhotos = 40;
constexpr uint64_t kBatch = 48;
constexpr uint64_t kSteps = kDigits / kBatch;  // 20, and 43 samples are left

class InsightTest : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() {
    const std::string digits = testing::WriteIdxFolder(kDigits);
    const std::string photos = testing::WriteImageFolder(kPhotos);
    server_ = Serve({Pack("digits", "idx", digits, "lmdb", 2),
                     Pack("photos", "imagefolder", photos, "lmdb", 3),
                     "--threads=2", "--memory_budget=512MiB"});
  }
  static void TearDownTestSuite() { server_.reset(); }

  static HostLoaderOptions Digits(uint32_t rank, uint32_t world,
                                  LastBatch last = LAST_BATCH_PAD) {
    HostLoaderOptions options = Options(server_->address(), kBatch);
    options.spec.set_seed(5);
    options.spec.set_last_batch(last);
    options.rank = rank;
    options.world_size = world;
    return options;
  }

  // One start of a job: each rank is given `steps` steps from `start` on, and
  // writes its log into `folder`.
  static void RunRanks(const std::string& folder, uint64_t attempt,
                       uint32_t world, Position start, uint64_t steps,
                       LastBatch last = LAST_BATCH_PAD) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      HostLoaderOptions options = Digits(rank, world, last);
      options.start = start;
      options.epochs = 0;
      const auto loader = Open(options);
      const OpenResponse& plan = loader->plan();
      AuditRun run;
      run.set_attempt(attempt);
      run.set_rank(rank);
      run.set_world_size(world);
      run.set_plan_hash(plan.plan_hash());
      run.set_fingerprint(plan.fingerprint());
      *run.mutable_resolved_spec() = plan.resolved_spec();
      run.set_steps_per_epoch(plan.steps_per_epoch());
      run.set_samples_per_epoch(plan.samples_per_epoch());
      run.set_dropped_per_epoch(plan.dropped_per_epoch());
      run.set_payload_digests(true);
      run.set_endpoint(options.endpoint);
      auto log = audit::AuditWriter::Open(LogOf(folder, rank), run);
      ASSERT_TRUE(log.ok()) << log.status();
      for (uint64_t i = 0; i < steps; ++i) {
        auto batch = loader->Next();
        ASSERT_TRUE(batch.ok()) << batch.status();
        auto record = audit::RecordOf(batch->header, batch->payload);
        ASSERT_TRUE(record.ok()) << record.status();
        ASSERT_TRUE((*log)->Append(batch->position, *record).ok());
      }
    }
  }
  static std::string LogOf(const std::string& folder, uint32_t rank) {
    return absl::StrFormat("%s/rank-%05d.mraudit", folder, rank);
  }

  static inline std::unique_ptr<testing::ServerProcess> server_;
};

// The elements of a .npy file.
std::string NpyData(const std::string& path, const std::string& descr,
                    const std::string& shape) {
  const std::string bytes = ReadFile(path);
  if (bytes.size() < 10 ||
      bytes.substr(0, 8) != std::string("\x93NUMPY\x01\0", 8)) {
    ADD_FAILURE() << path << " is no .npy file";
    return "";
  }
  const size_t header =
      static_cast<uint8_t>(bytes[8]) +
      256 * static_cast<size_t>(static_cast<uint8_t>(bytes[9]));
  EXPECT_EQ((10 + header) % 64, 0);
  EXPECT_THAT(bytes.substr(10, header),
              HasSubstr(absl::StrCat("{'descr': '", descr,
                                     "', 'fortran_order': False, 'shape': (",
                                     shape, "), }")));
  return bytes.substr(10 + header);
}

TEST_F(InsightTest, ReplayGivesTheBatchThatWasStreamed) {
  HostLoaderOptions options = Digits(1, 2);
  options.start = {1, 3};
  const auto loader = Open(options);
  auto batch = loader->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();

  const std::string folder = Path("batch");
  const std::vector<std::string> command = {"replay",
                                            "--endpoint=" + server_->address(),
                                            "--dataset=digits",
                                            "--preset=mnist",
                                            "--batch_size=48",
                                            "--seed=5",
                                            "--last_batch=pad",
                                            "--position=1:3",
                                            "--rank=1",
                                            "--world=2",
                                            "--output=" + folder};
  const ProgramResult result = Millrace(command);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string digest =
      absl::StrFormat("%016x", batch->header.payload_xxh3());
  EXPECT_THAT(result.out, HasSubstr(digest));
  const std::string json = ReadFile(folder + "/batch.json");
  EXPECT_THAT(json, AllOf(HasSubstr("\"payload_xxh3\": \"" + digest + "\""),
                          HasSubstr("\"epoch\": 1, \"step\": 3"),
                          HasSubstr("\"dataset\": \"digits\""),
                          HasSubstr("\"shard\": \"part-0000"),
                          Not(HasSubstr("not_explained"))));
  for (const TensorHeader& tensor : batch->header.tensors()) {
    const bool index = tensor.name() == "sample_index";
    if (!index && tensor.name() != "image") continue;
    const std::string data =
        NpyData(folder + "/" + tensor.name() + ".npy", index ? "<i8" : "|u1",
                index ? "24," : "24, 28, 28, 1");
    EXPECT_EQ(data, std::string(reinterpret_cast<const char*>(
                                    batch->payload.data() + tensor.offset()),
                                tensor.bytes()))
        << tensor.name();
  }
  // It does not mix two batches in one folder.
  const ProgramResult again = Millrace(command);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("already contains a batch"));
  std::vector<std::string> onto_a_file = command;
  onto_a_file.back() = "--output=" + folder + "/batch.json";
  const ProgramResult file = Millrace(onto_a_file);
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_THAT(file.err, HasSubstr("batch.json: it is a file"));
}

// A file of the user, and a dataset behind a link, had the name of a tensor:
// they were overwritten, with exit code 0. A limit of the file size ended the
// program with a signal, and left a part of a file.
TEST_F(InsightTest, ReplayReplacesNoFileAndLeavesNoPart) {
  const std::string folder = Path("batch");
  const std::string data = Path("photos.parquet");
  WriteFile(data, "PAR1");
  ASSERT_EQ(mkdir(folder.c_str(), 0777), 0);
  ASSERT_EQ(symlink(data.c_str(), (folder + "/image.npy").c_str()), 0);
  const std::vector<std::string> command = {"replay",
                                            "--endpoint=" + server_->address(),
                                            "--dataset=digits",
                                            "--preset=mnist",
                                            "--batch_size=48",
                                            "--position=0:0",
                                            "--output=" + folder};
  const auto expect_refused = [&] {
    const ProgramResult result = Millrace(command);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(folder + "/image.npy exists"),
                                  HasSubstr("give another --output=DIR")));
    EXPECT_NE(access((folder + "/label.npy").c_str(), F_OK), 0);
  };
  expect_refused();
  EXPECT_EQ(ReadFile(data), "PAR1");
  ASSERT_EQ(unlink((folder + "/image.npy").c_str()), 0);
  ASSERT_EQ(mkfifo((folder + "/image.npy").c_str(), 0600), 0);
  expect_refused();
  ASSERT_EQ(unlink((folder + "/image.npy").c_str()), 0);

  std::vector<std::string> limited = {
      "/bin/sh", "-c", "ulimit -f 8; exec \"$@\"", "sh",
      testing::ProgramPath("client/cli/millrace")};
  limited.insert(limited.end(), command.begin(), command.end());
  const ProgramResult result = testing::RunProgram(limited);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("cannot write " + folder),
                                HasSubstr("`ulimit -f`")));
  EXPECT_EQ(Millrace(command).exit_code, 0);
}

TEST_F(InsightTest, ReplaySaysWhatWasDrawn) {
  const std::string folder = Path("batch");
  const ProgramResult result =
      Millrace({"replay", "--endpoint=" + server_->address(),
                "--dataset=photos", "--preset=imagenet_train",
                "--batch_size=20", "--position=0:1", "--output=" + folder});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string json = ReadFile(folder + "/batch.json");
  // As `millrace-data preview --explain` has them.
  EXPECT_THAT(json, AllOf(HasSubstr("\"transform\": \"random_resized_crop\""),
                          HasSubstr("\"row\": 19, \"position\": 39"),
                          HasSubstr("\"shard_row\": "),
                          Not(HasSubstr("not_explained"))));
}

TEST_F(InsightTest, ReplayOfNothingIsSaid) {
  const std::string endpoint = "--endpoint=" + server_->address();
  const std::string output = "--output=" + Path("batch");
  struct Case {
    std::vector<std::string> flags;
    int exit_code;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{endpoint, "--dataset=digits", output},
       2,
       "flag --position=EPOCH:STEP is missing"},
      {{endpoint, "--dataset=digits", "--position=3", output}, 2, "EPOCH:STEP"},
      {{endpoint, "--dataset=digits", "--position=0:0"}, 2, "--output=DIR"},
      {{endpoint, "--dataset=digits", "--position=0:999999", output},
       2,
       "999999"},
      // It was "all batches up to epoch 1 step 0 were delivered".
      {{endpoint, "--dataset=digits", "--batch_size=20", "--position=0:50",
        output},
       2,
       "is past the end of an epoch of"},
      {{endpoint, "--dataset=digits", "--position=0:0", "--rank=2", "--world=2",
        output},
       2,
       "rank 2"},
      {{endpoint, "--run=/none", "--position=0:0", output}, 2, "/none"},
  };
  for (const Case& one : cases) {
    std::vector<std::string> arguments = one.flags;
    arguments.insert(arguments.begin(), "replay");
    const ProgramResult result = Millrace(arguments);
    EXPECT_EQ(result.exit_code, one.exit_code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(one.says));
  }
}

// It blamed --rank=1, which was not given.
TEST_F(InsightTest, ReplayOfALogInASmallerWorldAsksForTheRank) {
  const std::string folder = NewTempDir();
  RunRanks(folder, 1, 2, {0, 0}, 1);
  const ProgramResult result =
      Millrace({"replay", "--run=" + LogOf(folder, 1), "--position=0:0",
                "--world=1", "--output=" + folder + "/batch"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("flag --world=1: the file of --run is of rank 1 "
                              "of 2; give --rank=N too"),
                    Not(HasSubstr("--rank=1"))));
}

TEST_F(InsightTest, AuditProvesAJobOfSeveralStartsAndWorlds) {
  const std::string folder = NewTempDir();
  // Killed in step 13, resumed from 10 with other ranks, to the end of epoch 1.
  RunRanks(folder, 100, 2, {0, 0}, 13);
  RunRanks(folder, 200, 4, {0, 10}, 2 * (kSteps + 1) - 10);
  const ProgramResult result =
      Millrace({"audit", "--files=" + folder, "--expect_epochs=2", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("\"logs\": 4, \"starts\": 2"),
            HasSubstr("\"superseded\": 6"),
            HasSubstr("{\"epoch\": 0, \"steps\": 21, \"samples\": 1003, "
                      "\"result\": \"exactly_once\"}"),
            HasSubstr("{\"epoch\": 1, \"steps\": 21, \"samples\": 1003, "
                      "\"result\": \"exactly_once\"}"),
            HasSubstr("\"problems\": []")));

  // And they are the batches that a server sends.
  const ProgramResult compared =
      Millrace({"audit", "--files=" + folder,
                "--endpoint=" + server_->address(), "--compare=12", "--json"});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_THAT(compared.out,
              HasSubstr("\"compared\": 12, \"compared_payloads\": 12"));

  // A log is enough to have a batch again.
  const ProgramResult replayed =
      Millrace({"replay", "--run=" + LogOf(folder, 3), "--position=1:20",
                "--output=" + folder + "/batch"});
  EXPECT_EQ(replayed.exit_code, 0) << replayed.err;
  EXPECT_THAT(replayed.out,
              AllOf(HasSubstr("rank 3 of 4"), HasSubstr("byte for byte")));

  // It said nothing where the log holds no such step.
  for (const auto& [position, who] :
       {std::pair{"--position=2:0", "--rank=3"},
        std::pair{"--position=1:20", "--rank=1"}}) {
    const std::string output = NewTempDir() + "/batch";
    const ProgramResult none = Millrace({"replay", "--run=" + LogOf(folder, 3),
                                         position, who, "--output=" + output});
    EXPECT_EQ(none.exit_code, 1) << none.out;
    // The next try, with the right step, found a batch in the folder.
    EXPECT_NE(access(output.c_str(), F_OK), 0);
    EXPECT_THAT(none.err, AllOf(HasSubstr("has no record of epoch "),
                                HasSubstr("it holds rank 3 of 4: epoch 0 step "
                                          "10 to epoch 1 step 20")));
  }

  // Without one rank's log nothing is proved.
  ASSERT_EQ(unlink(LogOf(folder, 1).c_str()), 0);
  const ProgramResult missing = Millrace({"audit", "--files=" + folder});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("lost: rank 1 of 4 has no log"));
}

// A job that goes on was called one that had lost data.
TEST_F(InsightTest, AuditOfAnUnfinishedJobNamesWhatIsMissingAtItsEnd) {
  const std::string folder = NewTempDir();
  RunRanks(folder, 1, 2, {0, 0}, kSteps + 1 + 5);
  const auto audit = [&folder](const std::string& epochs) {
    return Millrace(
        {"audit", "--files=" + folder, "--expect_epochs=" + epochs});
  };
  EXPECT_EQ(audit("1").exit_code, 0);
  const ProgramResult result = audit("3");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("the job is not finished: 1 of 3 epochs is "
                              "complete, and the steps from epoch 1 step 5 to "
                              "epoch 2 step 20 are missing at the end"),
                    Not(HasSubstr("DATA_LOSS"))));
}

// It named steps after the end of the job as missing.
TEST_F(InsightTest, AuditOfLogsThatBeginLateNamesWhatIsMissingBefore) {
  const std::string folder = NewTempDir();
  RunRanks(folder, 1, 1, {3, 0}, 2 * (kSteps + 1));
  const auto audit = [&folder](const std::string& epochs) {
    return Millrace(
        {"audit", "--files=" + folder, "--expect_epochs=" + epochs});
  };
  EXPECT_EQ(audit("2").exit_code, 0);
  const ProgramResult whole = audit("5");
  EXPECT_EQ(whole.exit_code, 1);
  EXPECT_THAT(whole.err,
              AllOf(HasSubstr("the logs do not show the whole job: 2 of 5 "
                              "epochs are complete, and the steps from epoch 0 "
                              "step 0 to epoch 2 step 20 are missing at the "
                              "beginning"),
                    Not(HasSubstr("at the end"))));
  EXPECT_THAT(audit("6").err,
              AllOf(HasSubstr("the job is not finished: 2 of 6 epochs are "
                              "complete, and the steps from epoch 0 step 0 to "
                              "epoch 2 step 20 are missing at the beginning, "
                              "and the steps from epoch 5 step 0 to epoch 5 "
                              "step 20 are missing at the end")));
}

// What SIGKILL leaves: a record that is cut short. The step counted as one that
// was repeated after a restart.
TEST_F(InsightTest, AuditOfALogThatEndsInARecord) {
  const std::string folder = NewTempDir();
  RunRanks(folder, 1, 2, {0, 0}, kSteps + 1);
  std::string log = ReadFile(LogOf(folder, 1));
  log.resize(log.size() - 7);
  WriteFile(LogOf(folder, 1), log);
  const ProgramResult cut = Millrace({"audit", "--files=" + folder, "--json"});
  EXPECT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_THAT(
      cut.out,
      AllOf(HasSubstr("\"starts\": 1"), HasSubstr("\"superseded\": 0"),
            HasSubstr("a write was cut short"), HasSubstr("\"steps\": 20, "),
            HasSubstr("\"result\": \"incomplete\"")));
  EXPECT_EQ(
      Millrace({"audit", "--files=" + folder, "--expect_epochs=1"}).exit_code,
      1);
  // After a restart the rest is whole.
  RunRanks(folder, 2, 2, {0, 20}, 1);
  const ProgramResult restarted =
      Millrace({"audit", "--files=" + folder, "--expect_epochs=1", "--json"});
  EXPECT_EQ(restarted.exit_code, 0) << restarted.err;
  EXPECT_THAT(restarted.out, AllOf(HasSubstr("\"superseded\": 1"),
                                   HasSubstr("\"result\": \"exactly_once\"")));
}

// A long warning came with each step that was compared.
TEST_F(InsightTest, AuditNamesAServerOfOtherDataOnce) {
  const auto other = Serve(
      {Pack("digits", "idx", testing::WriteIdxFolder(kDigits - 100), "lmdb", 2),
       "--memory_budget=256MiB"});
  const std::string folder = NewTempDir();
  RunRanks(folder, 1, 1, {0, 0}, kSteps + 1);
  const ProgramResult result =
      Millrace({"audit", "--files=" + folder,
                "--endpoint=" + server_->address() + "," + other->address(),
                "--compare=8", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"compared\": 8"));
  const std::string warning = "the dataset is another one or was changed";
  const size_t first = result.err.find(warning);
  EXPECT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(warning, first + 1), std::string::npos)
      << result.err;
}

TEST_F(InsightTest, AuditProvesWithTheServersWhatWasDropped) {
  const std::string folder = NewTempDir();
  RunRanks(folder, 1, 2, {0, 0}, kSteps, LAST_BATCH_DROP);
  const ProgramResult alone =
      Millrace({"audit", "--files=" + folder, "--json"});
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("\"result\": \"every_step_once\""));
  const ProgramResult with_servers =
      Millrace({"audit", "--files=" + folder,
                "--endpoint=" + server_->address(), "--compare=1", "--json"});
  EXPECT_EQ(with_servers.exit_code, 0) << with_servers.err;
  EXPECT_THAT(with_servers.out, HasSubstr("\"result\": \"exactly_once\""));
}

TEST_F(InsightTest, AuditNamesTheStepWhoseBytesDiffer) {
  const std::string folder = NewTempDir();
  RunRanks(folder, 1, 1, {0, 0}, 4);
  // The log of a batch that was altered on its way into the model.
  auto file = audit::ReadAuditFile(LogOf(folder, 0));
  ASSERT_TRUE(file.ok()) << file.status();
  AuditRun run = file->segments[0].run;
  run.set_attempt(2);
  auto log = audit::AuditWriter::Open(LogOf(folder, 0), run);
  ASSERT_TRUE(log.ok());
  audit::AuditRecord record;
  ASSERT_TRUE(
      audit::ReadAuditRecords(file->segments[0], 3, 1,
                              [&](const audit::AuditRecord& r) { record = r; })
          .ok());
  record.payload_xxh3 ^= 1;
  ASSERT_TRUE((*log)->Append({0, 3}, record).ok());
  const ProgramResult result =
      Millrace({"audit", "--files=" + folder,
                "--endpoint=" + server_->address(), "--compare=100"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("at epoch 0 step 3, "),
                                HasSubstr("other bytes of the same samples")));
}

// The table said "every sample exactly once" beside batches that all differed.
TEST_F(InsightTest, AuditProvesNothingOfBatchesThatAllDiffer) {
  const std::string folder = NewTempDir();
  const std::string other = NewTempDir();
  RunRanks(folder, 1, 1, {0, 0}, kSteps + 1);
  auto file = audit::ReadAuditFile(LogOf(folder, 0));
  ASSERT_TRUE(file.ok()) << file.status();
  auto log = audit::AuditWriter::Open(LogOf(other, 0), file->segments[0].run);
  ASSERT_TRUE(log.ok()) << log.status();
  uint64_t step = 0;
  ASSERT_TRUE(audit::ReadAuditRecords(
                  file->segments[0], 0, kSteps + 1,
                  [&](const audit::AuditRecord& record) {
                    audit::AuditRecord altered = record;
                    altered.payload_xxh3 ^= 1;
                    ASSERT_TRUE((*log)->Append({0, step++}, altered).ok());
                  })
                  .ok());
  const ProgramResult result =
      Millrace({"audit", "--files=" + other, "--endpoint=" + server_->address(),
                "--compare=6"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("WRONG"), Not(HasSubstr("exactly once")),
                    ::testing::ContainsRegex("different steps +6\n")));
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("DATA_LOSS: 6 of 6 compared steps differ from "
                      "the batches that the servers send now; the first: "),
            HasSubstr("at epoch 0 step 0, "),
            HasSubstr("at epoch 0 step 7, ")));
}

// It ended with 0.
TEST_F(InsightTest, AuditOfADamagedLogFails) {
  const std::string folder = NewTempDir();
  RunRanks(folder, 1, 1, {0, 0}, kSteps + 1);
  std::string log = ReadFile(LogOf(folder, 0));
  const size_t at = log.size() - 3 * 32;
  log[at + 9] ^= 1;
  WriteFile(LogOf(folder, 0), log);
  const ProgramResult result = Millrace({"audit", "--files=" + folder});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("the audit logs do not prove which samples the job "
                      "received"),
            HasSubstr("the audit log " + LogOf(folder, 0)),
            HasSubstr(absl::StrCat("offset ", at, " "))));
}

TEST_F(InsightTest, AuditOfFilesNamesMistakes) {
  const std::string folder = NewTempDir();
  EXPECT_THAT(Millrace({"audit", "--files=" + folder}).err,
              HasSubstr("contains no audit log"));
  EXPECT_THAT(Millrace({"audit", "--files=" + folder + "/none"}).err,
              HasSubstr(folder + "/none"));
  WriteFile(folder + "/a.mraudit",
            "something else altogether, and long enough");
  EXPECT_THAT(Millrace({"audit", "--files=" + folder}).err,
              HasSubstr("is not an audit log"));
  EXPECT_EQ(
      Millrace({"audit", "--files=" + folder, "--dataset=digits"}).exit_code,
      2);
}

// It measured a batch of labels and reported the rate as one of photographs.
TEST_F(InsightTest, ProgramsRefuseABatchThatWouldLackAField) {
  const std::string pipeline = Path("pipeline.textproto");
  WriteFile(pipeline, "seed: 1\n");
  for (const char* command : {"bench", "audit"}) {
    const auto run = [&](const std::vector<std::string>& more) {
      std::vector<std::string> all = {
          command, "--endpoint=" + server_->address(), "--dataset=photos",
          "--pipeline=" + pipeline, "--batch_size=8"};
      all.push_back(std::string(command) == "bench" ? "--batches=5"
                                                    : "--epoch=0");
      all.insert(all.end(), more.begin(), more.end());
      return Millrace(all);
    };
    const ProgramResult refused = run({});
    EXPECT_NE(refused.exit_code, 0) << command;
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr("field image holds encoded images: add "
                                "decode_image"),
                      HasSubstr("--outputs=label")))
        << command;
    const ProgramResult chosen = run({"--outputs=label"});
    EXPECT_EQ(chosen.exit_code, 0) << command << chosen.err;
    EXPECT_EQ(run({"--outputs=label,label"}).exit_code, 2) << command;
  }
}

TEST_F(InsightTest, BenchSaysWhereTheTimeWent) {
  const ProgramResult result =
      Millrace({"bench", "--endpoint=" + server_->address(), "--dataset=photos",
                "--preset=imagenet_train", "--batch_size=8", "--batches=30"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("bottleneck"));
  EXPECT_THAT(result.out, HasSubstr(" %: "));
}

// Counts how often files of a folder are opened, by whomever.
class OpenCounter {
 public:
  explicit OpenCounter(const std::string& folder)
      : fd_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    EXPECT_GE(fd_, 0);
    EXPECT_GE(inotify_add_watch(fd_, folder.c_str(), IN_OPEN), 0);
  }
  ~OpenCounter() { close(fd_); }

  // Since the last call. Fails when the kernel has lost some.
  int Take() {
    int opens = 0;
    alignas(inotify_event) char buffer[1 << 16];
    while (true) {
      const ssize_t bytes = read(fd_, buffer, sizeof(buffer));
      if (bytes <= 0) return opens;
      for (ssize_t at = 0; at < bytes;) {
        inotify_event event;
        std::memcpy(&event, buffer + at, sizeof(event));
        EXPECT_EQ(event.mask & IN_Q_OVERFLOW, 0u);
        if ((event.mask & IN_ISDIR) == 0) ++opens;
        at += static_cast<ssize_t>(sizeof(event)) + event.len;
      }
    }
  }

 private:
  const int fd_;
};

using OpensTest = testing::ServiceTest;

TEST_F(OpensTest, GrowWithShardsAndNotWithSamples) {
  constexpr int kShards = 4;
  for (const char* store : {"lmdb", "parquet"}) {
    SCOPED_TRACE(store);
    int opens_at_start[2];
    int i = 0;
    for (const int samples : {200, 2000}) {
      SCOPED_TRACE(samples);
      const std::string flag = Pack(
          "digits", "idx", testing::WriteIdxFolder(samples), store, kShards);
      const std::string folder = flag.substr(flag.find(':') + 1);
      struct stat info;
      ASSERT_TRUE(stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
          << folder;
      OpenCounter counter(folder);
      auto server = Serve({flag, "--threads=2", "--memory_budget=256MiB"});
      opens_at_start[i] = counter.Take();
      EXPECT_GE(opens_at_start[i], kShards) << "the counter counts";
      for (int epoch = 0; epoch < 2; ++epoch) {
        const ProgramResult result =
            Millrace({"audit", "--endpoint=" + server->address(),
                      "--dataset=digits", "--preset=mnist", "--batch_size=20",
                      "--world=2", absl::StrCat("--epoch=", epoch)});
        ASSERT_EQ(result.exit_code, 0) << result.err;
        const int opens = counter.Take();
        EXPECT_LE(opens, 8 * kShards) << "epoch " << epoch;
      }
      ++i;
    }
    EXPECT_EQ(opens_at_start[0], opens_at_start[1])
        << "ten times the samples, the same shards";
  }
}

}  // namespace
}  // namespace millrace
