// Fuzz target of compressed files whose format is parsed here: Snappy streams,
// and LitData chunks with compressed samples. Whatever a file holds,
// decompressing it ends, and reads inside the file alone. The first byte of an
// input chooses the format; the rest is the file.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/logging.h"
#include "server/storage/litdata/litdata_batches.h"
#include "server/storage/little_endian.h"
#include "server/storage/unpack/codec_unpacker.h"
#include "server/storage/unpack/decompressor.h"
#include "server/storage/unpack/unpacker.h"
#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

constexpr uint64_t kMaxRawBytes = 1 << 22;

class File final : public storage::PackedFile {
 public:
  explicit File(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  absl::Status Read(uint64_t offset, absl::Span<uint8_t> data) override {
    MR_CHECK(offset <= bytes_.size() && data.size() <= bytes_.size() - offset);
    if (!data.empty()) {
      std::memcpy(data.data(), bytes_.data() + offset, data.size());
    }
    return absl::OkStatus();
  }

 private:
  const absl::Span<const uint8_t> bytes_;
};

class Sink final : public storage::RawSink {
 public:
  absl::Status Write(absl::Span<const uint8_t> bytes) override {
    left_ -= std::min<uint64_t>(left_, bytes.size());
    return left_ > 0 ? absl::OkStatus() : absl::DataLossError("byte 0: enough");
  }

 private:
  uint64_t left_ = kMaxRawBytes;
};

const storage::Unpacker& UnpackerOf(uint8_t choice) {
  switch (choice % 3) {
    case 0:
      return storage::CodecUnpacker(storage::Codec::kSnappy);
    case 1:
      return storage::LitdataBatches();
    default:
      return storage::LitdataSamples();
  }
}

bool Run(const uint8_t* data, size_t size) {
  if (size == 0) return false;
  const storage::Unpacker& unpacker = UnpackerOf(data[0]);
  File file({data + 1, size - 1});
  const auto claimed = unpacker.ClaimedBytes(file);
  Sink sink;
  const absl::Status status = unpacker.Unpack(file, sink);
  MR_CHECK(status.ok() || absl::StartsWith(status.message(), "byte "))
      << status.message();
  MR_CHECK(!status.ok() || claimed.ok());
  return status.ok();
}

// Of four bytes, uncompressed, as zstd writes it.
constexpr absl::string_view kFrame(
    "\x28\xB5\x2F\xFD\x20\x04\x21\x00\x00"
    "abcd",
    13);

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  // A literal of four bytes, then copies with each kind of offset.
  seeds.push_back(
      std::string("\0\x10\x0C"
                  "abcd"
                  "\x01\x04\x0E\x02\0\x0F\x01\0\0\0",
                  17));
  std::string batches("\1LDFZ01\0\0\1\0\0\0", 13);
  for (const uint32_t number : {2, 1, 2, 0, 4, 8}) {
    storage::AppendU32(number, &batches);
  }
  const uint64_t begin = 24 + 3 * 4 + 2 * 24;
  for (uint32_t i = 0; i < 2; ++i) {
    storage::AppendU32(i, &batches);
    storage::AppendU32(1, &batches);
    storage::AppendU64(begin + i * kFrame.size(), &batches);
    storage::AppendU32(kFrame.size(), &batches);
    storage::AppendU32(4, &batches);
  }
  seeds.push_back(batches + std::string(kFrame) + std::string(kFrame));
  std::string samples("\2");
  const uint32_t size = kFrame.size();
  for (const uint32_t number : {2U, 16U, 16U + size, 16U + 2 * size}) {
    storage::AppendU32(number, &samples);
  }
  seeds.push_back(samples + std::string(kFrame) + std::string(kFrame));
  return seeds;
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {
      .run = Run, .seeds = Seeds, .repair = nullptr, .words = nullptr};
  return target;
}

}  // namespace millrace
