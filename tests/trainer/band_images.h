// Data that a model learns in seconds and not by chance: ten classes of 28x28
// images, each a bright band at a place of its own under noise.
//
//   WriteIdx(folder + "/train", /*samples=*/200, /*classes=*/10, /*seed=*/1);
//   flags.push_back(Pack(folder, "photos", "train"));  // for the server

#ifndef MILLRACE_TESTS_TRAINER_BAND_IMAGES_H_
#define MILLRACE_TESTS_TRAINER_BAND_IMAGES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {

inline std::string BigEndian(uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16),
          static_cast<char>(n >> 8), static_cast<char>(n)};
}

// IDX files as MNIST has them.
inline void WriteIdx(const std::string& prefix, uint32_t samples,
                     uint32_t classes, uint32_t seed) {
  std::string images =
      BigEndian(0x803) + BigEndian(samples) + BigEndian(28) + BigEndian(28);
  std::string labels = BigEndian(0x801) + BigEndian(samples);
  uint32_t random = seed;
  for (uint32_t i = 0; i < samples; ++i) {
    const uint32_t label = i * 7 % classes;
    labels += static_cast<char>(label);
    for (uint32_t p = 0; p < 784; ++p) {
      random = random * 1664525 + 1013904223;
      const uint32_t row = p / 28;
      const bool band = row >= 2 * label && row < 2 * label + 4;
      images += static_cast<char>((random >> 25) + (band ? 96 : 0));
    }
  }
  WriteFile(prefix + "-images-idx3-ubyte", images);
  WriteFile(prefix + "-labels-idx1-ubyte", labels);
}

inline std::string Pack(const std::string& folder, const std::string& name,
                        const std::string& split) {
  const std::string uri = absl::StrCat("lmdb:", folder, "/", name, ".lmdb");
  const ProgramResult packed = RunProgram(
      {ProgramPath("server/data_tool/millrace-data"), "pack", "--format=idx",
       "--split=" + split, "--input=" + folder, "--output=" + uri});
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
  return absl::StrCat("--dataset=", name, "=", uri);
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TRAINER_BAND_IMAGES_H_
