#include "client/prefetch/retry_rule.h"

#include "absl/strings/str_cat.h"
#include "client/prefetch/connection_doubt.h"
#include "common/count_text.h"
#include "proto/error_detail.h"

namespace millrace::prefetch {
namespace {

absl::StatusCode FinalCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
      return absl::StatusCode::kInternal;
    default:
      return code;
  }
}

}  // namespace

bool IsDamaged(const absl::Status& status) {
  return HasErrorDetail(status) ? GetErrorDetail(status).request_damaged()
                                : absl::IsDataLoss(status);
}

bool ConcernsSample(const absl::Status& status) {
  return absl::IsDataLoss(status) && HasErrorDetail(status) &&
         !IsDamaged(status);
}

FailureAction ActionFor(const absl::Status& status, const FailureFacts& facts) {
  if (IsDamaged(status) &&
      (facts.may_retry_damaged || facts.requested_from_others)) {
    return FailureAction::kDamaged;
  }
  if (DoubtOf(status) == ConnectionDoubt::kDamaged &&
      !facts.over_new_connection) {
    return FailureAction::kRetry;
  }
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return FailureAction::kRetry;
    case absl::StatusCode::kResourceExhausted:
      if (GetErrorDetail(status).retry_delay_ms() > 0) {
        return FailureAction::kPause;
      }
      break;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
      if (facts.others_may_serve) return FailureAction::kLeaveOut;
      // The only server has opened the plan, so the answer that its method is
      // unknown comes from a proxy.
      if (absl::IsUnimplemented(status) && !HasErrorDetail(status)) {
        return FailureAction::kRetry;
      }
      break;
    default:
      break;
  }
  return facts.requested_from_others ? FailureAction::kLeaveToOthers
                                     : FailureAction::kFinal;
}

absl::Status FinalError(absl::string_view address, const absl::Status& status,
                        absl::string_view stage) {
  ErrorDetail where = GetErrorDetail(status);
  if (where.stage().empty()) where.set_stage(std::string(stage));
  return WithErrorDetail(
      absl::Status(FinalCode(status.code()),
                   absl::StrCat("server ", address, ": ", status.message())),
      where);
}

absl::Status FinalDamageError(absl::string_view address,
                              const absl::Status& status,
                              absl::string_view stage,
                              absl::string_view position, uint32_t damages) {
  return FinalError(
      address,
      WithErrorDetail(absl::DataLossError(absl::StrCat(
                          status.message(), "; the exchange of ", position,
                          " has been damaged ", CountText(damages, "time"),
                          ": check the network to that server, and the memory "
                          "of both machines")),
                      GetErrorDetail(status)),
      stage);
}

}  // namespace millrace::prefetch
