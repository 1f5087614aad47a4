// Arrow files beside the packed LMDB of the same photographs, over real
// processes: equal batches, and the commands of millrace-data.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/audit_data.h"
#include "tests/server/storage/arrow/ipc_testing.h"
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
using ::millrace::testing::ReadFile;
using ::millrace::testing::RunProgram;
using ::testing::HasSubstr;

constexpr int kPhotos = 70;
constexpr size_t kFiles = 3;

// Writes the photographs of a folder of class folders into kFiles files each:
// streams without compression, and files with LZ4.
void WriteArrow(const std::string& photos, std::string* streams,
                std::string* lz4) {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(photos)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  const std::vector<std::string> classes = {"asteroid", "planet", "ship"};
  std::vector<std::vector<storage::Photograph>> files(kFiles);
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string name =
        std::filesystem::path(paths[i]).parent_path().filename();
    files[i * kFiles / paths.size()].push_back(
        {.bytes = ReadFile(paths[i]),
         .label = std::find(classes.begin(), classes.end(), name) -
                  classes.begin()});
  }
  *streams = NewTempDir();
  *lz4 = NewTempDir();
  for (size_t i = 0; i < kFiles; ++i) {
    storage::WritePhotographs(absl::StrCat(*streams, "/", i, ".arrow"),
                              files[i], classes,
                              {.stream = true, .batch_rows = 5});
    storage::WritePhotographs(
        absl::StrCat(*lz4, "/", i, ".feather"), files[i], classes,
        {.codec = arrow::Compression::LZ4_FRAME, .batch_rows = 7});
  }
}

class ArrowTest : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() {
    const std::string photos = testing::WriteImageFolder(kPhotos);
    packed_ = Pack("packed", "imagefolder", photos, "lmdb", 1);
    WriteArrow(photos, &streams_, &lz4_);
  }

  static std::unique_ptr<testing::ServerProcess> Server(int threads) {
    return Serve({packed_, absl::StrCat("--dataset=streams=arrow:", streams_),
                  absl::StrCat("--dataset=lz4=arrow:", lz4_),
                  absl::StrCat("--threads=", threads),
                  "--memory_budget=512MiB"});
  }

  // The line of JSON.
  static std::string Audit(const std::string& endpoint,
                           const std::string& dataset, int world) {
    const ProgramResult result =
        Millrace({"audit", "--endpoint=" + endpoint, "--json",
                  "--preset=imagenet_train", "--batch_size=16", "--epoch=1",
                  "--dataset=" + dataset, absl::StrCat("--world=", world)});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  static ProgramResult Tool(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     ProgramPath("server/data_tool/millrace-data"));
    return RunProgram(arguments);
  }

  static inline std::string packed_;  // the flag
  static inline std::string streams_;
  static inline std::string lz4_;
};

TEST_F(ArrowTest, HasTheBatchesOfThePackedDataset) {
  const auto one = Server(1);
  const auto eight = Server(8);
  const std::string expected = Audit(one->address(), "packed", 1);
  EXPECT_THAT(expected, HasSubstr("\"samples\": 64, \"distinct\": 64, "));
  EXPECT_EQ(Audit(one->address(), "streams", 1), expected);
  EXPECT_EQ(Audit(EndpointOf(*one, *eight), "streams", 2), expected);
  EXPECT_EQ(Audit(one->address(), "lz4", 1), expected);
  EXPECT_EQ(Audit(EndpointOf(*one, *eight), "lz4", 4), expected);
}

TEST_F(ArrowTest, TheDataToolReadsIt) {
  const std::string packed = packed_.substr(packed_.find("lmdb:"));
  for (const std::string& uri : {"arrow:" + streams_, "arrow:" + lz4_}) {
    const ProgramResult inspected = Tool({"inspect", uri});
    EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
    EXPECT_THAT(inspected.out, HasSubstr("asteroid"));
    EXPECT_EQ(Tool({"verify", uri}).exit_code, 0);
    EXPECT_EQ(Tool({"head", "--samples=2", uri}).exit_code, 0);
    const ProgramResult differ = Tool({"diff", uri, packed});
    EXPECT_EQ(differ.exit_code, 0) << differ.out << differ.err;
    // Packed, it has the fingerprint of the folder.
    const std::string output = "lmdb:" + NewTempDir() + "/again.lmdb";
    const ProgramResult pack =
        Tool({"pack", "--input=" + uri, "--output=" + output});
    EXPECT_EQ(pack.exit_code, 0) << pack.err;
    const auto fingerprint = [](const std::string& dataset) {
      const std::string text = Tool({"inspect", dataset}).out;
      const size_t at = text.find("ingerprint");
      return at == text.npos ? "" : text.substr(at, text.find('\n', at) - at);
    };
    EXPECT_NE(fingerprint(packed), "");
    EXPECT_EQ(fingerprint(output), fingerprint(packed));
  }
}

}  // namespace
}  // namespace millrace
