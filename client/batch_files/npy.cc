#include "client/batch_files/npy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/new_file.h"
#include "proto/dtype.h"
#include "proto/element_at.h"

namespace millrace::batch_files {
namespace {

constexpr size_t kAlignment = 64;

absl::string_view Descr(DType dtype) {
  switch (dtype) {
    case DTYPE_UINT8:
      return "|u1";
    case DTYPE_BOOL:
      return "|b1";
    case DTYPE_INT8:
      return "|i1";
    case DTYPE_INT16:
      return "<i2";
    case DTYPE_UINT16:
    case DTYPE_BFLOAT16:  // its bits
      return "<u2";
    case DTYPE_INT32:
      return "<i4";
    case DTYPE_INT64:
      return "<i8";
    case DTYPE_FLOAT16:
      return "<f2";
    case DTYPE_FLOAT32:
      return "<f4";
    case DTYPE_FLOAT64:
      return "<f8";
    default:
      return "|V1";
  }
}

}  // namespace

std::string NpyHeader(DType dtype, const std::vector<int64_t>& shape) {
  // (3,) and (3, 4), as Python writes tuples.
  std::string text = absl::StrCat(
      "{'descr': '", Descr(dtype), "', 'fortran_order': False, 'shape': (",
      absl::StrJoin(shape, ", "), shape.size() == 1 ? "," : "", "), }");
  constexpr size_t kFixed = 10;  // magic, version, length
  const size_t unpadded = kFixed + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

absl::Status WriteNpy(const std::string& path, DType dtype,
                      const std::vector<int64_t>& shape,
                      absl::Span<const uint8_t> data) {
  return WriteNewFile(
      path, {NpyHeader(dtype, shape),
             absl::string_view(reinterpret_cast<const char*>(data.data()),
                               data.size())});
}

TensorLook LookAt(DType dtype, absl::Span<const uint8_t> data) {
  TensorLook look;
  const uint64_t bytes = ElementBytes(dtype);
  look.elements = bytes == 0 ? 0 : data.size() / bytes;
  double min = std::numeric_limits<double>::infinity();
  double max = -min;
  for (uint64_t i = 0; i < look.elements; ++i) {
    const double x = ElementAt(data.data(), dtype, static_cast<int64_t>(i));
    if (std::isfinite(x)) {
      min = std::min(min, x);
      max = std::max(max, x);
      continue;
    }
    if (look.first_bad < 0) look.first_bad = static_cast<int64_t>(i);
    ++(std::isnan(x) ? look.nans : look.infinities);
  }
  const bool none = min > max;
  look.min = none ? std::nan("") : min;
  look.max = none ? std::nan("") : max;
  return look;
}

}  // namespace millrace::batch_files
