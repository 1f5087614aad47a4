#include "client/c/batch.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/c/error.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "proto/tensor_view.h"

namespace millrace::c {
namespace {

// Sizes of the structs in their first release.
constexpr size_t kInfoBytes =
    offsetof(millrace_batch_info, payload_xxh3) + sizeof(uint64_t);
constexpr size_t kTensorBytes =
    offsetof(millrace_tensor, cast_bytes) + sizeof(uint64_t);

uint64_t ElementsOf(const std::vector<int64_t>& shape) {
  uint64_t elements = 1;
  for (const int64_t dim : shape) elements *= static_cast<uint64_t>(dim);
  return elements;
}

// Row-major.
std::vector<int64_t> StridesOf(const std::vector<int64_t>& shape, DType dtype) {
  std::vector<int64_t> strides(shape.size());
  auto stride = static_cast<int64_t>(ElementBytes(dtype));
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

absl::Status CheckBatch(const millrace_batch* batch) {
  MR_RETURN_IF_ERROR(CheckArgument(batch, "batch"));
  return batch->home.Check("the batch");
}

// Of a view with a cast.
absl::Status Cast(const TensorView& view, void* out, uint64_t bytes) {
  if (view.plan == nullptr || !view.plan->cast.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the pipeline leaves nothing to compute for tensor ",
                     view.name, " to the client: use it as it is"));
  }
  MR_RETURN_IF_ERROR(view.plan->cast->status());
  const TensorCast& cast = **view.plan->cast;
  const uint64_t elements = ElementsOf(view.shape);
  const uint64_t needed = elements * ElementBytes(cast.target());
  if (bytes != needed) {
    return absl::InvalidArgumentError(
        absl::StrCat("the memory for the result of tensor ", view.name, " has ",
                     bytes, " bytes; it needs ", needed, " bytes"));
  }
  if (elements == 0) return absl::OkStatus();
  MR_RETURN_IF_ERROR(CheckArgument(out, "out"));
  if (cast.Apply(view.data, static_cast<uint8_t*>(out), elements)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("a value of tensor ", view.name,
                                          " does not fit into ",
                                          DTypeName(cast.target())));
}

}  // namespace

std::shared_ptr<const BatchPlan> MakeBatchPlan(const OpenResponse& plan,
                                               bool read_only) {
  auto result = std::make_shared<BatchPlan>();
  result->read_only = read_only;
  for (const TensorSpec& spec : plan.tensors()) {
    BatchPlan::Tensor& tensor = result->tensors.emplace_back();
    tensor.channels_first_view = IsSeenChannelsFirst(spec);
    if (spec.has_device_transform()) tensor.cast = TensorCast::Make(spec);
  }
  return result;
}

std::vector<TensorView> ViewsOf(const HostBatch& batch, const BatchPlan& plan) {
  std::vector<TensorView> views;
  const auto rows = static_cast<int64_t>(batch.rows);
  for (int i = 0; i < batch.header.tensors_size(); ++i) {
    const TensorHeader& header = batch.header.tensors(i);
    TensorView view;
    view.name = header.name();
    view.dtype = header.dtype();
    if (static_cast<size_t>(i) < plan.tensors.size()) {
      view.plan = &plan.tensors[i];
    }
    view.shape.assign(header.sample_shape().begin(),
                      header.sample_shape().end());
    if (!view.shape.empty() && view.shape[0] < 0) {
      view.kind = MILLRACE_TENSOR_VALUES;
      view.data = batch.payload.data() + header.values_offset();
      view.bytes = header.values_bytes();
      // The values of all rows, one after the other.
      view.shape[0] = 1;
      const uint64_t value_bytes =
          ElementsOf(view.shape) * ElementBytes(view.dtype);
      view.shape[0] =
          value_bytes == 0 ? 0 : static_cast<int64_t>(view.bytes / value_bytes);
    } else {
      view.shape.insert(view.shape.begin(), rows);
      view.data = batch.payload.data() + header.offset();
      view.bytes = header.bytes();
    }
    view.strides = StridesOf(view.shape, view.dtype);
    const bool ragged = view.kind == MILLRACE_TENSOR_VALUES;
    views.push_back(std::move(view));
    if (!ragged) continue;
    TensorView& offsets = views.emplace_back();
    offsets.name = absl::StrCat(header.name(), ".offsets");
    offsets.kind = MILLRACE_TENSOR_OFFSETS;
    offsets.dtype = DTYPE_INT64;
    offsets.shape = {rows + 1};
    offsets.strides = StridesOf(offsets.shape, offsets.dtype);
    offsets.data = batch.payload.data() + header.offset();
    offsets.bytes = header.bytes();
  }
  return views;
}

