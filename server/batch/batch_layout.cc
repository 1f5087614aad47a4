#include "server/batch/batch_layout.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/dtype.h"
#include "proto/tensor_cast.h"

namespace millrace::batch {
namespace {

constexpr uint64_t kAlignment = 64;
// Max bytes of one tensor of one sample, so that rows * bytes does not overflow
// for the largest batch.
constexpr uint64_t kMaxRowBytes = uint64_t{1} << 32;
// The class that torch's and most other loss functions ignore by default.
constexpr int64_t kIgnoredClass = -100;

uint64_t AlignUp(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

TensorSpec ScalarSpec(absl::string_view name, DType dtype) {
  TensorSpec spec;
  spec.set_name(std::string(name));
  spec.set_dtype(dtype);
  return spec;
}

// kIgnoredClass as `dtype`; zeros if the type cannot represent it.
std::array<uint8_t, 8> NoClass(DType dtype) {
  std::array<uint8_t, 8> bytes = {};
  TensorSpec spec = ScalarSpec("class", DTYPE_INT64);
  spec.mutable_device_transform()->set_dtype(dtype);
  const auto cast = TensorCast::Make(spec);
  if (!cast.ok() ||
      !cast->Apply(reinterpret_cast<const uint8_t*>(&kIgnoredClass),
                   bytes.data(), 1)) {
    bytes = {};
  }
  return bytes;
}

}  // namespace

TensorSpec SourceIndexSpec() { return ScalarSpec("source_index", DTYPE_INT32); }
TensorSpec SampleIndexSpec() { return ScalarSpec("sample_index", DTYPE_INT64); }
TensorSpec ValidSpec() { return ScalarSpec("valid", DTYPE_BOOL); }

absl::StatusOr<BatchLayout> BatchLayout::Create(
    absl::Span<const TensorSpec> tensors, bool several_sources) {
  BatchLayout layout;
  layout.several_sources_ = several_sources;
  std::vector<TensorSpec> all(tensors.begin(), tensors.end());
  if (several_sources) all.push_back(SourceIndexSpec());
  all.push_back(SampleIndexSpec());
  all.push_back(ValidSpec());
  for (const TensorSpec& tensor : all) {
    uint64_t bytes = ElementBytes(tensor.dtype());
    for (int64_t dim : tensor.sample_shape()) {
      if (dim == -1) {
        return absl::UnimplementedError(absl::StrCat(
            "tensor ", tensor.name(),
            " is ragged: batches of ragged tensors are not supported yet"));
      }
      if (dim < 0 ||
          (bytes != 0 && static_cast<uint64_t>(dim) > kMaxRowBytes / bytes)) {
        return absl::InvalidArgumentError(
            absl::StrCat("a sample of tensor ", tensor.name(),
                         " is larger than ", kMaxRowBytes, " bytes"));
      }
      bytes *= dim;
    }
    if (bytes == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a sample of tensor ", tensor.name(), " has 0 bytes: ",
          DTypeName(tensor.dtype()), " with a dimension of 0 in its shape"));
    }
    Column column;
    column.header.set_name(tensor.name());
    column.header.set_dtype(tensor.dtype());
    *column.header.mutable_sample_shape() = tensor.sample_shape();
    column.row_bytes = bytes;
    column.is_class = tensor.num_classes() > 0 && tensor.sample_shape().empty();
    if (column.is_class) column.no_class = NoClass(tensor.dtype());
    layout.sum_row_bytes_ += bytes;
    layout.columns_.push_back(std::move(column));
  }
  return layout;
}

uint64_t BatchLayout::PayloadBytes(uint64_t rows) const {
  uint64_t end = 0;
  for (const Column& column : columns_) {
    end = AlignUp(end + rows * column.row_bytes);
  }
  return end;
}

BatchLayout::Placed BatchLayout::ForRows(uint64_t rows) const {
  Placed placed;
  placed.layout_ = this;
  placed.rows_ = rows;
  placed.offsets_.reserve(columns_.size());
  uint64_t end = 0;
  for (const Column& column : columns_) {
    placed.offsets_.push_back(end);
    end = AlignUp(end + rows * column.row_bytes);
  }
  placed.payload_bytes_ = end;
  return placed;
}

void BatchLayout::Placed::SetSample(uint8_t* payload, uint64_t row,
                                    int64_t index, bool valid,
                                    int32_t source) const {
  int tensor = layout_->tensors();
  if (layout_->several_sources_) {
    std::memcpy(Row(payload, tensor++, row), &source, sizeof(source));
  }
  std::memcpy(Row(payload, tensor++, row), &index, sizeof(index));
  *Row(payload, tensor, row) = valid ? 1 : 0;
}

std::vector<int64_t> BatchLayout::Placed::Samples(const uint8_t* payload,
                                                  int32_t source) const {
  std::vector<int64_t> samples(rows_);
  const int tensor = layout_->tensors() + layout_->several_sources_;
  if (rows_ == 0) return samples;
  std::memcpy(samples.data(), payload + offsets_[tensor],
              rows_ * sizeof(int64_t));
  if (!layout_->several_sources_) return samples;
  const uint8_t* const sources = payload + offsets_[layout_->tensors()];
  uint64_t kept = 0;
  for (uint64_t row = 0; row < rows_; ++row) {
    int32_t of_row;
    std::memcpy(&of_row, sources + row * sizeof(of_row), sizeof(of_row));
    if (of_row == source) samples[kept++] = samples[row];
  }
  samples.resize(kept);
  return samples;
}

void BatchLayout::Placed::FillEmptyRow(uint8_t* payload, uint64_t row,
                                       int64_t sample_index,
                                       int32_t source) const {
  for (int i = 0; i < layout_->tensors(); ++i) {
    const Column& column = layout_->columns_[i];
    if (column.is_class) {
      std::memcpy(Row(payload, i, row), column.no_class.data(),
                  column.row_bytes);
    } else {
      std::memset(Row(payload, i, row), 0, column.row_bytes);
    }
  }
  SetSample(payload, row, sample_index, false, source);
}

void BatchLayout::Placed::ZeroGaps(uint8_t* payload) const {
  for (size_t i = 0; i < offsets_.size(); ++i) {
    const uint64_t end = offsets_[i] + rows_ * layout_->columns_[i].row_bytes;
    const uint64_t next =
        i + 1 < offsets_.size() ? offsets_[i + 1] : payload_bytes_;
    std::memset(payload + end, 0, next - end);
  }
}

void BatchLayout::Placed::Describe(BatchHeader& header) const {
  header.set_payload_bytes(payload_bytes_);
  header.mutable_tensors()->Reserve(static_cast<int>(offsets_.size()));
  for (size_t i = 0; i < offsets_.size(); ++i) {
    TensorHeader& tensor = *header.add_tensors();
    tensor = layout_->columns_[i].header;
    tensor.set_offset(offsets_[i]);
    tensor.set_bytes(rows_ * layout_->columns_[i].row_bytes);
  }
}

}  // namespace millrace::batch
