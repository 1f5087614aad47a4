// Tensors of a batch as DLPack. An export owns copies of shape and strides, and
// a lease of the batch; its deleter frees them.

#include <memory>
#include <vector>

#include "client/c/batch.h"
#include "client/c/error.h"
#include "client/c/millrace.h"
#include "client/c/millrace_dlpack.h"
#include "client/c/process.h"
#include "common/status_macros.h"
#include "proto/dtype.h"

namespace millrace::c {
namespace {

DLDataTypeCode CodeOf(DType dtype) {
  switch (dtype) {
    case DTYPE_BOOL:
      return kDLBool;
    case DTYPE_UINT8:
    case DTYPE_UINT16:
      return kDLUInt;
    case DTYPE_FLOAT16:
    case DTYPE_FLOAT32:
    case DTYPE_FLOAT64:
      return kDLFloat;
    case DTYPE_BFLOAT16:
      return kDLBfloat;
    default:
      return kDLInt;
  }
}

// Managed is DLManagedTensor or DLManagedTensorVersioned.
template <typename Managed>
struct Export {
  HomeProcess home;
  std::shared_ptr<void> lease;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements
  Managed managed{};

  static void Delete(Managed* self) {
    if (self == nullptr) return;
    auto* const owner = static_cast<Export*>(self->manager_ctx);
    // In a forked child, the locks of the lease may be held for ever.
    if (owner->home.here()) delete owner;
  }
};

template <typename Managed>
std::unique_ptr<Export<Managed>> NewExport(const millrace_batch& batch,
                                           const TensorView& view) {
  auto result = std::make_unique<Export<Managed>>();
  result->lease = batch.host.lease;
  result->shape = view.shape;
  const auto element_bytes = static_cast<int64_t>(ElementBytes(view.dtype));
  for (const int64_t stride : view.strides) {
    result->strides.push_back(stride / element_bytes);
  }
  result->managed.manager_ctx = result.get();
  result->managed.deleter = Export<Managed>::Delete;
  DLTensor& tensor = result->managed.dl_tensor;
  tensor.data = view.data;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int32_t>(result->shape.size());
  tensor.dtype = {static_cast<uint8_t>(CodeOf(view.dtype)),
                  static_cast<uint8_t>(8 * element_bytes), 1};
  tensor.shape = result->shape.data();
  tensor.strides = result->strides.data();
  return result;
}

}  // namespace
}  // namespace millrace::c

using namespace millrace;     // NOLINT: functions of C have no namespace
using namespace millrace::c;  // NOLINT

extern "C" {

millrace_status millrace_batch_dlpack_versioned(
    const millrace_batch* batch, size_t index,
    struct DLManagedTensorVersioned** tensor, millrace_error** error) {
  return Guarded(error, [&]() -> absl::Status {
    MR_RETURN_IF_ERROR(CheckArgument(tensor, "tensor"));
    *tensor = nullptr;
    MR_ASSIGN_OR_RETURN(const TensorView* view, FindTensor(batch, index));
    auto result = NewExport<DLManagedTensorVersioned>(*batch, *view);
    result->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    if (batch->plan->read_only) {
      result->managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    }
    *tensor = &result.release()->managed;
    return absl::OkStatus();
  });
}

millrace_status millrace_batch_dlpack(const millrace_batch* batch, size_t index,
                                      struct DLManagedTensor** tensor,
                                      millrace_error** error) {
  return Guarded(error, [&]() -> absl::Status {
    MR_RETURN_IF_ERROR(CheckArgument(tensor, "tensor"));
    *tensor = nullptr;
    MR_ASSIGN_OR_RETURN(const TensorView* view, FindTensor(batch, index));
    if (batch->plan->read_only) {
      return absl::FailedPreconditionError(
          "the batch may lie in read-only memory (option read_only), which "
          "DLPack before version 1.0 cannot say; use a consumer that knows "
          "version 1.0, or leave read_only out");
    }
    *tensor = &NewExport<DLManagedTensor>(*batch, *view).release()->managed;
    return absl::OkStatus();
  });
}

}  // extern "C"
