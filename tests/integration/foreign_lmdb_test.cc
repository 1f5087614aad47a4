// LMDB environments as other programs write them beside the packed LMDB of the
// same photographs, over real processes: equal batches.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/integration/audit_data.h"
#include "tests/server/storage/foreign_lmdb/environment_testing.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::millrace::testing::Audit;
using ::millrace::testing::NewTempDir;
using ::millrace::testing::Pack;
using ::millrace::testing::ProgramPath;
using ::millrace::testing::ProgramResult;
using ::millrace::testing::ReadFile;
using ::millrace::testing::RunProgram;
using ::testing::HasSubstr;

constexpr int kPhotos = 70;
constexpr size_t kFiles = 3;

// The photographs of a folder of class folders, by their paths below it. Sets
// `caffe` to the folder of several environments with Datums, and `keys` to one
// environment with the files under their paths.
void WriteEnvironments(const std::string& photos, std::string* caffe,
                       std::string* keys) {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(photos)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  const std::vector<std::string> classes = {"asteroid", "planet", "ship"};
  std::vector<storage::Entries> datums(kFiles);
  storage::Entries files;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string image = ReadFile(paths[i]);
    const std::string name =
        std::filesystem::path(paths[i]).parent_path().filename();
    const auto label =
        std::find(classes.begin(), classes.end(), name) - classes.begin();
    datums[i * kFiles / paths.size()].emplace_back(
        absl::StrFormat("%08d_%s", i, name),
        storage::DatumBytes({.channels = 3,
                             .data = image,
                             .label = static_cast<int>(label),
                             .encoded = true}));
    files.emplace_back(
        std::filesystem::path(paths[i]).lexically_relative(photos), image);
  }
  *caffe = NewTempDir();
  for (size_t i = 0; i < kFiles; ++i) {
    storage::WriteEnvironment(absl::StrCat(*caffe, "/train_", i), datums[i],
                              {.folder = true});
  }
  *keys = NewTempDir() + "/keys";
  storage::WriteEnvironment(*keys, files, {.folder = true});
}

class ForeignLmdbTest : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() {
    const std::string photos = testing::WriteImageFolder(kPhotos);
    packed_ = Pack("packed", "imagefolder", photos, "lmdb", 1);
    WriteEnvironments(photos, &caffe_, &keys_);
  }

  static std::unique_ptr<testing::ServerProcess> Server(int threads) {
    return Serve({packed_, absl::StrCat("--dataset=caffe=lmdb:", caffe_),
                  absl::StrCat("--dataset=keys=lmdb:", keys_, "?label=prefix"),
                  absl::StrCat("--threads=", threads),
                  "--memory_budget=512MiB"});
  }

  static inline std::string packed_;  // the flag
  static inline std::string caffe_;
  static inline std::string keys_;
};

TEST_F(ForeignLmdbTest, HasTheBatchesOfThePackedDataset) {
  const auto one = Server(1);
  const auto eight = Server(8);
  const std::string expected = Audit(one->address(), "packed", 1);
  EXPECT_THAT(expected, HasSubstr("\"samples\": 64, \"distinct\": 64, "));
  EXPECT_EQ(Audit(one->address(), "caffe", 1), expected);
  EXPECT_EQ(Audit(EndpointOf(*one, *eight), "caffe", 2), expected);
  EXPECT_EQ(Audit(EndpointOf(*one, *eight), "keys", 4), expected);
}

TEST_F(ForeignLmdbTest, TheDataToolReadsIt) {
  const std::string tool = ProgramPath("server/data_tool/millrace-data");
  const std::string uri = "lmdb:" + caffe_;
  const ProgramResult inspected = RunProgram({tool, "inspect", uri});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("train_1/data.mdb"));
  for (const std::string& dataset :
       {uri, absl::StrCat("lmdb:", keys_, "?label=prefix")}) {
    const ProgramResult verified = RunProgram({tool, "verify", dataset});
    EXPECT_EQ(verified.exit_code, 0) << verified.err;
  }
}

}  // namespace
}  // namespace millrace
