// The same eight photographs in every format that a data server reads, as the
// libraries wrote them that people use (tests/testdata/photos), and packed: one
// server and two servers give the same batches of each, and each has the
// fingerprint of the packed dataset once its content is indexed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/audit_data.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

using ::millrace::testing::Millrace;
using ::millrace::testing::NewTempDir;
using ::millrace::testing::ProgramPath;
using ::millrace::testing::ProgramResult;
using ::millrace::testing::RunProgram;
using ::testing::HasSubstr;

constexpr int kPhotos = 8;
const char* const kData = "tests/testdata/photos/";

// The class folders that the others were written from.
std::string WriteFolders(const std::string& parent) {
  constexpr const char* kClasses[kPhotos] = {
      "ash", "ash", "ash", "birch", "birch", "cedar", "cedar", "cedar"};
  for (int i = 0; i < kPhotos; ++i) {
    const fs::path folder = fs::path(parent) / "photos" / kClasses[i];
    fs::create_directories(folder);
    const std::string name = absl::StrCat("exif_", i + 1, ".jpg");
    fs::copy_file("tests/testdata/images/" + name, folder / name);
  }
  return parent + "/photos";
}

class FormatsTest : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() {
    root_ = NewTempDir();
    const std::string folders = WriteFolders(root_);
    testing::WriteFile(root_ + "/classes.txt", "ash\nbirch\ncedar\n");
    const std::string classes = "?classes=" + root_ + "/classes.txt";
    const auto data = [](const char* path) {
      return absl::StrCat(kData, path);
    };
    uris_ = {
        "imagefolder:" + folders,
        "tar:" + data("tar") + classes,
        "tfrecord:" + data("tfrecord") + classes,
        "mds:" + data("mds") + classes,
        "litdata:" + data("litdata") + classes,
        "arrow:" + data("arrow"),
        "csv:" + data("csv/photos.csv"),
        "parquet:" + data("parquet/photos.parquet"),
    };
    // Rows of different lengths are served from a packed dataset.
    Pack("hdf5:" + data("hdf5/photos.h5") + classes, "hdf5.lmdb", 1);
    for (const char* store : {"lmdb", "parquet"}) {
      for (const int shards : {1, 3}) {
        Pack(uris_[0], absl::StrCat("photos", shards, ".", store), shards);
      }
    }
  }

  // Into "NAME.STORE", which becomes one of the URIs.
  static void Pack(const std::string& input, const std::string& name,
                   int shards) {
    const std::string uri =
        absl::StrCat(name.substr(name.rfind('.') + 1), ":", root_, "/", name);
    const ProgramResult packed =
        DataTool({"pack", "--input=" + input, "--output=" + uri,
                  absl::StrCat("--shards=", shards)});
    ASSERT_EQ(packed.exit_code, 0) << packed.err;
    uris_.push_back(uri);
  }

  static ProgramResult DataTool(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     ProgramPath("server/data_tool/millrace-data"));
    return RunProgram(arguments);
  }

  static std::string NameOf(size_t i) { return absl::StrCat("photos", i); }

  static std::unique_ptr<testing::ServerProcess> Server(int threads) {
    std::vector<std::string> flags = {absl::StrCat("--threads=", threads),
                                      "--memory_budget=512MiB",
                                      "--cache_dir=" + root_};
    for (size_t i = 0; i < uris_.size(); ++i) {
      flags.push_back(absl::StrCat("--dataset=", NameOf(i), "=", uris_[i]));
    }
    return Serve(flags);
  }

  // Digests and counts of two epochs.
  static std::string Audit(const std::string& endpoint, size_t i, int world) {
    std::string all;
    for (int epoch = 0; epoch < 2; ++epoch) {
      const ProgramResult result =
          Millrace({"audit", "--endpoint=" + endpoint, "--json",
                    "--preset=imagenet_train", "--batch_size=2",
                    absl::StrCat("--epoch=", epoch), "--dataset=" + NameOf(i),
                    absl::StrCat("--world=", world)});
      EXPECT_EQ(result.exit_code, 0) << uris_[i] << ": " << result.err;
      all += result.out;
    }
    return all;
  }

  // As `inspect` shows it.
  static std::string Fingerprint(const std::string& uri) {
    const ProgramResult result =
        DataTool({"inspect", uri, "--cache_dir=" + root_});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    for (const absl::string_view line : absl::StrSplit(result.out, '\n')) {
      const size_t at = line.find("fingerprint");
      if (at != line.npos) return std::string(line.substr(at));
    }
    ADD_FAILURE() << "no fingerprint of " << uri << ": " << result.out;
    return "";
  }

  static inline std::string root_;
  static inline std::vector<std::string> uris_;  // the folder is the first
};

TEST_F(FormatsTest, GiveTheSameBatches) {
  const auto one = Server(1);
  const auto other = Server(3);
  const std::string expected = Audit(one->address(), 0, 1);
  EXPECT_THAT(expected, HasSubstr("\"samples\": 8, \"distinct\": 8"));
  for (size_t i = 0; i < uris_.size(); ++i) {
    EXPECT_EQ(Audit(one->address(), i, 1), expected) << uris_[i];
    EXPECT_EQ(Audit(EndpointOf(*one, *other), i, 2), expected) << uris_[i];
  }
}

TEST_F(FormatsTest, HaveTheSameFingerprintOnceTheyAreIndexed) {
  const std::string expected = Fingerprint(uris_.back());
  for (const std::string& uri : uris_) {
    if (!absl::StrContains(uri, "lmdb:") &&
        !absl::StrContains(uri, "parquet:")) {
      const ProgramResult indexed =
          DataTool({"index", uri, "--cache_dir=" + root_});
      ASSERT_EQ(indexed.exit_code, 0) << indexed.err;
    }
    // A foreign Parquet file has a fingerprint of its own kind.
    if (absl::StrContains(uri, "testdata/photos/parquet")) continue;
    EXPECT_EQ(Fingerprint(uri), expected) << uri;
  }
}

TEST_F(FormatsTest, DiffFindsNoDifference) {
  for (const std::string& uri : uris_) {
    const ProgramResult result =
        DataTool({"diff", uris_[0], uri, "--cache_dir=" + root_});
    EXPECT_EQ(result.exit_code, 0) << uri << ": " << result.out << result.err;
  }
}

}  // namespace
}  // namespace millrace
