// The operators of a server that has none: "paint" works on images of up to
// three channels, "embed" makes float32 [16] of any tensor but float32 ones,
// "pnm" decodes.

#ifndef MILLRACE_TESTS_SERVER_PLAN_FAKE_OPERATORS_H_
#define MILLRACE_TESTS_SERVER_PLAN_FAKE_OPERATORS_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "server/plan/operator_catalog.h"

namespace millrace::plan {

class FakeOperators final : public OperatorCatalog {
 public:
  // 32 hexadecimal digits of 'a', or of `digit`.
  explicit FakeOperators(char digit = 'a', std::string version = "1.0")
      : hash_(32, digit), version_(std::move(version)) {}

  std::optional<Found> FindTransform(const std::string& name) const override {
    if (name != "paint" && name != "embed") return std::nullopt;
    return Found{Ref(name), name == "paint"};
  }
  std::optional<Found> FindDecoder(const std::string& name) const override {
    if (name != "pnm") return std::nullopt;
    return Found{Ref(name)};
  }
  std::string TransformNames() const override { return "embed 1.0, paint 1.0"; }
  std::string DecoderNames() const override { return "pnm 1.0"; }

  absl::Status CheckOnImages(const CustomTransform& custom, uint32_t place,
                             int channels) const override {
    if (channels <= 3) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("transforms[", place, "]: paint: too many channels"));
  }
  absl::StatusOr<Tensor> ResultOf(const CustomTransform& custom, uint32_t place,
                                  const Tensor& input) const override {
    if (custom.config() == "same") return input;
    if (input.dtype != DTYPE_FLOAT32) return Tensor{DTYPE_FLOAT32, {16}};
    return absl::InvalidArgumentError(
        absl::StrCat("transforms[", place, "]: embed: not of float32"));
  }

 private:
  OperatorRef Ref(const std::string& name) const {
    OperatorRef ref;
    ref.set_name(name);
    ref.set_version(version_);
    ref.set_library_hash(hash_);
    return ref;
  }

  const std::string hash_;
  const std::string version_;
};

}  // namespace millrace::plan

#endif  // MILLRACE_TESTS_SERVER_PLAN_FAKE_OPERATORS_H_
