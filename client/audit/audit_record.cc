#include "client/audit/audit_record.h"

#include <bit>
#include <cstring>

#include "proto/dtype.h"
#include "xxhash.h"

namespace millrace::audit {
namespace {

static_assert(std::endian::native == std::endian::little,
              "logs hold little-endian numbers");

const TensorHeader* FindScalars(const BatchHeader& header,
                                absl::string_view name) {
  for (const TensorHeader& tensor : header.tensors()) {
    if (tensor.name() == name && tensor.sample_shape().empty()) return &tensor;
  }
  return nullptr;
}

// An unsigned number of 1, 2, 4 or 8 bytes.
uint32_t SourceAt(const uint8_t* data, uint64_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, data, bytes);
  return static_cast<uint32_t>(value);
}

}  // namespace

uint64_t SampleHash(uint32_t source, int64_t index) {
  uint8_t bytes[12];
  std::memcpy(bytes, &source, 4);
  std::memcpy(bytes + 4, &index, 8);
  return XXH3_64bits(bytes, sizeof(bytes));
}

uint64_t SumOfAllSamples(uint64_t samples) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < samples; ++i) {
    sum += SampleHash(0, static_cast<int64_t>(i));
  }
  return sum;
}

absl::StatusOr<AuditRecord> RecordOf(const BatchHeader& header,
                                     absl::Span<const uint8_t> payload) {
  const TensorHeader* const index = FindScalars(header, "sample_index");
  const uint64_t rows = header.rows();
  if (index == nullptr || index->dtype() != DTYPE_INT64) {
    return absl::DataLossError(
        "the batch cannot be audited: it has no `sample_index`");
  }
  const TensorHeader* const source = FindScalars(header, "source_index");
  const uint64_t source_bytes =
      source == nullptr ? 0 : ElementBytes(source->dtype());
  const uint8_t* const indices = payload.data() + index->offset();
  AuditRecord record;
  record.ids = XXH3_64bits_withSeed(indices, rows * sizeof(int64_t),
                                    header.first_position());
  if (source != nullptr) {
    record.ids = XXH3_64bits_withSeed(payload.data() + source->offset(),
                                      rows * source_bytes, record.ids);
  }
  for (uint64_t row = 0; row < rows; ++row) {
    int64_t i;
    std::memcpy(&i, indices + row * sizeof(i), sizeof(i));
    if (i < 0) continue;
    ++record.samples;
    record.sample_sum += SampleHash(
        source == nullptr
            ? 0
            : SourceAt(payload.data() + source->offset() + row * source_bytes,
                       source_bytes),
        i);
  }
  record.payload_xxh3 = header.payload_xxh3();
  return record;
}

}  // namespace millrace::audit
