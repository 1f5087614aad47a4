#include "proto/retry_hint.h"

#include <cstdint>
#include <utility>

#include "proto/error_detail.h"

namespace millrace {
namespace {

// Longer than a batch takes to be sent, so that memory is free again; shorter
// than a client with a full window notices.
constexpr int64_t kRetryDelayMs = 500;

}  // namespace

absl::Status WithRetryHint(absl::Status status, absl::string_view stage) {
  ErrorDetail detail = MakeErrorDetail(stage);
  detail.set_retry_delay_ms(kRetryDelayMs);
  return WithErrorDetail(std::move(status), detail);
}

}  // namespace millrace