std::unique_ptr<millrace_batch> NewBatch(std::shared_ptr<const BatchPlan> plan,
                                         HostBatch batch) {
  auto result = std::make_unique<millrace_batch>();
  result->plan = std::move(plan);
  result->host = std::move(batch);
  result->tensors = ViewsOf(result->host, *result->plan);
  return result;
}

absl::StatusOr<const TensorView*> FindTensor(const millrace_batch* batch,
                                             size_t index) {
  MR_RETURN_IF_ERROR(CheckBatch(batch));
  if (index < batch->tensors.size()) return &batch->tensors[index];
  return absl::InvalidArgumentError(
      absl::StrCat("there is no tensor number ", index, "; the batch has ",
                   batch->tensors.size(), ", counted from 0"));
}

}  // namespace millrace::c

using namespace millrace;     // NOLINT: functions of C have no namespace
using namespace millrace::c;  // NOLINT

extern "C" {

const char* millrace_dtype_name(int32_t dtype) {
  return DTypeName(static_cast<DType>(dtype)).data();
}

millrace_status millrace_batch_get_info(const millrace_batch* batch,
                                        millrace_batch_info* info,
                                        millrace_error** error) {
  return Guarded(error, [&]() -> absl::Status {
    MR_RETURN_IF_ERROR(CheckBatch(batch));
    const HostBatch& host = batch->host;
    millrace_batch_info result{};
    result.tensor_count = static_cast<uint32_t>(batch->tensors.size());
    result.epoch = host.position.epoch;
    result.step = host.position.step;
    result.rows = host.rows;
    result.local_valid = host.local_valid;
    result.global_valid = host.global_valid;
    result.first_position = host.first_position;
    result.generation = host.generation;
    result.data = host.payload.data();
    result.bytes = host.payload.size();
    result.payload_xxh3 = host.header.payload_xxh3();
    return FillStruct(result, info, kInfoBytes, "millrace_batch_info");
  });
}

millrace_status millrace_batch_get_tensor(const millrace_batch* batch,
                                          size_t index, millrace_tensor* tensor,
                                          millrace_error** error) {
  return Guarded(error, [&]() -> absl::Status {
    MR_ASSIGN_OR_RETURN(const TensorView* view, FindTensor(batch, index));
    millrace_tensor result{};
    result.dtype = view->dtype;
    result.name = view->name.c_str();
    result.kind = view->kind;
    result.dims = static_cast<int32_t>(view->shape.size());
    result.shape = view->shape.data();
    result.strides = view->strides.data();
    result.data = view->data;
    result.bytes = view->bytes;
    result.read_only = batch->plan->read_only;
    if (view->plan != nullptr) {
      result.channels_first_view = view->plan->channels_first_view;
      if (view->plan->cast.has_value() && view->plan->cast->ok()) {
        result.cast_dtype = (*view->plan->cast)->target();
        result.cast_bytes = ElementsOf(view->shape) *
                            ElementBytes((*view->plan->cast)->target());
      }
    }
    return FillStruct(result, tensor, kTensorBytes, "millrace_tensor");
  });
}

millrace_status millrace_batch_find_tensor(const millrace_batch* batch,
                                           const char* name, size_t* index,
                                           millrace_error** error) {
  return Guarded(error, [&]() -> absl::Status {
    MR_RETURN_IF_ERROR(CheckArgument(index, "index"));
    *index = 0;
    MR_RETURN_IF_ERROR(CheckArgument(name, "name"));
    MR_RETURN_IF_ERROR(CheckBatch(batch));
    for (size_t i = 0; i < batch->tensors.size(); ++i) {
      if (batch->tensors[i].name != name) continue;
      *index = i;
      return absl::OkStatus();
    }
    return absl::NotFoundError(absl::StrCat(
        "the batch has no tensor \"", CleanText(name, 100), "\"; it has ",
        absl::StrJoin(batch->tensors, ", ",
                      [](std::string* out, const TensorView& view) {
                        out->append(view.name);
                      })));
  });
}

millrace_status millrace_batch_cast(const millrace_batch* batch, size_t index,
                                    void* out, uint64_t bytes,
                                    millrace_error** error) {
  return Guarded(error, [&]() -> absl::Status {
    MR_ASSIGN_OR_RETURN(const TensorView* view, FindTensor(batch, index));
    return Cast(*view, out, bytes);
  });
}

void millrace_batch_free(millrace_batch* batch) {
  // In a forked child, the locks of the lease may be held for ever.
  if (batch == nullptr || !batch->home.here()) return;
  delete batch;
}

}  // extern "C"
