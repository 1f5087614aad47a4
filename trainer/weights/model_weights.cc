#include "trainer/weights/model_weights.h"

#include <ATen/Functions.h>
#include <torch/utils.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/torch_types.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "trainer/torch_error.h"
#include "trainer/weights/match.h"
#include "trainer/weights/weights_file.h"

namespace millrace::weights {
namespace {

void Append(const torch::nn::Module& module, const std::string& prefix,
            std::vector<NamedWeight>& weights) {
  for (const auto& named : module.named_parameters(/*recurse=*/false)) {
    weights.push_back({absl::StrCat(prefix, named.key()), named.value()});
  }
  for (const auto& named : module.named_buffers(/*recurse=*/false)) {
    weights.push_back({absl::StrCat(prefix, named.key()), named.value()});
  }
  for (const auto& child : module.named_children()) {
    Append(*child.value(), absl::StrCat(prefix, child.key(), "."), weights);
  }
}

std::optional<DType> StoredType(torch::ScalarType type) {
  for (const DType dtype : {DTYPE_FLOAT32, DTYPE_INT64, DTYPE_FLOAT64,
                            DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_INT32,
                            DTYPE_INT16, DTYPE_INT8, DTYPE_UINT8, DTYPE_BOOL}) {
    if (device::TorchType(dtype) == type) return dtype;
  }
  return std::nullopt;
}

// A view of the file's bytes, or of a copy in `aligned` when elements do not
// begin at multiples of their size.
torch::Tensor ViewOf(const StoredTensor& stored, std::string& aligned) {
  const char* data = stored.bytes.data();
  if (reinterpret_cast<uintptr_t>(data) % ElementBytes(stored.dtype) != 0) {
    aligned.assign(data, stored.bytes.size());
    data = aligned.data();
  }
  // Every value except 0 is true.
  const torch::ScalarType type = stored.dtype == DTYPE_BOOL
                                     ? torch::kByte
                                     : device::TorchType(stored.dtype);
  // The tensor is only read; from_blob() has no form for constant memory.
  return at::from_blob(const_cast<char*>(data), stored.shape, stored.strides,
                       torch::TensorOptions(type));
}

}  // namespace

std::vector<NamedWeight> WeightsOf(const torch::nn::Module& model) {
  std::vector<NamedWeight> weights;
  Append(model, "", weights);
  return weights;
}

absl::Status SaveWeights(const std::string& path,
                         const std::vector<NamedWeight>& weights) {
  std::vector<torch::Tensor> rows;  // owns the bytes
  std::vector<StoredTensor> stored;
  try {
    const torch::NoGradGuard no_grad;
    for (const NamedWeight& weight : weights) {
      const std::optional<DType> dtype =
          StoredType(weight.tensor.scalar_type());
      if (!dtype.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat(
            weight.name, " is ", c10::toString(weight.tensor.scalar_type()),
            ", which ", path, " cannot hold"));
      }
      torch::Tensor row = weight.tensor.detach().cpu().contiguous();
      if (row.is_floating_point() && !at::isfinite(row).all().item<bool>()) {
        return absl::FailedPreconditionError(
            absl::StrCat(weight.name,
                         " holds values that are NaN or infinite, so the "
                         "weights are not written; an older file at ",
                         path, " is kept"));
      }
      const auto shape = row.sizes().vec();
      stored.push_back(
          {.name = weight.name,
           .dtype = *dtype,
           .shape = shape,
           .strides = row.numel() > 0 ? RowMajorStrides(shape)
                                      : std::vector<int64_t>(shape.size(), 1),
           .bytes = {static_cast<const char*>(row.const_data_ptr()),
                     row.nbytes()}});
      rows.push_back(std::move(row));
    }
  } catch (const std::exception& error) {
    return trainer::FromTorch(error,
                              absl::StrCat("writing the weights ", path));
  }
  return WriteWeights(path, stored);
}

absl::Status LoadWeights(const std::string& path,
                         const std::vector<std::string>& leave_out,
                         const std::vector<NamedWeight>& weights) {
  MR_ASSIGN_OR_RETURN(const WeightsFile file, WeightsFile::Read(path));
  std::vector<NamedShape> of_model, of_file;
  for (const NamedWeight& weight : weights) {
    of_model.push_back({weight.name, weight.tensor.sizes().vec(),
                        weight.tensor.is_floating_point()});
  }
  for (const StoredTensor& stored : file.tensors()) {
    of_file.push_back({stored.name, stored.shape,
                       torch::isFloatingType(device::TorchType(stored.dtype))});
  }
  const auto places = MatchWeights(of_model, of_file, leave_out);
  if (!places.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the weights in ", path, " do not fit: ", places.status().message()));
  }
  try {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!(*places)[i].has_value()) continue;
      const StoredTensor& stored = file.tensors()[*(*places)[i]];
      if (stored.bytes.empty()) continue;
      torch::Tensor into = weights[i].tensor;
      std::string aligned;
      into.copy_(ViewOf(stored, aligned));
    }
  } catch (const std::exception& error) {
    return trainer::FromTorch(error,
                              absl::StrCat("reading the weights ", path));
  }
  return absl::OkStatus();
}

}  // namespace millrace::weights
