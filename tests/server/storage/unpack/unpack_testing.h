// Compressed texts, and files and sinks of unpackers in memory.

#ifndef MILLRACE_TESTS_SERVER_STORAGE_UNPACK_UNPACK_TESTING_H_
#define MILLRACE_TESTS_SERVER_STORAGE_UNPACK_UNPACK_TESTING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/unpack/decompressor.h"
#include "server/storage/unpack/unpacker.h"

namespace millrace::storage {

// `text` as the codec's own library compresses it.
std::string Compress(Codec codec, const std::string& text);

// Compressible, and longer than the buffers and windows of small codecs.
std::string LongText(int words = 200'000);

class TextFile final : public PackedFile {
 public:
  explicit TextFile(std::string text) : text_(std::move(text)) {}
  uint64_t size() const override { return text_.size(); }
  absl::Status Read(uint64_t offset, absl::Span<uint8_t> data) override;

 private:
  const std::string text_;
};

class TextSink final : public RawSink {
 public:
  absl::Status Write(absl::Span<const uint8_t> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  }
  std::string text;
};

absl::StatusOr<std::string> UnpackText(const Unpacker& unpacker,
                                       const std::string& text);

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_UNPACK_UNPACK_TESTING_H_
