// OperatorCatalog is what a plan must know of the operators of this server
// (--operators): who they are, and what a transform makes of a field. It hands
// out nothing that runs.
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

namespace millrace {

class OperatorCatalog {
 public:
  struct Found {
    OperatorRef ref;
    bool on_images = false;  // a transform that changes pixels in place
  };
  // Of one sample.
  struct Tensor {
    DType dtype = DTYPE_UNSPECIFIED;
    std::vector<int64_t> shape;
    friend bool operator==(const Tensor&, const Tensor&) = default;
  };

  virtual ~OperatorCatalog() = default;

  // Absent: there is none of that name.
  virtual std::optional<Found> FindTransform(const std::string& name) const = 0;
  virtual std::optional<Found> FindDecoder(const std::string& name) const = 0;
  // For messages: "cutout 1.0, gamma 1.2", or "none".
  virtual std::string TransformNames() const = 0;
  virtual std::string DecoderNames() const = 0;

  // Asks a transform that is there whether it takes its configuration:
  // on images, for images of so many channels; otherwise what it makes of
  // `input`. InvalidArgument in the operator's words.
  virtual absl::Status CheckOnImages(const CustomTransform& custom,
                                     uint32_t place, int channels) const = 0;
  virtual absl::StatusOr<Tensor> ResultOf(const CustomTransform& custom,
                                          uint32_t place,
                                          const Tensor& input) const = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_OPERATOR_CATALOG_H_
