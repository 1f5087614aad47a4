#include "server/storage/unpack/codec_unpacker.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/unpack/new_decompressor.h"

namespace millrace::storage {
namespace {

constexpr size_t kInputBytes = 256 << 10;
constexpr size_t kOutputBytes = 1 << 20;
constexpr size_t kMinOutputBytes = 4 << 10;

bool MayFollow(Codec codec) {
  return codec != Codec::kBrotli && codec != Codec::kSnappy;
}

class OfCodec final : public Unpacker {
 public:
  explicit OfCodec(Codec codec) : codec_(codec) {}
  absl::string_view name() const override { return CodecName(codec_); }
  absl::Status Unpack(PackedFile& file, RawSink& sink) const override {
    return DecompressRange(codec_, file, 0, file.size(), sink);
  }

 private:
  const Codec codec_;
};

}  // namespace

const Unpacker& CodecUnpacker(Codec codec) {
  static const OfCodec zstd(Codec::kZstd);
  static const OfCodec gzip(Codec::kGzip);
  static const OfCodec bzip2(Codec::kBzip2);
  static const OfCodec brotli(Codec::kBrotli);
  static const OfCodec snappy(Codec::kSnappy);
  switch (codec) {
    case Codec::kGzip:
      return gzip;
    case Codec::kBzip2:
      return bzip2;
    case Codec::kBrotli:
      return brotli;
    case Codec::kSnappy:
      return snappy;
    default:
      return zstd;
  }
}

const Unpacker* CodecUnpackerNamed(absl::string_view compression) {
  const absl::string_view name = compression.substr(0, compression.find(':'));
  for (const Codec codec : {Codec::kZstd, Codec::kGzip, Codec::kBzip2,
                            Codec::kBrotli, Codec::kSnappy}) {
    if (name == CodecName(codec)) return &CodecUnpacker(codec);
  }
  return nullptr;
}

absl::Status DecompressRange(Codec codec, PackedFile& file, uint64_t offset,
                             uint64_t end, RawSink& sink) {
  std::vector<uint8_t> input(std::min<uint64_t>(kInputBytes, end - offset));
  // A file may consist of millions of small streams.
  std::vector<uint8_t> output(
      std::clamp(4 * input.size(), kMinOutputBytes, kOutputBytes));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Decompressor> stream,
                      NewDecompressor(codec));
  absl::Span<const uint8_t> left;
  bool ended = false;
  for (;;) {
    if (left.empty() && offset < end) {
      const auto bytes = std::min<uint64_t>(input.size(), end - offset);
      MR_RETURN_IF_ERROR(
          file.Read(offset, absl::MakeSpan(input.data(), bytes)));
      offset += bytes;
      left = {input.data(), bytes};
    }
    const uint64_t at = offset - left.size();
    const auto damaged = [at](absl::string_view why) {
      return absl::DataLossError(absl::StrCat("byte ", at, ": ", why));
    };
    if (ended) {
      if (left.empty()) return absl::OkStatus();
      if (!MayFollow(codec)) {
        return damaged("bytes follow the end of the compressed stream");
      }
    }
    const auto step = stream->Run(left, absl::MakeSpan(output));
    if (!step.ok()) {
      return absl::Status(
          step.status().code(),
          absl::StrCat("byte ", at, ": ", step.status().message()));
    }
    left.remove_prefix(step->taken);
    if (step->made > 0) {
      MR_RETURN_IF_ERROR(sink.Write({output.data(), step->made}));
    }
    ended = step->ended;
    if (ended || step->taken > 0 || step->made > 0) continue;
    if (!left.empty()) {
      return damaged("no more of the compressed stream can be read");
    }
    if (offset == end) {
      return damaged(
          "the file ends within the compressed stream: it was cut "
          "off");
    }
  }
}

}  // namespace millrace::storage
