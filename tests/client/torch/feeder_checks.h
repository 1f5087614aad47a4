// A DeviceFeeder over the fake host loader, and whether what it gives out is
// what that loader made up.

#ifndef MILLRACE_TESTS_CLIENT_TORCH_FEEDER_CHECKS_H_
#define MILLRACE_TESTS_CLIENT_TORCH_FEEDER_CHECKS_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "client/torch/device_feeder.h"
#include "tests/client/torch/fake_host_loader.h"
#include "xxhash.h"

namespace millrace::device {

inline float Expected(uint64_t position, uint64_t i) {
  const float scaled =
      static_cast<float>(FakePixel(position, i)) * (1.0f / 255);
  return i % 2 == 0 ? (scaled - 0.25f) / 0.5f : (scaled - 0.5f) / 0.3f;
}

// Wrong values in the memory of a batch, read as the fake host wrote it.
inline int CountWrong(const DeviceBatch& batch, bool transformed = true) {
  int wrong = 0;
  const auto* image = reinterpret_cast<const float*>(batch.tensors[0].data);
  const auto* label = reinterpret_cast<const int64_t*>(batch.tensors[1].data);
  for (uint64_t r = 0; r < batch.rows; ++r) {
    const uint64_t position = batch.first_position + r;
    wrong += label[r] != static_cast<int64_t>(position % 10);
    for (int i = 0; i < FakeHostLoader::kPixels; ++i) {
      const uint64_t at = r * FakeHostLoader::kPixels + i;
      wrong += transformed
                   ? image[at] != Expected(position, i)
                   : batch.tensors[0].data[at] != FakePixel(position, i);
    }
  }
  return wrong;
}

// Whether the payload that the batch lies in is, byte for byte, what its sender
// took the digest of. Needs DeviceFeeder::Options::audit. `sample_index` is
// never transformed: it lies in the payload wherever that is.
inline bool HasItsDigest(const DeviceBatch& batch) {
  const uint64_t stride = FakeHostLoader::Stride(batch.rows);
  const uint8_t* const payload = batch.tensors[4].data - 3 * stride;
  return XXH3_64bits(payload, FakeHostLoader::kTensors * stride) ==
         batch.audit->payload_xxh3;
}

inline std::unique_ptr<DeviceFeeder> Start(FakeHostLoader::Options host,
                                           std::shared_ptr<Device> device,
                                           DeviceFeeder::Options options = {}) {
  auto feeder =
      DeviceFeeder::Start(std::make_unique<FakeHostLoader>(std::move(host)),
                          std::move(device), options);
  EXPECT_TRUE(feeder.ok()) << feeder.status();
  return std::move(feeder).value();
}

}  // namespace millrace::device

#endif  // MILLRACE_TESTS_CLIENT_TORCH_FEEDER_CHECKS_H_
