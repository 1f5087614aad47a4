#include "proto/wire/batch_view.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/dtype.h"
#include "proto/wire/version.h"

namespace millrace::wire {
namespace {

struct Extent {
  uint64_t begin;
  uint64_t end;
  absl::string_view name;
};
using Extents = absl::InlinedVector<Extent, 16>;

template <typename... Parts>
absl::Status Bad(const BatchHeader& header, const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(
      "the server sent an invalid batch (epoch ", header.epoch(), ", step ",
      header.step(), ", rank ", header.rank(), "): ", parts...));
}

bool Multiply(uint64_t a, uint64_t b, uint64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

std::string ShapeText(const google::protobuf::RepeatedField<int64_t>& shape) {
  std::string text = "[";
  for (int64_t d : shape) absl::StrAppend(&text, text.size() > 1 ? "," : "", d);
  return text + "]";
}

absl::Status AddExtent(const BatchHeader& header, absl::string_view name,
                       uint64_t offset, uint64_t bytes, Extents* extents) {
  if (offset % kTensorAlignment != 0) {
    return Bad(header, "tensor `", name, "` starts at byte ", offset,
               ", which is not a multiple of ", kTensorAlignment);
  }
  if (offset > header.payload_bytes() ||
      bytes > header.payload_bytes() - offset) {
    return Bad(header, "tensor `", name, "` has ", bytes, " bytes at ", offset,
               " of a payload of ", header.payload_bytes());
  }
  if (bytes > 0) extents->push_back({offset, offset + bytes, name});
  return absl::OkStatus();
}

absl::Status CheckTensor(const BatchHeader& header, const TensorHeader& tensor,
                         const TensorSpec& spec, Extents* extents) {
  if (tensor.name() != spec.name() || tensor.dtype() != spec.dtype() ||
      !std::equal(tensor.sample_shape().begin(), tensor.sample_shape().end(),
                  spec.sample_shape().begin(), spec.sample_shape().end())) {
    return Bad(header, "tensor `", tensor.name(), "` is ",
               DTypeName(tensor.dtype()), ShapeText(tensor.sample_shape()),
               ", but the plan has `", spec.name(), "` ",
               DTypeName(spec.dtype()), ShapeText(spec.sample_shape()));
  }
  bool ragged = false;
  uint64_t elements = 0;
  uint64_t unit = 0;  // bytes of one sample, or of one value
  const uint64_t width = ElementBytes(tensor.dtype());
  if (width == 0 ||
      !SampleElements(tensor.sample_shape(), &ragged, &elements) ||
      !Multiply(elements, width, &unit)) {
    return Bad(header, "tensor `", tensor.name(), "` has the shape ",
               ShapeText(tensor.sample_shape()), " of ",
               DTypeName(tensor.dtype()));
  }
  uint64_t expected = 0;
  if (!ragged) {
    if (!Multiply(header.rows(), unit, &expected) ||
        tensor.bytes() != expected) {
      return Bad(header, "tensor `", tensor.name(), "` has ", tensor.bytes(),
                 " bytes for ", header.rows(), " rows of ", unit);
    }
    if (tensor.values_bytes() != 0 || tensor.values_offset() != 0) {
      return Bad(header, "tensor `", tensor.name(),
                 "` is dense and has ragged values");
    }
    return AddExtent(header, tensor.name(), tensor.offset(), tensor.bytes(),
                     extents);
  }
  if (header.rows() == UINT64_MAX ||
      !Multiply(header.rows() + 1, sizeof(int64_t), &expected) ||
      tensor.bytes() != expected) {
    return Bad(header, "ragged tensor `", tensor.name(), "` has ",
               tensor.bytes(), " bytes of offsets for ", header.rows(),
               " rows");
  }
  if (unit == 0 ? tensor.values_bytes() != 0
                : tensor.values_bytes() % unit != 0) {
    return Bad(header, "ragged tensor `", tensor.name(), "` has ",
               tensor.values_bytes(), " bytes of values of ", unit);
  }
  if (absl::Status s = AddExtent(header, tensor.name(), tensor.offset(),
                                 tensor.bytes(), extents);
      !s.ok()) {
    return s;
  }
  return AddExtent(header, tensor.name(), tensor.values_offset(),
                   tensor.values_bytes(), extents);
}

absl::Status CheckRaggedOffsets(const BatchHeader& header,
                                const TensorHeader& tensor, uint64_t unit,
                                absl::Span<const uint8_t> payload) {
  const uint8_t* at = payload.data() + tensor.offset();
  const uint64_t values = unit == 0 ? 0 : tensor.values_bytes() / unit;
  int64_t last = 0;
  for (uint64_t row = 0; row <= header.rows(); ++row) {
    int64_t offset = 0;
    std::memcpy(&offset, at + row * sizeof(offset), sizeof(offset));
    if (row == 0 ? offset != 0 : offset < last) {
      return Bad(header, "ragged tensor `", tensor.name(), "` has the offset ",
                 offset, " at row ", row, " after ", last);
    }
    last = offset;
  }
  if (static_cast<uint64_t>(last) != values) {
    return Bad(header, "ragged tensor `", tensor.name(), "` ends at value ",
               last, " of ", values);
  }
  return absl::OkStatus();
}

}  // namespace

bool SampleElements(
    const google::protobuf::RepeatedField<int64_t>& sample_shape, bool* ragged,
    uint64_t* elements) {
  *ragged = sample_shape.size() > 0 && sample_shape.Get(0) == -1;
  *elements = 1;
  for (int i = *ragged ? 1 : 0; i < sample_shape.size(); ++i) {
    const int64_t dimension = sample_shape.Get(i);
    if (dimension < 0 ||
        !Multiply(*elements, static_cast<uint64_t>(dimension), elements)) {
      return false;
    }
  }
  return true;
}

absl::Status ValidateBatchHeader(const BatchHeader& header,
                                 const BatchExpectation& expect) {
  if (header.epoch() != expect.epoch || header.step() != expect.step ||
      header.rank() != expect.rank ||
      header.world_size() != expect.world_size) {
    return Bad(header, "the request was for epoch ", expect.epoch, ", step ",
               expect.step, ", rank ", expect.rank, " of ", expect.world_size,
               ", but the batch is of rank ", header.rank(), " of ",
               header.world_size());
  }
  if (header.payload_bytes() > expect.max_payload_bytes) {
    return Bad(header, "its payload has ", header.payload_bytes(),
               " bytes, the plan allows ", expect.max_payload_bytes);
  }
  if (expect.max_rows != 0 && header.rows() > expect.max_rows) {
    return Bad(header, "it has ", header.rows(), " rows, the plan allows ",
               expect.max_rows);
  }
  if (header.local_valid() > header.rows() ||
      header.local_valid() > header.global_valid()) {
    return Bad(header, header.local_valid(), " of ", header.rows(),
               " rows are valid, and ", header.global_valid(),
               " over all ranks");
  }
  if (header.tensors_size() != expect.tensors->size()) {
    return Bad(header, "it has ", header.tensors_size(),
               " tensors, the plan has ", expect.tensors->size());
  }
  Extents extents;
  for (int i = 0; i < header.tensors_size(); ++i) {
    if (absl::Status s = CheckTensor(header, header.tensors(i),
                                     expect.tensors->Get(i), &extents);
        !s.ok()) {
      return s;
    }
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) {
      return Bad(header, "tensors `", extents[i - 1].name, "` and `",
                 extents[i].name, "` overlap at byte ", extents[i].begin);
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePayload(const BatchHeader& header,
                             absl::Span<const uint8_t> payload) {
  if (payload.size() != header.payload_bytes()) {
    return Bad(header, payload.size(), " bytes arrived of a payload of ",
               header.payload_bytes());
  }
  for (const TensorHeader& tensor : header.tensors()) {
    bool ragged = false;
    uint64_t elements = 0;
    if (!SampleElements(tensor.sample_shape(), &ragged, &elements)) {
      return Bad(header, "tensor `", tensor.name(), "` has no shape");
    }
    if (ragged) {
      if (absl::Status s = CheckRaggedOffsets(
              header, tensor, elements * ElementBytes(tensor.dtype()), payload);
          !s.ok()) {
        return s;
      }
    }
    if (tensor.dtype() != DTYPE_BOOL) continue;
    const uint8_t* begin =
        payload.data() + (ragged ? tensor.values_offset() : tensor.offset());
    const uint8_t* end =
        begin + (ragged ? tensor.values_bytes() : tensor.bytes());
    uint64_t ones = 0;
    uint8_t seen = 0;
    for (const uint8_t* at = begin; at != end; ++at) {
      seen |= *at;
      ones += *at;
    }
    if (seen > 1) {
      return Bad(header, "tensor `", tensor.name(),
                 "` has a boolean that is neither 0 nor 1");
    }
    if (tensor.name() == "valid" && !ragged && elements == 1 &&
        ones != header.local_valid()) {
      return Bad(header, "`valid` marks ", ones, " rows, the header says ",
                 header.local_valid());
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace::wire
