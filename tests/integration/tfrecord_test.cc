// TFRecord files beside an LMDB of the same photographs, over real processes:
// equal fingerprints once they are indexed, and equal batches always.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tests/integration/audit_data.h"
#include "tests/server/storage/tfrecord/tfrecord_testing.h"
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
using ::millrace::testing::WriteFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kPhotos = 70;
constexpr int kFiles = 3;

// The photographs of a folder of class folders in their order, as ImageNet's
// features in `kFiles` files. Returns the glob of the files.
std::string WriteTfrecords(const std::string& photos) {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(photos)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  const std::vector<std::string> classes = {"asteroid", "planet", "ship"};
  const std::string folder = NewTempDir();
  const auto count = static_cast<int>(paths.size());
  for (int file = 0; file < kFiles; ++file) {
    std::vector<std::string> payloads;
    for (int i = file * count / kFiles; i < (file + 1) * count / kFiles; ++i) {
      const std::string name =
          std::filesystem::path(paths[i]).parent_path().filename();
      const auto label =
          std::find(classes.begin(), classes.end(), name) - classes.begin();
      payloads.push_back(storage::ExampleBytes(
          {{"image/encoded", storage::Strings({ReadFile(paths[i])})},
           {"image/class/label", storage::Ints({label + 1})},
           {"image/class/text", storage::Strings({name})}}));
    }
    WriteFile(absl::StrFormat("%s/train-%05d-of-%05d", folder, file, kFiles),
              storage::RecordFile(payloads));
  }
  WriteFile(folder + "/classes.txt", "asteroid\nplanet\nship\n");
  return folder + "/train-*";
}

class TfrecordTest : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() {
    const std::string photos = testing::WriteImageFolder(kPhotos);
    packed_ = Pack("packed", "imagefolder", photos, "lmdb", 1);
    const std::string pattern = WriteTfrecords(photos);
    uri_ = absl::StrCat("tfrecord:", pattern, "?classes=",
                        std::filesystem::path(pattern).parent_path().string(),
                        "/classes.txt");
    cache_ = NewTempDir();
  }

  static std::unique_ptr<testing::ServerProcess> Server(int threads) {
    return Serve({packed_, "--dataset=records=" + uri_, "--cache_dir=" + cache_,
                  absl::StrCat("--threads=", threads),
                  "--memory_budget=512MiB"});
  }

  static ProgramResult DataTool(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     ProgramPath("server/data_tool/millrace-data"));
    return RunProgram(arguments);
  }

  static inline std::string packed_;  // the flag
  static inline std::string uri_;
  static inline std::string cache_;
};

TEST_F(TfrecordTest, HasTheBatchesOfThePackedDataset) {
  const auto one = Server(1);
  const auto eight = Server(8);
  const std::string expected = Audit(one->address(), "packed", 1);
  EXPECT_THAT(expected, HasSubstr("\"samples\": 64, \"distinct\": 64, "
                                  "\"missing\": 0, \"duplicates\": 0, "
                                  "\"dropped\": 6, "));
  EXPECT_EQ(Audit(one->address(), "records", 1), expected);
  EXPECT_EQ(Audit(eight->address(), "records", 2), expected);
  EXPECT_EQ(Audit(EndpointOf(*one, *eight), "records", 4), expected);
}

// The line of `inspect` that names the fingerprint.
std::string FingerprintIn(const std::string& text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t at = line.find("fingerprint");
    if (at != line.npos) return std::string(line.substr(at));
  }
  return "";
}

TEST_F(TfrecordTest, HasTheFingerprintOfThePackedDatasetOnceItIsIndexed) {
  const std::string packed_uri = packed_.substr(packed_.find('=', 10) + 1);
  const auto fingerprint = [](const std::string& uri) {
    const ProgramResult result =
        DataTool({"inspect", uri, "--cache_dir=" + cache_});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return FingerprintIn(result.out);
  };
  const std::string expected = fingerprint(packed_uri);
  EXPECT_NE(expected, "");
  const ProgramResult indexed =
      DataTool({"index", uri_, "--cache_dir=" + cache_});
  ASSERT_EQ(indexed.exit_code, 0) << indexed.err;
  EXPECT_EQ(fingerprint(uri_), expected);
}

}  // namespace
}  // namespace millrace
