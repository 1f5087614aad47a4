// OperatorCatalog is the plan's view of this server's operators (--operators):
// their identity, and what a transform makes of a field. It returns nothing
// that runs.
//
// Thread-safe, immutable.
//
//   MR_ASSIGN_OR_RETURN(PipelineSpec resolved,
//                       ResolveSpec(spec, datasets, &catalog));

#ifndef MILLRACE_SERVER_PLAN_OPERATOR_CATALOG_H_
#define MILLRACE_SERVER_PLAN_OPERATOR_CATALOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::plan {

class OperatorCatalog {
 public:
  struct Found {
    OperatorRef ref;
    bool on_images = false;  // a transform that changes pixels in place
  };
  // Type and shape of one sample.
  struct Tensor {
    DType dtype = DTYPE_UNSPECIFIED;
    std::vector<int64_t> shape;
    friend bool operator==(const Tensor&, const Tensor&) = default;
  };

  virtual ~OperatorCatalog() = default;

  // Absent: there is no transform with this name.
  virtual std::optional<Found> FindTransform(const std::string& name) const = 0;
  virtual std::optional<Found> FindDecoder(const std::string& name) const = 0;
  // For messages: "cutout 1.0, gamma 1.2", or "none".
  virtual std::string TransformNames() const = 0;
  virtual std::string DecoderNames() const = 0;

  // Checks whether an existing transform accepts its configuration. On images:
  // for images with this number of channels. On tensors: also returns what it
  // makes of `input`. InvalidArgument: the operator's message.
  virtual absl::Status CheckOnImages(const CustomTransform& custom,
                                     uint32_t place, int channels) const = 0;
  virtual absl::StatusOr<Tensor> ResultOf(const CustomTransform& custom,
                                          uint32_t place,
                                          const Tensor& input) const = 0;
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_OPERATOR_CATALOG_H_
