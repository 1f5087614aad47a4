// `millrace audit` over real processes: what an epoch consists of depends on
// data and spec alone, not on ranks, servers, threads, shards or formats.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/audit_data.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::millrace::testing::Millrace;
using ::millrace::testing::Pack;
using ::millrace::testing::ProgramResult;
using ::millrace::testing::ReadFile;
using ::millrace::testing::ServerProcess;
using ::millrace::testing::WriteFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kDigits = 2003;  // no multiple of a batch
constexpr int kPhotos = 70;

class AuditTest : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() {
    const std::string digits = testing::WriteIdxFolder(kDigits);
    const std::string photos = testing::WriteImageFolder(kPhotos);
    std::vector<std::string> flags;
    for (const char* store : {"lmdb", "parquet"}) {
      for (const int shards : {1, 4}) {
        flags.push_back(Pack(absl::StrCat("digits_", store, shards), "idx",
                             digits, store, shards));
        flags.push_back(Pack(absl::StrCat("photos_", store, shards),
                             "imagefolder", photos, store, shards));
      }
    }
    flags.push_back(Pack("photos_seekable", "imagefolder", photos, "lmdb", 1,
                         {"--seekable"}));
    for (const int threads : {1, 8}) {
      std::vector<std::string> all = flags;
      all.push_back(absl::StrCat("--threads=", threads));
      all.push_back("--memory_budget=512MiB");
      (threads == 1 ? one_thread_ : eight_threads_) = Serve(all);
    }
  }
  static void TearDownTestSuite() {
    one_thread_.reset();
    eight_threads_.reset();
  }

  // The line of JSON.
  static std::string Audit(const std::string& endpoint,
                           const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"audit", "--endpoint=" + endpoint,
                                    "--json"};
    all.insert(all.end(), flags.begin(), flags.end());
    const ProgramResult result = Millrace(all);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  // A function that returns the line for a dataset and a number of ranks.
  static auto AuditOf(std::vector<std::string> spec) {
    return [spec = std::move(spec)](const std::string& endpoint,
                                    const std::string& dataset, int world) {
      std::vector<std::string> flags = spec;
      flags.push_back("--dataset=" + dataset);
      flags.push_back(absl::StrCat("--world=", world));
      return Audit(endpoint, flags);
    };
  }

  static std::string One() { return one_thread_->address(); }
  static std::string Eight() { return eight_threads_->address(); }

  static inline std::unique_ptr<ServerProcess> one_thread_;
  static inline std::unique_ptr<ServerProcess> eight_threads_;
};

TEST_F(AuditTest, DigitsAreTheSameForWorldsThreadsServersShardsAndFormats) {
  const auto audit =
      AuditOf({"--preset=mnist", "--batch_size=48", "--epoch=3", "--seed=7"});
  const std::string expected = audit(One(), "digits_lmdb1", 1);
  EXPECT_THAT(expected,
              AllOf(HasSubstr("\"samples\": 1968, \"distinct\": 1968, "
                              "\"missing\": 0, \"duplicates\": 0, "
                              "\"dropped\": 35, \"order_digest\": \""),
                    HasSubstr("\", \"content_digest\": \"")));
  EXPECT_EQ(audit(One(), "digits_lmdb1", 2), expected);
  EXPECT_EQ(audit(One(), "digits_lmdb1", 4), expected);
  EXPECT_EQ(audit(Eight(), "digits_lmdb1", 2), expected);
  EXPECT_EQ(audit(One() + "," + Eight(), "digits_lmdb1", 2), expected);
  EXPECT_EQ(audit(Eight(), "digits_lmdb4", 1), expected);
  EXPECT_EQ(audit(Eight(), "digits_parquet1", 1), expected);
  EXPECT_EQ(audit(Eight(), "digits_parquet4", 4), expected);
}

