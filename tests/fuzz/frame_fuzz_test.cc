// Runs the fuzz target of the wire over its seeds and a fixed number of random
// changes of them, the same in every run.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/wire/frame_encoder.h"
#include "tests/testing/wire_samples.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace millrace {
namespace {

void RunTarget(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                         input.size());
}

std::vector<std::string> Seeds() {
  const std::vector<uint8_t> payload = testing::SamplePayload();
  std::string first =
      EncodeFirstFramePrefix(testing::SampleHeader(), payload.size());
  first.append(payload.begin(), payload.end());
  char prefix[kMaxFramePrefixBytes];
  const std::string later =
      std::string(prefix, EncodeFramePrefix(17, 64, 40, prefix)) +
      std::string(40, 'z');
  const std::string unknown("\x4b\x53\x08\x01\x54\x4c\x28\x07", 8);
  const std::string cuts("\x03\x20\x80\xf0", 4);
  return {std::string(1, '\0') + first, cuts + first, cuts + later,
          cuts + later + unknown, cuts + unknown + later + first};
}

TEST(FrameFuzzTest, SeedsAndRandomChangesOfThem) {
  const std::vector<std::string> seeds = Seeds();
  for (const std::string& seed : seeds) RunTarget(seed);
  std::mt19937_64 random(20240501);
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  for (int round = 0; round < 60000; ++round) {
    std::string input = seeds[below(seeds.size())];
    for (size_t changes = 1 + below(4); changes > 0; --changes) {
      // Mostly near the start: that is where the structure is.
      const size_t at = below(below(2) == 0 ? 64 : input.size());
      if (at >= input.size()) continue;
      switch (below(6)) {
        case 0:
          input[at] = static_cast<char>(random());
          break;
        case 1:
          input[at] ^= static_cast<char>(1 << below(8));
          break;
        case 2:
          input.insert(at, 1 + below(9), static_cast<char>(random() | 0x80));
          break;
        case 3:
          input.erase(at, 1 + below(8));
          break;
        case 4:
          input.resize(at);
          break;
        default: {
          const std::string& other = seeds[below(seeds.size())];
          const size_t from = below(other.size());
          input.insert(at, other, from, below(40));
        }
      }
    }
    RunTarget(input);
  }
}

}  // namespace
}  // namespace millrace
