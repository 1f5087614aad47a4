// What the tests of reading a spec's pixel operations share.

#ifndef MILLRACE_TESTS_SERVER_PIPELINE_PIXEL_OP_FIXTURE_H_
#define MILLRACE_TESTS_SERVER_PIPELINE_PIXEL_OP_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/pipeline/pixel_ops.h"

namespace millrace {

inline Transform ParseTransform(const std::string& text) {
  Transform transform;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &transform))
      << text;
  return transform;
}

// What `op` makes of a 30 x 40 image, for the samples 0 .. samples - 1.
inline std::vector<std::vector<uint8_t>> ResultsOf(const PixelOp& op,
                                                   int channels, int samples) {
  std::vector<std::vector<uint8_t>> results;
  for (int key = 0; key < samples; ++key) {
    std::vector<uint8_t> pixels(30 * 40 * channels);
    for (size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<uint8_t>(i * i / 97 + 31 * (i % channels));
    }
    AlignedBuffer scratch;
    EXPECT_TRUE(op.Apply({pixels.data(), 30, 40, channels, 40 * channels},
                         {static_cast<uint64_t>(key), &scratch, nullptr})
                    .ok());
    results.push_back(pixels);
  }
  return results;
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_SERVER_PIPELINE_PIXEL_OP_FIXTURE_H_