TEST_F(AuditTest, PhotosAreTheSameForWorldsThreadsServersShardsAndFormats) {
  const auto audit =
      AuditOf({"--preset=imagenet_train", "--batch_size=16", "--epoch=1"});
  const std::string expected = audit(One(), "photos_lmdb1", 1);
  EXPECT_THAT(expected, HasSubstr("\"samples\": 64, \"distinct\": 64, "
                                  "\"missing\": 0, \"duplicates\": 0, "
                                  "\"dropped\": 6, "));
  EXPECT_EQ(audit(Eight(), "photos_lmdb1", 4), expected);
  EXPECT_EQ(audit(One() + "," + Eight(), "photos_lmdb4", 2), expected);
  EXPECT_EQ(audit(Eight(), "photos_parquet1", 1), expected);
  EXPECT_EQ(audit(Eight(), "photos_parquet4", 2), expected);
}

TEST_F(AuditTest, PhotosThatWerePackedSeekableAreTheSame) {
  for (const char* preset : {"imagenet_train", "imagenet_eval"}) {
    SCOPED_TRACE(preset);
    const auto audit = [preset](const std::string& dataset) {
      return Audit(Eight(),
                   {"--dataset=" + dataset, absl::StrCat("--preset=", preset),
                    "--batch_size=16", "--epoch=2"});
    };
    const std::string expected = audit("photos_lmdb1");
    EXPECT_THAT(expected, HasSubstr("\"content_digest\": \""));
    EXPECT_EQ(audit("photos_seekable"), expected);
  }
}

TEST_F(AuditTest, EverySampleComesWhenNothingIsDropped) {
  for (const char* last : {"pad", "partial"}) {
    SCOPED_TRACE(last);
    const auto audit = [last](int world) {
      return Audit(Eight(), {"--dataset=digits_lmdb4", "--preset=mnist",
                             "--batch_size=64", "--epoch=0",
                             absl::StrCat("--world=", world),
                             absl::StrCat("--last_batch=", last)});
    };
    const std::string expected = audit(1);
    EXPECT_THAT(expected, HasSubstr("\"samples\": 2003, \"distinct\": 2003, "
                                    "\"missing\": 0, \"duplicates\": 0, "
                                    "\"dropped\": 0, "));
    EXPECT_EQ(audit(4), expected);
  }
}

TEST_F(AuditTest, OrderAndContentFollowSeedAndEpoch) {
  const auto audit = [](int seed, int epoch) {
    return Audit(Eight(), {"--dataset=digits_lmdb1", "--preset=mnist",
                           absl::StrCat("--seed=", seed),
                           absl::StrCat("--epoch=", epoch)});
  };
  EXPECT_NE(audit(1, 0), audit(1, 1));
  EXPECT_NE(audit(1, 0), audit(2, 0));
  EXPECT_EQ(audit(1, 0), audit(1, 0));
}

TEST_F(AuditTest, TakesAPipelineOfOnesOwn) {
  const std::string path = Path("mine.textproto");
  WriteFile(path,
            "preset: 'mnist'\nbatch_size: 50\nlast_batch: LAST_BATCH_PAD\n"
            "sources { dataset: 'digits_lmdb1' "
            "subset { from: 0 to: 0.5 seed: 3 } }\n");
  EXPECT_THAT(Audit(Eight(), {"--pipeline=" + path, "--world=2"}),
              AllOf(HasSubstr("\"missing\": 0, \"duplicates\": 0, "
                              "\"dropped\": 0"),
                    Not(HasSubstr("\"samples\": 2003"))));

  WriteFile(path, "preset: 'mnist'\nbatchsize: 50\n");
  const ProgramResult result =
      Millrace({"audit", "--endpoint=" + Eight(), "--dataset=digits_lmdb1",
                "--pipeline=" + path});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("mine.textproto:2:"), HasSubstr("batchsize")));
}

