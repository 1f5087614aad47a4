// A batch of millrace.h: a HostBatch and its tensors as C sees them.
//
// Immutable after NewBatch(); thread-safe. A batch and its exports share the
// lease of the HostBatch.
//
//   std::unique_ptr<millrace_batch> batch = NewBatch(plan, std::move(host));

#ifndef MILLRACE_CLIENT_C_BATCH_H_
#define MILLRACE_CLIENT_C_BATCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/c/millrace.h"
#include "client/c/process.h"
#include "client/prefetch/host_loader.h"
#include "proto/tensor_cast.h"

namespace millrace::c {

// What the batches of a loader have in common; outlives the loader.
struct BatchPlan {
  struct Tensor {
    bool channels_first_view = false;
    // Absent: the pipeline leaves nothing to the client.
    std::optional<absl::StatusOr<TensorCast>> cast;
  };
  std::vector<Tensor> tensors;  // in the order of the plan
  bool read_only = false;       // batches may lie in read-only memory
};

std::shared_ptr<const BatchPlan> MakeBatchPlan(const OpenResponse& plan,
                                               bool read_only);

// One entry of millrace_batch_get_tensor().
struct TensorView {
  std::string name;
  int32_t kind = MILLRACE_TENSOR_DENSE;
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in bytes
  uint8_t* data = nullptr;
  uint64_t bytes = 0;
  const BatchPlan::Tensor* plan = nullptr;  // null: of no tensor of the plan
};

// The tensors of a batch that has passed ValidateBatchHeader().
std::vector<TensorView> ViewsOf(const HostBatch& batch, const BatchPlan& plan);

std::unique_ptr<millrace_batch> NewBatch(std::shared_ptr<const BatchPlan> plan,
                                         HostBatch batch);

// InvalidArgument: `batch` is null, or has no tensor `index`.
// FailedPrecondition: a forked child.
absl::StatusOr<const TensorView*> FindTensor(const millrace_batch* batch,
                                             size_t index);

}  // namespace millrace::c

struct millrace_batch {
  millrace::c::HomeProcess home;
  std::shared_ptr<const millrace::c::BatchPlan> plan;
  millrace::HostBatch host;
  std::vector<millrace::c::TensorView> tensors;
};

#endif  // MILLRACE_CLIENT_C_BATCH_H_
