#include "trainer/optim/precision.h"

#include <ATen/autocast_mode.h>

namespace millrace::optim {
namespace {

// Sets autocast on this thread and restores it at the end.
class Autocast {
 public:
  Autocast(at::ScalarType type, at::DeviceType device)
      : device_(device),
        enabled_(at::autocast::is_autocast_enabled(device)),
        type_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_dtype(device, type);
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    // Casts of weights are cached for the pass only.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, enabled_);
    at::autocast::set_autocast_dtype(device_, type_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const at::DeviceType device_;
  const bool enabled_;
  const at::ScalarType type_;
};

}  // namespace

at::Tensor Precision::Run(const std::function<at::Tensor()>& forward) const {
  if (type_ == at::kFloat) return forward();
  at::Tensor output;
  {
    const Autocast autocast(type_, device_);
    output = forward();
  }
  const at::ScalarType type = output.scalar_type();
  return type == at::kHalf || type == at::kBFloat16 ? output.to(at::kFloat)
                                                    : output;
}

std::optional<Precision> PrecisionByName(absl::string_view name,
                                         at::DeviceType device) {
  if (name == "float32") return Precision();
  if (name == "bfloat16") return Precision(at::kBFloat16, device);
  if (name == "float16") return Precision(at::kHalf, device);
  return std::nullopt;
}

}  // namespace millrace::optim