// It was "1 are missing", with exit code 1, and audit --files found no fault.
TEST_F(AuditTest, WhatThePolicyDidWithDamagedSamplesIsNoLoss) {
  const std::string photos = testing::WriteImageFolder(12);
  const std::string damaged = photos + "/ship/5.jpg";
  WriteFile(damaged, ReadFile(damaged).substr(0, 20));
  auto server =
      Serve({Pack("photos", "imagefolder", photos, "lmdb", 1, {"--no_decode"}),
             "--threads=1"});
  const std::string pipeline = Path("pipeline.textproto");
  for (const std::string policy : {"ZERO", "SUBSTITUTE"}) {
    SCOPED_TRACE(policy);
    WriteFile(pipeline,
              absl::StrCat("transforms { decode_image {} } transforms { "
                           "center_crop { height: 16 width: 16 } } "
                           "bad_samples { action: ",
                           policy, " } batch_size: 4"));
    const std::vector<std::string> flags = {
        "audit", "--endpoint=" + server->address(), "--dataset=photos",
        "--pipeline=" + pipeline, "--world=2"};
    const ProgramResult text = Millrace(flags);
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_THAT(text.out,
                AllOf(HasSubstr("note: "), HasSubstr("policy " + policy)));
    EXPECT_THAT(
        Audit(server->address(), {flags.begin() + 2, flags.end()}),
        AllOf(HasSubstr("\"missing\": 0, \"duplicates\": 0, "),
              HasSubstr(policy == "ZERO" ? "\"samples\": 11, \"distinct\": 11"
                                         : "\"samples\": 12, \"distinct\": 11"),
              HasSubstr(policy == "ZERO" ? "\"empty_rows\": 1"
                                         : "\"replaced\": 1"),
              // The note of the text, too.
              HasSubstr(
                  policy == "ZERO"
                      ? "\"notes\": [\"every sample exactly once, "
                        "damaged samples as empty rows: the policy ZERO "
                      : "\"notes\": [\"every step once, with the "
                        "right number of samples: the policy SUBSTITUTE ")));
  }
}

