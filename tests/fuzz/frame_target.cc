// Fuzz target of the wire: a message in slices cut as the input says. Whatever
// arrives, parsing ends, stays inside the input, and what is taken is what
// protobuf reads of the same bytes.

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/logging.h"
#include "proto/wire/batch_view.h"
#include "proto/wire/frame_compression.h"
#include "proto/wire/frame_encoder.h"
#include "proto/wire/frame_view.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/wire_samples.h"

namespace millrace {
namespace {

void CheckAgainstProtobuf(const std::string& bytes,
                          const wire::FrameView& view) {
  Frame frame;
  MR_CHECK(frame.ParseFromString(bytes)) << "protobuf refuses what we took";
  MR_CHECK(frame.step() == view.step);
  MR_CHECK(frame.offset() == view.offset);
  MR_CHECK(frame.data().size() == view.data_bytes);
  MR_CHECK(frame.compression() == view.compression);
  MR_CHECK(frame.raw_bytes() == view.raw_bytes);
  MR_CHECK(frame.delta_stride() == view.delta_stride);
  MR_CHECK(frame.has_header() == view.has_header);
  MR_CHECK(frame.header().SerializeAsString() ==
           view.header.SerializeAsString());
  std::string data;
  for (absl::string_view piece : view.data) {
    MR_CHECK(piece.data() >= bytes.data() &&
             piece.data() + piece.size() <= bytes.data() + bytes.size())
        << "a piece lies outside the message";
    data.append(piece.data(), piece.size());
  }
  MR_CHECK(frame.data() == data);
}

void CheckBatch(const wire::FrameView& view) {
  static const auto* const tensors = new auto(testing::SampleTensors());
  constexpr uint64_t kMaxPayload = 4096;
  const BatchHeader& header = view.header;
  const wire::BatchExpectation expect{.tensors = tensors,
                                      .epoch = header.epoch(),
                                      .step = header.step(),
                                      .rank = header.rank(),
                                      .world_size = header.world_size(),
                                      .max_payload_bytes = kMaxPayload};
  if (!wire::ValidateBatchHeader(header, expect).ok()) return;
  // A header that passed may be followed: every tensor lies in the payload.
  // Under a sanitizer an access beside it ends the run.
  std::vector<uint8_t> payload(header.payload_bytes(), 0);
  (void)wire::CopyFrameData(view, absl::MakeSpan(payload));
  (void)wire::ValidatePayload(header, payload);
  for (const TensorHeader& tensor : header.tensors()) {
    std::fill_n(payload.begin() + tensor.offset(), tensor.bytes(), 1);
    std::fill_n(payload.begin() + tensor.values_offset(), tensor.values_bytes(),
                1);
  }
}

// The first byte is the number of cuts; so many bytes after it say where.
bool Run(const uint8_t* data, size_t size) {
  // protobuf writes a line for each string that is no UTF-8.
  static const auto quiet = google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string&) {});
  (void)quiet;
  if (size == 0) return false;
  const size_t cuts = std::min<size_t>(data[0] % 16, size - 1);
  const std::string bytes(reinterpret_cast<const char*>(data) + 1 + cuts,
                          size - 1 - cuts);
  std::vector<size_t> at = {0, bytes.size()};
  for (size_t i = 0; i < cuts; ++i) {
    at.push_back(bytes.size() * data[1 + i] / 255);
  }
  std::sort(at.begin(), at.end());
  std::vector<absl::string_view> slices;
  for (size_t i = 1; i < at.size(); ++i) {
    slices.push_back(
        absl::string_view(bytes).substr(at[i - 1], at[i] - at[i - 1]));
  }
  static thread_local wire::FrameView
      view;  // used again and again, as clients do
  if (!wire::ParseFrame(slices, &view).ok()) return false;
  CheckAgainstProtobuf(bytes, view);
  if (view.has_header) CheckBatch(view);
  return true;
}

std::vector<std::string> Seeds() {
  const std::vector<uint8_t> payload = testing::SamplePayload();
  std::string first =
      wire::EncodeFirstFramePrefix(testing::SampleHeader(), payload.size());
  first.append(payload.begin(), payload.end());
  char prefix[wire::kMaxFramePrefixBytes];
  const std::string later =
      std::string(prefix, wire::EncodeFramePrefix(17, 64, 40, prefix)) +
      std::string(40, 'z');
  const auto compressed = wire::CompressFrame(payload, 3);
  MR_CHECK(compressed.has_value()) << "the sample is easily compressed";
  std::string first_compressed = wire::EncodeFirstFramePrefix(
      testing::SampleHeader(), compressed->data.size(),
      {COMPRESSION_ZSTD, payload.size(), compressed->delta_stride});
  first_compressed.append(compressed->data.begin(), compressed->data.end());
  const std::string unknown("\x4b\x53\x08\x01\x54\x4c\x28\x07", 8);
  const std::string cuts("\x03\x20\x80\xf0", 4);
  return {std::string(1, '\0') + first,
          cuts + first,
          cuts + later,
          cuts + first_compressed,
          cuts + later + unknown,
          cuts + unknown + later + first};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds};
  return target;
}

}  // namespace millrace
