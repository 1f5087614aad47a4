// BatchLayout says where each field of each sample lands in the payload of a
// batch: the outputs of the spec in their order, of several sources
// `source_index` int32[rows], then `sample_index` int64[rows] (both -1 for
// padding) and `valid` bool[rows]. Every tensor starts at a
// multiple of 64 bytes and the payload ends at one; the bytes between are zero,
// so that two payloads of the same batch are equal as a whole.
//
// The protocol has ragged tensors (offsets and values, see TensorHeader);
// Create() refuses them, because their layout is not implemented yet.
//
// Immutable, thread-safe. Different rows may be written by different threads.
//
//   MR_ASSIGN_OR_RETURN(BatchLayout layout, BatchLayout::Create(tensors));
//   const BatchLayout::Placed placed = layout.ForRows(64);
//   std::memcpy(placed.Row(payload, tensor, row), bytes, layout.row_bytes(0));

#ifndef MILLRACE_SERVER_BATCH_BATCH_LAYOUT_H_
#define MILLRACE_SERVER_BATCH_BATCH_LAYOUT_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::batch {

class BatchLayout {
 public:
  // `tensors`: the outputs, without those that every batch has.
  // Unimplemented: a ragged one. InvalidArgument: a sample of no usable size.
  static absl::StatusOr<BatchLayout> Create(
      absl::Span<const TensorSpec> tensors, bool several_sources = false);

  // Of the outputs, in their order.
  int tensors() const {
    return static_cast<int>(columns_.size()) - 2 - several_sources_;
  }
  // Of a row of output `tensor`.
  uint64_t row_bytes(int tensor) const { return columns_[tensor].row_bytes; }
  // Of a row over all tensors, without alignment.
  uint64_t row_bytes() const { return sum_row_bytes_; }

  uint64_t PayloadBytes(uint64_t rows) const;

  // The layout at a number of rows. Must not outlive the BatchLayout.
  class Placed {
   public:
    uint64_t rows() const { return rows_; }
    uint64_t payload_bytes() const { return payload_bytes_; }

    // Where row `row` of output `tensor` begins.
    uint8_t* Row(uint8_t* payload, int tensor, uint64_t row) const {
      return payload + offsets_[tensor] +
             row * layout_->columns_[tensor].row_bytes;
    }

    // Writes sample_index and valid of a row and, where there are several, its
    // source; -1: none.
    void SetSample(uint8_t* payload, uint64_t row, int64_t index, bool valid,
                   int32_t source = 0) const;

    // sample_index of the rows that are of source `source`, in their order; -1
    // where there is none.
    std::vector<int64_t> Samples(const uint8_t* payload, int32_t source) const;

    // Writes an empty row: zeros, -100 in class fields of every type (the index
    // that losses ignore), valid = false.
    void FillEmptyRow(uint8_t* payload, uint64_t row, int64_t sample_index,
                      int32_t source = -1) const;

    // Zeroes the bytes between the tensors and behind the last.
    void ZeroGaps(uint8_t* payload) const;

    // Fills `header`'s tensors and payload_bytes.
    void Describe(BatchHeader& header) const;

   private:
    friend class BatchLayout;
    const BatchLayout* layout_;
    uint64_t rows_;
    uint64_t payload_bytes_;
    std::vector<uint64_t> offsets_;
  };

  Placed ForRows(uint64_t rows) const;

 private:
  struct Column {
    TensorHeader header;  // name, dtype and shape
    uint64_t row_bytes;
    bool is_class;
    // -100 in the type of the wire, where it has one: row_bytes of it.
    std::array<uint8_t, 8> no_class;
  };

  BatchLayout() = default;

  // The outputs, source_index where there are several, sample_index, valid.
  std::vector<Column> columns_;
  bool several_sources_ = false;
  uint64_t sum_row_bytes_ = 0;
};

// The tensors at the end of every batch; the first of several sources only.
TensorSpec SourceIndexSpec();
TensorSpec SampleIndexSpec();
TensorSpec ValidSpec();

}  // namespace millrace::batch

#endif  // MILLRACE_SERVER_BATCH_BATCH_LAYOUT_H_
