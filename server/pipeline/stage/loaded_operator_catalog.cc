#include "server/pipeline/stage/loaded_operator_catalog.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/pipeline/stage/operator_transform.h"

namespace millrace::pipeline {
namespace {

class LoadedOperatorCatalog final : public plan::OperatorCatalog {
 public:
  explicit LoadedOperatorCatalog(const operators::Operators* operators)
      : operators_(operators) {}

  std::optional<Found> FindTransform(const std::string& name) const override {
    const operators::Operators::Transform* const found =
        operators_ == nullptr ? nullptr : operators_->FindTransform(name);
    if (found == nullptr) return std::nullopt;
    return Found{found->ref, found->functions.works_on == MILLRACE_ON_IMAGE};
  }

  std::optional<Found> FindDecoder(const std::string& name) const override {
    const operators::Operators::Decoder* const found =
        operators_ == nullptr ? nullptr : operators_->FindDecoder(name);
    if (found == nullptr) return std::nullopt;
    return Found{found->ref};
  }

  std::string TransformNames() const override { return Names("transform"); }
  std::string DecoderNames() const override { return Names("decoder"); }

  absl::Status CheckOnImages(const CustomTransform& custom, uint32_t place,
                             int channels) const override {
    return MakeOperatorPixelOp(LoadedTransform(operators_, custom), custom,
                               place, channels)
        .status();
  }

  absl::StatusOr<Tensor> ResultOf(const CustomTransform& custom, uint32_t place,
                                  const Tensor& input) const override {
    MR_ASSIGN_OR_RETURN(
        const auto op,
        MakeOperatorTensorOp(LoadedTransform(operators_, custom), custom, place,
                             {input.dtype, input.shape}));
    return Tensor{op->result().dtype, op->result().shape};
  }

 private:
  std::string Names(absl::string_view kind) const {
    std::string names;
    if (operators_ == nullptr) return "none";
    for (const operators::Operators::Entry& entry : operators_->List()) {
      if (entry.kind != kind) continue;
      absl::StrAppend(&names, names.empty() ? "" : ", ", entry.ref.name(), " ",
                      entry.ref.version());
    }
    return names.empty() ? "none" : names;
  }

  const operators::Operators* const operators_;
};

}  // namespace

std::unique_ptr<const plan::OperatorCatalog> NewLoadedOperatorCatalog(
    const operators::Operators* operators) {
  return std::make_unique<LoadedOperatorCatalog>(operators);
}

}  // namespace millrace::pipeline
