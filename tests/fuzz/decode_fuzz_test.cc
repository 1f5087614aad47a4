// A short run of the decoders' fuzz target with every test run: images of every
// kind, each as it is and with random bytes changed, cut out or doubled.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/decode_target.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"

namespace millrace {
namespace {

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> Seeds() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator("tests/testdata/images")) {
    const std::string extension = entry.path().extension();
    if (extension == ".jpg" || extension == ".png") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> seeds;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in),
                       std::istreambuf_iterator<char>());
  }
  for (int i = 0; i < 24; ++i) {
    JpegKind kind;
    kind.width = 20 + i * 3;
    kind.height = 50 - i;
    kind.components = i % 4 == 0 ? 1 : i % 7 == 0 ? 4 : 3;
    kind.progressive = i % 3 == 1;
    kind.separate_scans = i % 6 == 2;
    kind.restart_rows = i % 5 == 0;
    kind.h_sampling = 1 + i % 2;
    kind.v_sampling = 1 + (i / 2) % 2;
    kind.quality = 30 + i * 3;
    seeds.push_back(WriteJpeg(kind, i));
  }
  for (bool interlaced : {false, true}) {
    PngKind kind;
    kind.interlaced = interlaced;
    seeds.push_back(WritePng(kind, TestPixels(20, 14, 3, 5)));
  }
  return seeds;
}

TEST(FuzzDecode, EverySeedIsAnImage) {
  for (const Bytes& seed : Seeds()) {
    EXPECT_TRUE(FuzzDecode(seed.data(), seed.size()));
  }
}

TEST(FuzzDecode, DamagedImagesAreReported) {
  uint64_t state = 99;
  auto draw = [&](uint64_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % n;
  };
  int bad = 0;
  int good = 0;
  for (const Bytes& seed : Seeds()) {
    for (int i = 0; i < 40; ++i) {
      Bytes bytes = seed;
      const int changes = 1 + static_cast<int>(draw(4));
      for (int c = 0; c < changes && !bytes.empty(); ++c) {
        const size_t at = draw(bytes.size());
        switch (draw(5)) {
          case 0:
            bytes[at] = static_cast<uint8_t>(draw(256));
            break;
          case 1:
            bytes[at] ^= 1 << draw(8);
            break;
          case 2:
            bytes[at] = 0xFF;
            break;
          case 3:
            bytes.erase(bytes.begin() + at,
                        bytes.begin() + at +
                            std::min<size_t>(bytes.size() - at, draw(40)));
            break;
          case 4: {
            const Bytes copy(bytes.begin() + at,
                             bytes.begin() + at +
                                 std::min<size_t>(bytes.size() - at, draw(40)));
            bytes.insert(bytes.begin() + at, copy.begin(), copy.end());
            break;
          }
        }
      }
      (FuzzDecode(bytes.data(), bytes.size()) ? good : bad)++;
    }
  }
  EXPECT_GT(bad, 300);  // else the changes reach nothing
  EXPECT_GT(good, 50);
}

}  // namespace
}  // namespace millrace
