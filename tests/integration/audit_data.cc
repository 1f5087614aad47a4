#include "tests/integration/audit_data.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/testing/digits.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

}  // namespace

std::string WriteIdxFolder(int samples) {
  std::string images =
      BigEndian(0x803) + BigEndian(samples) + BigEndian(28) + BigEndian(28);
  std::string labels = BigEndian(0x801) + BigEndian(samples);
  for (int sample = 0; sample < samples; ++sample) {
    for (int i = 0; i < 28 * 28; ++i) {
      images += static_cast<char>(DigitPixel(sample, i));
    }
    labels += static_cast<char>(DigitLabel(sample));
  }
  const std::string folder = NewTempDir();
  WriteFile(folder + "/train-images-idx3-ubyte", images);
  WriteFile(folder + "/train-labels-idx1-ubyte", labels);
  return folder;
}

std::string WriteImageFolder(int images, int scale) {
  const std::string folder = NewTempDir();
  for (const char* name : {"asteroid", "planet", "ship"}) {
    mkdir((folder + "/" + name).c_str(), 0755);
  }
  for (int i = 0; i < images; ++i) {
    JpegKind kind;
    kind.width = scale * (230 + 37 * (i % 7));
    kind.height = scale * (230 + 53 * (i % 5));
    kind.progressive = i % 6 == 0;
    kind.components = i % 9 == 0 ? 1 : 3;
    const std::vector<uint8_t> jpeg = WriteJpeg(kind, i);
    const char* classes[] = {"asteroid", "planet", "ship"};
    WriteFile(absl::StrCat(folder, "/", classes[i % 3], "/", i, ".jpg"),
              std::string(jpeg.begin(), jpeg.end()));
  }
  return folder;
}

std::string Pack(const std::string& name, const std::string& format,
                 const std::string& input, const std::string& store, int shards,
                 const std::vector<std::string>& more) {
  const std::string uri =
      absl::StrCat(store, ":", NewTempDir(), "/", name,
                   shards == 1 ? absl::StrCat(".", store) : "");
  std::vector<std::string> arguments = {
      ProgramPath("server/data_tool/millrace-data"),
      "pack",
      "--format=" + format,
      "--input=" + input,
      "--output=" + uri,
      absl::StrCat("--shards=", shards)};
  if (format == "idx") arguments.push_back("--split=train");
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramResult result = RunProgram(arguments);
  if (result.exit_code != 0) {
    std::fprintf(stderr, "millrace-data pack: %s\n", result.err.c_str());
    std::abort();
  }
  return absl::StrCat("--dataset=", name, "=", uri);
}

ProgramResult Millrace(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {ProgramPath("client/cli/millrace")};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunProgram(all);
}

std::string Audit(const std::string& endpoint, const std::string& dataset,
                  int world) {
  const ProgramResult result =
      Millrace({"audit", "--endpoint=" + endpoint, "--json",
                "--preset=imagenet_train", "--batch_size=16", "--epoch=1",
                "--dataset=" + dataset, absl::StrCat("--world=", world)});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

}  // namespace millrace::testing
