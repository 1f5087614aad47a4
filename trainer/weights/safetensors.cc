#include "trainer/weights/safetensors.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/json_text.h"
#include "common/logging.h"
#include "common/running_digest.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "trainer/weights/safetensors_header.h"

namespace millrace::weights {
namespace {

constexpr size_t kLengthBytes = 8;
// The limit of the format's own library.
constexpr uint64_t kMaxHeader = 100'000'000;

struct TypeName {
  DType dtype;
  absl::string_view name;
};
constexpr TypeName kTypes[] = {
    {DTYPE_FLOAT64, "F64"},   {DTYPE_FLOAT32, "F32"}, {DTYPE_FLOAT16, "F16"},
    {DTYPE_BFLOAT16, "BF16"}, {DTYPE_INT64, "I64"},   {DTYPE_INT32, "I32"},
    {DTYPE_INT16, "I16"},     {DTYPE_UINT16, "U16"},  {DTYPE_INT8, "I8"},
    {DTYPE_UINT8, "U8"},      {DTYPE_BOOL, "BOOL"},
};

std::string DigestText(const RunningDigest& digest) {
  return absl::StrCat(absl::Hex(digest.Value(), absl::kZeroPad16));
}

// The entry as a tensor over `data`; checks that its range lies within `data`.
absl::StatusOr<StoredTensor> ToTensor(SafetensorsEntry& entry,
                                      absl::string_view data) {
  auto bad = [&entry](const auto&... what) {
    return absl::DataLossError(
        absl::StrCat("the tensor \"", entry.name, "\" ", what...));
  };
  StoredTensor tensor;
  for (const TypeName& type : kTypes) {
    if (type.name == entry.dtype) tensor.dtype = type.dtype;
  }
  if (tensor.dtype == DTYPE_UNSPECIFIED) {
    return bad("has the type ", entry.dtype,
               ", which the trainer does not support");
  }
  if (entry.begin > entry.end || entry.end > data.size()) {
    return bad("is at bytes ", entry.begin, " to ", entry.end, " of ",
               data.size(), " bytes");
  }
  uint64_t bytes = ElementBytes(tensor.dtype);
  for (const uint64_t dim : entry.shape) {
    if (dim > 0 &&
        bytes >
            static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / dim) {
      return bad("has a shape of more bytes than there are");
    }
    // A dimension that does not matter, because another one is 0, must still be
    // valid.
    if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return bad("has a dimension of ", dim);
    }
    bytes *= dim;
    tensor.shape.push_back(static_cast<int64_t>(dim));
  }
  if (bytes != entry.end - entry.begin) {
    return bad("has the shape [", absl::StrJoin(entry.shape, ", "),
               "], which takes ", bytes, " bytes, but ",
               entry.end - entry.begin, " belong to it");
  }
  tensor.name = std::move(entry.name);
  if (bytes > 0) tensor.strides = RowMajorStrides(tensor.shape);
  tensor.strides.resize(tensor.shape.size(), 1);
  tensor.bytes = data.substr(entry.begin, bytes);
  return tensor;
}

}  // namespace

absl::StatusOr<std::vector<StoredTensor>> ParseSafetensors(
    absl::string_view file) {
  if (file.size() < kLengthBytes) {
    return absl::DataLossError(
        "it is truncated before the length of its header");
  }
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i > 0; --i) {
    length = length << 8 | static_cast<uint8_t>(file[i - 1]);
  }
  file.remove_prefix(kLengthBytes);
  if (length > kMaxHeader) {
    return absl::DataLossError(absl::StrCat("its header would have ", length,
                                            " bytes, more than the format's ",
                                            kMaxHeader));
  }
  if (length > file.size()) {
    return absl::DataLossError(absl::StrCat("its header has ", length,
                                            " bytes, but only ", file.size(),
                                            " follow: it is truncated"));
  }
  MR_ASSIGN_OR_RETURN(SafetensorsHeader header,
                      ParseSafetensorsHeader(file.substr(0, length)));
  const absl::string_view data = file.substr(length);
  std::vector<StoredTensor> tensors;
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (SafetensorsEntry& entry : header.entries) {
    places.emplace_back(entry.begin, entry.end);
    MR_ASSIGN_OR_RETURN(StoredTensor tensor, ToTensor(entry, data));
    tensors.push_back(std::move(tensor));
  }
  std::sort(places.begin(), places.end());
  uint64_t reached = 0;
  for (const auto& [begin, end] : places) {
    if (begin != reached) {
      return absl::DataLossError(absl::StrCat(
          begin < reached ? "tensors overlap" : "nothing names the bytes",
          " at ", std::min(begin, reached), " of its data"));
    }
    reached = end;
  }
  if (reached != data.size()) {
    return absl::DataLossError(absl::StrCat(
        "its tensors take ", reached, " bytes, but ", data.size(), " follow"));
  }
  if (header.data_digest.empty()) return tensors;
  RunningDigest digest;
  digest.Add(data.data(), data.size());
  if (header.data_digest != DigestText(digest)) {
    return absl::DataLossError(absl::StrCat(
        "its tensors differ from the digest in its header (", kDataDigestName,
        "): it was damaged after it was written; use another copy. If a "
        "program changed the tensors and kept the digest, remove ",
        kDataDigestName, " from the metadata"));
  }
  return tensors;
}

void WriteSafetensors(const std::vector<StoredTensor>& tensors,
                      const ByteSink& sink) {
  // Widest elements first: each tensor then begins at a multiple of its element
  // size.
  std::vector<const StoredTensor*> ordered;
  for (const StoredTensor& tensor : tensors) ordered.push_back(&tensor);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const StoredTensor* a, const StoredTensor* b) {
                     return ElementBytes(a->dtype) > ElementBytes(b->dtype);
                   });
  RunningDigest digest;
  for (const StoredTensor* tensor : ordered) {
    digest.Add(tensor->bytes.data(), tensor->bytes.size());
  }
  // Python's readers expect the framework's name.
  std::string header =
      absl::StrCat("{\"__metadata__\":{\"format\":\"pt\",\"", kDataDigestName,
                   "\":\"", DigestText(digest), "\"}");
  uint64_t at = 0;
  for (const StoredTensor* tensor : ordered) {
    absl::string_view type;
    for (const TypeName& known : kTypes) {
      if (known.dtype == tensor->dtype) type = known.name;
    }
    MR_CHECK(!type.empty()) << tensor->name;
    absl::StrAppend(&header, ",", JsonText(tensor->name), ":{\"dtype\":\"",
                    type, "\",\"shape\":[", absl::StrJoin(tensor->shape, ","),
                    "],\"data_offsets\":[", at, ",", at + tensor->bytes.size(),
                    "]}");
    at += tensor->bytes.size();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length.push_back(static_cast<char>(header.size() >> (8 * i)));
  }
  sink(length);
  sink(header);
  for (const StoredTensor* tensor : ordered) sink(tensor->bytes);
}

}  // namespace millrace::weights
