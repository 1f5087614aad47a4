// A table of paths and labels beside an LMDB that was packed from it, and
// beside the image folder of the same files, over real processes: equal
// fingerprints once they are indexed, and equal batches always.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/audit_data.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::millrace::testing::Millrace;
using ::millrace::testing::NewTempDir;
using ::millrace::testing::Pack;
using ::millrace::testing::ProgramPath;
using ::millrace::testing::ProgramResult;
using ::millrace::testing::RunProgram;
using ::millrace::testing::WriteFile;
using ::testing::HasSubstr;

constexpr int kPhotos = 70;

class CsvTest : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() {
    photos_ = testing::WriteImageFolder(kPhotos);
    std::vector<std::string> paths;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(photos_)) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    // A relative path for every second photograph.
    std::string table = "class,file\n";
    for (size_t i = 0; i < paths.size(); ++i) {
      const std::filesystem::path path = paths[i];
      absl::StrAppend(&table, path.parent_path().filename().string(), ",",
                      i % 2 == 0 ? path.string()
                                 : path.lexically_relative(photos_).string(),
                      "\n");
    }
    table_ = photos_ + "/labels.csv";
    WriteFile(table_, table);
    uri_ = "csv:" + table_ + "?path=file&label=class";
    packed_ =
        Pack("packed", "csv", table_ + "?path=file&label=class", "lmdb", 3);
    cache_ = NewTempDir();
  }

  static std::unique_ptr<testing::ServerProcess> Server(int threads) {
    return Serve({packed_, "--dataset=table=" + uri_,
                  "--dataset=folder=imagefolder:" + photos_,
                  "--cache_dir=" + cache_, absl::StrCat("--threads=", threads),
                  "--memory_budget=512MiB"});
  }

  static ProgramResult RunAudit(const std::string& endpoint,
                                const std::string& dataset, int world) {
    return Millrace({"audit", "--endpoint=" + endpoint, "--json",
                     "--preset=imagenet_train", "--batch_size=16", "--epoch=1",
                     "--dataset=" + dataset, absl::StrCat("--world=", world)});
  }
  // The line of JSON.
  static std::string Audit(const std::string& endpoint,
                           const std::string& dataset, int world) {
    const ProgramResult result = RunAudit(endpoint, dataset, world);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  static ProgramResult DataTool(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     ProgramPath("server/data_tool/millrace-data"));
    return RunProgram(arguments);
  }

  static inline std::string photos_;
  static inline std::string table_;
  static inline std::string packed_;  // the flag
  static inline std::string uri_;
  static inline std::string cache_;
};

TEST_F(CsvTest, HasTheBatchesOfThePackedTableAndOfTheFolder) {
  const auto one = Server(1);
  const auto eight = Server(8);
  const std::string expected = Audit(one->address(), "packed", 1);
  EXPECT_THAT(expected, HasSubstr("\"samples\": 64, \"distinct\": 64, "
                                  "\"missing\": 0, \"duplicates\": 0, "
                                  "\"dropped\": 6, "));
  EXPECT_EQ(Audit(one->address(), "table", 1), expected);
  EXPECT_EQ(Audit(one->address(), "folder", 1), expected);
  EXPECT_EQ(Audit(eight->address(), "table", 2), expected);
  EXPECT_EQ(Audit(EndpointOf(*one, *eight), "table", 4), expected);
}

// The line of `inspect` that names the fingerprint.
std::string FingerprintIn(const std::string& text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t at = line.find("fingerprint");
    if (at != line.npos) return std::string(line.substr(at));
  }
  return "";
}

TEST_F(CsvTest, HasTheFingerprintOfThePackedTableOnceItIsIndexed) {
  const std::string packed_uri = packed_.substr(packed_.find('=', 10) + 1);
  const auto fingerprint = [](const std::string& uri) {
    const ProgramResult result =
        DataTool({"inspect", uri, "--cache_dir=" + cache_});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return FingerprintIn(result.out);
  };
  const std::string expected = fingerprint(packed_uri);
  EXPECT_NE(expected, "");
  for (const std::string& uri : {uri_, "imagefolder:" + photos_}) {
    const ProgramResult indexed =
        DataTool({"index", uri, "--cache_dir=" + cache_});
    ASSERT_EQ(indexed.exit_code, 0) << indexed.err;
    EXPECT_EQ(fingerprint(uri), expected);
  }
  const ProgramResult equal =
      DataTool({"diff", uri_, packed_uri, "--cache_dir=" + cache_});
  EXPECT_EQ(equal.exit_code, 0) << equal.out << equal.err;
}

// By a file of the same bytes, which no look at its content would tell.
TEST_F(CsvTest, AReplacedFileEndsTheEpochAndTheServerGoesOn) {
  const std::string folder = NewTempDir();
  std::filesystem::copy(photos_, folder,
                        std::filesystem::copy_options::recursive);
  std::string table = "file,class\n";
  std::string first;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    for (const auto& file : std::filesystem::directory_iterator(entry.path())) {
      if (first.empty()) first = file.path();
      absl::StrAppend(&table, file.path().string(), ",0\n");
    }
  }
  WriteFile(folder + "/t.csv", table);
  const std::string cache = NewTempDir();
  const auto server =
      Serve({"--dataset=table=csv:" + folder + "/t.csv", packed_,
             "--cache_dir=" + cache, "--memory_budget=512MiB"});
  const std::string before = Audit(server->address(), "table", 1);
  WriteFile(first + ".new", testing::ReadFile(first));
  std::filesystem::rename(first + ".new", first);
  const ProgramResult failed = RunAudit(server->address(), "table", 1);
  EXPECT_NE(failed.exit_code, 0);
  EXPECT_THAT(failed.err, HasSubstr(std::filesystem::path(first).filename()));
  EXPECT_EQ(RunAudit(server->address(), "packed", 1).exit_code, 0);
  // The next server reads the new file.
  const auto next = Serve({"--dataset=table=csv:" + folder + "/t.csv",
                           "--cache_dir=" + cache, "--memory_budget=512MiB"});
  EXPECT_EQ(Audit(next->address(), "table", 1), before);
}

}  // namespace
}  // namespace millrace
