// Training and evaluation data whose labels mean different classes, with the real
// programs. Each part of a dataset that is packed by itself numbers the class
// folders that it has.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

// The server's flag for a packed dataset with four images of each class.
std::string Pack(const std::string& folder, const std::string& name,
                 const std::vector<std::string>& classes) {
  const std::string input = absl::StrCat(folder, "/", name);
  mkdir(input.c_str(), 0755);
  for (const std::string& of_class : classes) {
    const std::string place = absl::StrCat(input, "/", of_class);
    mkdir(place.c_str(), 0755);
    for (int i = 0; i < 4; ++i) {
      JpegKind kind;
      kind.width = kind.height = 16;
      const std::vector<uint8_t> jpeg = WriteJpeg(kind, i);
      WriteFile(absl::StrCat(place, "/", i, ".jpg"),
                std::string(jpeg.begin(), jpeg.end()));
    }
  }
  const std::string uri = absl::StrCat("lmdb:", folder, "/", name, ".lmdb");
  const ProgramResult packed = RunProgram(
      {ProgramPath("server/data_tool/millrace-data"), "pack",
       "--format=imagefolder", "--input=" + input, "--output=" + uri});
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
  return absl::StrCat("--dataset=", name, "=", uri);
}

TEST(TrainClasses, HaveOneNameForTrainingAndEvaluation) {
  setenv("OMP_NUM_THREADS", "1", 1);
  const std::string folder = NewTempDir();
  auto server = ServerProcess::Start({Pack(folder, "pets", {"cat", "dog"}),
                                      Pack(folder, "same", {"cat", "dog"}),
                                      Pack(folder, "other", {"bird", "dog"}),
                                      "--threads=1"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string pipeline = folder + "/pipeline.textproto";
  WriteFile(pipeline,
            "transforms { decode_image {} } "
            "transforms { center_crop { height: 16 width: 16 } }");
  const auto run = [&](const std::string& evaluated) {
    return RunProgram({ProgramPath("trainer/millrace-train"),
                       "--endpoint=" + (*server)->address(), "--dataset=pets",
                       "--pipeline=" + pipeline, "--model=cnn",
                       "--batch_size=4", "--max_steps=1",
                       "--eval_dataset=" + evaluated,
                       "--eval_pipeline=" + pipeline});
  };
  const ProgramResult differ = run("other");
  EXPECT_EQ(differ.exit_code, 2);
  EXPECT_THAT(differ.err, HasSubstr("class 0 is cat in the dataset pets, but "
                                    "bird in other"));
  const ProgramResult same = run("same");
  EXPECT_EQ(same.exit_code, 0) << same.err;
}

}  // namespace
}  // namespace millrace::testing
