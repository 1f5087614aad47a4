// Decompresses Snappy's raw format (no framing), as MDS shards have it, in
// pieces: one stream is the length of the output as a varint, then literals and
// copies of earlier output.
//
// Copies from further back than 64 KiB are refused: the writers of the format
// compress blocks of 64 KiB, and memory is bounded by it.
//
// One thread at a time.

#ifndef MILLRACE_SERVER_STORAGE_UNPACK_SNAPPY_DECOMPRESSOR_H_
#define MILLRACE_SERVER_STORAGE_UNPACK_SNAPPY_DECOMPRESSOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/unpack/decompressor.h"

namespace millrace::storage {

class SnappyDecompressor final : public Decompressor {
 public:
  SnappyDecompressor() : window_(kWindow) {}

  absl::StatusOr<Step> Run(absl::Span<const uint8_t> input,
                           absl::Span<uint8_t> output) override;

 private:
  static constexpr uint32_t kWindow = 1 << 16;

  enum class State { kLength, kTag, kOperand, kLiteral, kCopy, kEnd };

  // Takes a byte that is not one of a literal. DataLoss: it cannot follow.
  absl::Status Take(uint8_t byte);
  absl::Status BeginElement();
  void Put(uint8_t byte, absl::Span<uint8_t> output, size_t* made);

  State state_ = State::kLength;
  uint64_t length_ = 0;  // of the whole output
  int length_bits_ = 0;  // of it that were taken
  uint64_t made_ = 0;    // in all
  uint8_t tag_ = 0;
  uint32_t operand_ = 0;
  int operand_bytes_ = 0;  // that the tag has
  int operand_taken_ = 0;
  uint64_t left_ = 0;            // of the literal or the copy
  uint32_t offset_ = 0;          // of the copy
  std::vector<uint8_t> window_;  // the last output, at its place modulo kWindow
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_UNPACK_SNAPPY_DECOMPRESSOR_H_
