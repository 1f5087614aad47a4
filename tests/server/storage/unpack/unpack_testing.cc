#include "tests/server/storage/unpack/unpack_testing.h"

#include <arrow/util/compression.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace millrace::storage {
namespace {

const uint8_t* Bytes(const std::string& text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

std::string CompressGzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(
      deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = const_cast<Bytef*>(Bytes(text));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string CompressZstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(
      ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// bzip2 cannot be used in one call.
std::string CompressStream(arrow::util::Codec& codec, const std::string& text) {
  auto stream = *codec.MakeCompressor();
  std::string out;
  std::string buffer(1 << 20, '\0');
  auto* const data = reinterpret_cast<uint8_t*>(buffer.data());
  const auto size = static_cast<int64_t>(buffer.size());
  for (size_t at = 0; at < text.size();) {
    const auto step = *stream->Compress(static_cast<int64_t>(text.size() - at),
                                        Bytes(text) + at, size, data);
    at += step.bytes_read;
    out.append(buffer, 0, step.bytes_written);
  }
  for (bool more = true; more;) {
    const auto end = *stream->End(size, data);
    out.append(buffer, 0, end.bytes_written);
    more = end.should_retry;
  }
  return out;
}

std::string CompressArrow(arrow::Compression::type type,
                          const std::string& text) {
  const auto codec = *arrow::util::Codec::Create(type);
  if (type != arrow::Compression::SNAPPY) return CompressStream(*codec, text);
  const auto size = static_cast<int64_t>(text.size());
  std::string out(codec->MaxCompressedLen(size, Bytes(text)), '\0');
  out.resize(*codec->Compress(size, Bytes(text), out.size(),
                              reinterpret_cast<uint8_t*>(out.data())));
  return out;
}

}  // namespace

std::string Compress(Codec codec, const std::string& text) {
  switch (codec) {
    case Codec::kZstd:
      return CompressZstd(text);
    case Codec::kGzip:
      return CompressGzip(text);
    case Codec::kBzip2:
      return CompressArrow(arrow::Compression::BZ2, text);
    case Codec::kBrotli:
      return CompressArrow(arrow::Compression::BROTLI, text);
    case Codec::kSnappy:
      return CompressArrow(arrow::Compression::SNAPPY, text);
  }
  return "";
}

std::string LongText(int words) {
  std::string text;
  uint32_t state = 1;
  for (int i = 0; i < words; ++i) {
    state = state * 1664525 + 1013904223;
    absl::StrAppend(&text, state >> 20, i % 7 == 0 ? "\n" : " and ");
  }
  return text;
}

absl::Status TextFile::Read(uint64_t offset, absl::Span<uint8_t> data) {
  EXPECT_LE(offset + data.size(), text_.size());
  if (!data.empty()) std::memcpy(data.data(), &text_[offset], data.size());
  return absl::OkStatus();
}

absl::StatusOr<std::string> UnpackText(const Unpacker& unpacker,
                                       const std::string& text) {
  TextFile file(text);
  TextSink sink;
  const absl::Status status = unpacker.Unpack(file, sink);
  if (!status.ok()) return status;
  return sink.text;
}

}  // namespace millrace::storage
