#include "server/storage/unpack/new_decompressor.h"

#include <zlib.h>
#include <zstd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/storage/parquet/arrow_decompressor.h"
#include "server/storage/unpack/snappy_decompressor.h"

namespace millrace::storage {
namespace {

// The largest window that is decompressed: 128 MiB, zstd's own limit.
constexpr int kMaxZstdWindowLog = 27;
// zlib's largest window, and a gzip header.
constexpr int kGzipWindowBits = 15 + 16;
constexpr size_t kMaxZlibBytes = size_t{1} << 30;

class ZstdDecompressor final : public Decompressor {
 public:
  ZstdDecompressor() : stream_(ZSTD_createDStream()) {
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kMaxZstdWindowLog);
  }
  ~ZstdDecompressor() override { ZSTD_freeDStream(stream_); }

  absl::StatusOr<Step> Run(absl::Span<const uint8_t> input,
                           absl::Span<uint8_t> output) override {
    ZSTD_inBuffer in = {input.data(), input.size(), 0};
    ZSTD_outBuffer out = {output.data(), output.size(), 0};
    const size_t left = ZSTD_decompressStream(stream_, &out, &in);
    if (ZSTD_isError(left)) {
      return absl::DataLossError(absl::StrCat("the zstd stream is damaged: ",
                                              ZSTD_getErrorName(left)));
    }
    // Without a byte, 0 says nothing of a stream.
    return Step{in.pos, out.pos, left == 0 && (in.pos > 0 || out.pos > 0)};
  }

 private:
  ZSTD_DStream* const stream_;
};

class GzipDecompressor final : public Decompressor {
 public:
  GzipDecompressor() { ok_ = inflateInit2(&stream_, kGzipWindowBits) == Z_OK; }
  ~GzipDecompressor() override {
    if (ok_) inflateEnd(&stream_);
  }
  bool ok() const { return ok_; }

  absl::StatusOr<Step> Run(absl::Span<const uint8_t> input,
                           absl::Span<uint8_t> output) override {
    input = input.subspan(0, kMaxZlibBytes);
    output = output.subspan(0, kMaxZlibBytes);
    if (ended_) inflateReset(&stream_);
    ended_ = false;
    stream_.next_in = const_cast<Bytef*>(input.data());
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = output.data();
    stream_.avail_out = static_cast<uInt>(output.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return absl::DataLossError(absl::StrCat(
          "the gzip stream is damaged: ",
          stream_.msg == nullptr ? "no data of gzip" : stream_.msg));
    }
    ended_ = result == Z_STREAM_END;
    return Step{input.size() - stream_.avail_in,
                output.size() - stream_.avail_out, ended_};
  }

 private:
  z_stream stream_ = {};
  bool ok_ = false;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Decompressor>> NewDecompressor(Codec codec) {
  switch (codec) {
    case Codec::kZstd:
      return std::make_unique<ZstdDecompressor>();
    case Codec::kGzip: {
      auto gzip = std::make_unique<GzipDecompressor>();
      if (!gzip->ok()) {
        return absl::ResourceExhaustedError("zlib has no memory for a stream");
      }
      return gzip;
    }
    case Codec::kSnappy:
      return std::make_unique<SnappyDecompressor>();
    case Codec::kBzip2:
    case Codec::kBrotli:
      break;
  }
  return NewArrowDecompressor(codec);
}

absl::string_view CodecName(Codec codec) {
  switch (codec) {
    case Codec::kZstd:
      return "zstd";
    case Codec::kGzip:
      return "gz";
    case Codec::kBzip2:
      return "bz2";
    case Codec::kBrotli:
      return "br";
    case Codec::kSnappy:
      return "snappy";
  }
  return "";
}

}  // namespace millrace::storage