// A dropped sample that took the place of a damaged one was not counted.
TEST_F(AuditTest, AReplacedSampleIsCountedWhereADroppedOneTookItsPlace) {
  const std::string photos = testing::WriteImageFolder(12);
  const std::string damaged = photos + "/ship/5.jpg";
  WriteFile(damaged, ReadFile(damaged).substr(0, 20));
  auto server =
      Serve({Pack("photos", "imagefolder", photos, "lmdb", 1, {"--no_decode"}),
             "--threads=1"});
  const std::string pipeline = Path("pipeline.textproto");
  // The damaged sample is one of the 8 of an epoch, or one of the 4 that are
  // dropped; of the 8, its substitute is sometimes one of the 4.
  int taken = 0;
  int not_due = 0;
  for (int seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const auto audit = [&](const std::string& policy) {
      WriteFile(pipeline,
                absl::StrCat("transforms { decode_image {} } transforms { "
                             "center_crop { height: 16 width: 16 } } "
                             "bad_samples { action: ",
                             policy, " } batch_size: 8"));
      return Audit(server->address(),
                   {"--dataset=photos", "--pipeline=" + pipeline, "--world=2",
                    absl::StrCat("--seed=", seed)});
    };
    const bool due =
        audit("ZERO").find("\"empty_rows\": 1") != std::string::npos;
    const std::string json = audit("SUBSTITUTE");
    EXPECT_THAT(json,
                AllOf(HasSubstr("\"missing\": 0, \"duplicates\": 0"),
                      HasSubstr("\"dropped\": 4"),
                      HasSubstr(due ? "\"replaced\": 1" : "\"replaced\": 0"),
                      Not(HasSubstr("at least"))));
    not_due += due ? 0 : 1;
    taken += due && json.find("\"distinct\": 8") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(not_due, 0);
  EXPECT_GT(taken, 0) << "no seed shows the fault: choose others";
}

TEST_F(AuditTest, MistakesAreNamed) {
  struct Case {
    std::vector<std::string> flags;
    int exit_code;
    std::string message;
  };
  const std::string endpoint = "--endpoint=" + Eight();
  const std::vector<Case> cases = {
      {{"--dataset=digits_lmdb1"}, 2, "--endpoint=HOST:PORT is missing"},
      {{endpoint}, 2, "--dataset=NAME is missing"},
      {{endpoint, "--dataset=d", "--colour=red"}, 2, "unknown flag --colour"},
      {{endpoint, "--dataset=d", "--world=0"}, 2, "--world=0"},
      {{endpoint, "--dataset=d", "--last_batch=keep"}, 2, "--last_batch=keep"},
      {{endpoint, "--dataset=d", "--preset=mnist", "--pipeline=x"},
       2,
       "--preset and --pipeline cannot be used together"},
      {{endpoint, "--dataset=digits", "--preset=mnist"}, 2, "digits"},
      {{endpoint, "--dataset=digits_lmdb1", "--preset=minst"}, 2, "minst"},
      {{endpoint, "--dataset=digits_lmdb1", "--preset=mnist", "--world=3"},
       2,
       "--world=3: 64 samples of a global batch"},
      {{endpoint, "--dataset=digits_lmdb1", "--preset=mnist",
        "--batch_size=5000"},
       2,
       "5000"},
      {{endpoint, "--dataset=digits_lmdb1", "--pipeline=/no/such/file"},
       2,
       "/no/such/file"},
      {{"--endpoint=data-1", "--dataset=d", "--preset=mnist"}, 2, "no port"},
      {{"--endpoint=127.0.0.1:1", "--dataset=d", "--preset=mnist",
        "--timeout=300ms"},
       1,
       "Connection refused"},
  };
  for (const Case& one : cases) {
    std::vector<std::string> arguments = one.flags;
    arguments.insert(arguments.begin(), "audit");
    const ProgramResult result = Millrace(arguments);
    EXPECT_EQ(result.exit_code, one.exit_code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(one.message));
    EXPECT_THAT(result.err, HasSubstr("millrace audit: "));
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(AuditTest, BenchMeasuresAsItIsDocumented) {
  const ProgramResult json =
      Millrace({"bench", "--endpoint=" + Eight(), "--dataset=digits_lmdb1",
                "--preset=mnist", "--batches=100", "--json"});
  EXPECT_EQ(json.exit_code, 0) << json.err;
  EXPECT_THAT(json.out,
              ::testing::MatchesRegex(
                  "\\{\"dataset\": \"digits_lmdb1\", \"batches\": 100, .*"
                  "\"images_per_second\": [0-9.e+]+, "
                  "\"gigabytes_per_second\": [0-9.e+-]+, "
                  "\"client_cpu_seconds_per_gigabyte\": [0-9.e+]+, "
                  "\"time_to_first_batch_ms\": [0-9.e+]+, .*"
                  "\"verdict\": \".*\", \"interrupted\": false\\}\n"));
  const ProgramResult text =
      Millrace({"bench", "--endpoint=" + One() + "," + Eight(),
                "--dataset=photos_parquet4", "--batches=12", "--world=2",
                "--rank=1", "--window=4"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("images per second"),
                              HasSubstr("1 of 2"), HasSubstr("GB/s")));
  const ProgramResult one = Millrace({"bench", "--endpoint=" + Eight(),
                                      "--dataset=digits_lmdb1", "--batches=1"});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_THAT(one.err, HasSubstr("--batches=1"));
}

TEST_F(AuditTest, StatusShowsServersAndFailsWhenOneIsSilent) {
  ProgramResult result =
      Millrace({"status", "--endpoint=" + One() + "," + Eight()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr(One()), HasSubstr(Eight()),
                    HasSubstr("digits_parquet4"), HasSubstr("RESERVED")));
  result = Millrace({"status", "--endpoint=" + One() + ",127.0.0.1:1",
                     "--timeout=1s", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("\"name\": \"photos_lmdb1\""),
                    HasSubstr("\"error\": \"Connection refused\"")));
  EXPECT_THAT(result.err, HasSubstr("not every data server answers"));
}

TEST(MillraceTest, HelpAndUnknownCommands) {
  const ProgramResult help = Millrace({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("\nExamples:\n  millrace status "));
  EXPECT_THAT(Millrace({"audit", "--help"}).out, HasSubstr("--batch_size=N"));
  EXPECT_THAT(Millrace({"--version"}).out, HasSubstr("millrace "));
  EXPECT_EQ(Millrace({}).exit_code, 2);
  const ProgramResult result = Millrace({"watch-tv"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("unknown command `watch-tv`"));
}

}  // namespace
}  // namespace millrace
