// Layout of a sample in an LMDB value (docs/formats.md): the fields of fixed
// size first, then the others with their length before them.
//
// Immutable, thread-safe, allocates nothing after Create.
//
//   SampleCodec codec(check);
//   codec.Encode(fields, value);               // value: EncodedBytes() bytes
//   std::vector<absl::Span<const uint8_t>> views(codec.fields());
//   MR_RETURN_IF_ERROR(codec.Decode(value, absl::MakeSpan(views)));

#ifndef MILLRACE_SERVER_STORAGE_LMDB_SAMPLE_CODEC_H_
#define MILLRACE_SERVER_STORAGE_LMDB_SAMPLE_CODEC_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {

class SampleCodec {
 public:
  // Takes the sizes from `check`.
  explicit SampleCodec(const SampleCheck& check);

  int fields() const { return fields_; }

  uint64_t EncodedBytes(
      absl::Span<const absl::Span<const uint8_t>> fields) const;

  // Writes EncodedBytes(fields) bytes. `fields` has passed the SampleCheck.
  void Encode(absl::Span<const absl::Span<const uint8_t>> fields,
              uint8_t* out) const;

  // Fills `views` (as many as fields) with views into `value`. DataLoss: the
  // lengths do not fit together.
  absl::Status Decode(absl::Span<const uint8_t> value,
                      absl::Span<absl::Span<const uint8_t>> views) const;

 private:
  struct FixedField {
    int place;  // in the schema
    uint64_t offset;
    uint64_t bytes;
  };
  int fields_ = 0;
  std::vector<FixedField> fixed_;
  std::vector<int> variable_;  // places in the schema
  uint64_t fixed_bytes_ = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LMDB_SAMPLE_CODEC_H_
