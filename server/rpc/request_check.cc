#include "server/rpc/request_check.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "proto/error_detail.h"
#include "proto/wire/version.h"

namespace millrace::rpc {

absl::Status CheckProtocolVersion(uint32_t client_version) {
  if (client_version == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the request names no protocol version; set protocol_version to ",
        wire::kProtocolVersion));
  }
  if (client_version >= wire::kMinProtocolVersion &&
      client_version <= wire::kProtocolVersion) {
    return absl::OkStatus();
  }
  const bool client_is_newer = client_version > wire::kProtocolVersion;
  return absl::FailedPreconditionError(
      absl::StrCat("the client speaks protocol version ", client_version,
                   ", this server versions ", wire::kMinProtocolVersion, " to ",
                   wire::kProtocolVersion, "; upgrade the ",
                   client_is_newer ? "server" : "client"));
}

absl::Status CheckPlan(const GetBatchesRequest& request,
                       const OpenResponse& plan) {
  if (request.plan_hash().empty() || request.expected_fingerprint().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the request has no ",
        request.plan_hash().empty() ? "plan_hash" : "expected_fingerprint",
        "; send the value that Open returned: it prevents a mix of batches "
        "from different data"));
  }
  if (request.expected_fingerprint() != plan.fingerprint()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the data differ: the job was opened on a dataset with fingerprint ",
        request.expected_fingerprint(),
        ", this server's dataset of that name has fingerprint ",
        plan.fingerprint(),
        "; serve the same data on every server, or start a new job"));
  }
  if (!request.decoder_digest().empty() && !plan.decoder_digest().empty() &&
      request.decoder_digest() != plan.decoder_digest()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the image decoders differ: the job was opened with decoders of "
        "digest ",
        request.decoder_digest(), ", this server's have ",
        plan.decoder_digest(),
        " (its libjpeg, libpng or libwebp decodes the same image to other "
        "pixels); install the same versions of these libraries on every "
        "server, or start a new job"));
  }
  if (request.plan_hash() != plan.plan_hash()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the plan differs: the job has plan ",
                     absl::BytesToHexString(request.plan_hash()),
                     ", this server computes plan ",
                     absl::BytesToHexString(plan.plan_hash()),
                     " (content revision ", plan.content_revision(),
                     ") from the same spec and data; run the same release on "
                     "every server, or start a new job"));
  }
  if (request.rank() >= request.world_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", request.rank(), " is out of range for world size ",
        request.world_size(), "; ranks are counted from 0"));
  }
  if (request.step_count() == 0) {
    return absl::InvalidArgumentError(
        "step_count is 0; request at least one step");
  }
  if (request.first_step() >= plan.steps_per_epoch() ||
      request.step_count() > plan.steps_per_epoch() - request.first_step()) {
    return absl::OutOfRangeError(absl::StrCat(
        "the request is for ", CountText(request.step_count(), "step"),
        " from step ", request.first_step(), "; an epoch has ",
        plan.steps_per_epoch() == 0
            ? "no steps"
            : absl::StrCat("steps 0 to ", plan.steps_per_epoch() - 1)));
  }
  return absl::OkStatus();
}

absl::Status PlanRefusal(const GetBatchesRequest& request,
                         const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) || request.plan_hash().empty() ||
      request.expected_fingerprint().empty()) {
    return status;
  }
  const absl::Status refusal = absl::FailedPreconditionError(absl::StrCat(
      "the data differ: the job was opened on a dataset with fingerprint ",
      request.expected_fingerprint(),
      ", and this server's dataset of that name does not fit its pipeline (",
      status.message(),
      "); serve the same data on every server, or start a new job"));
  return HasErrorDetail(status)
             ? WithErrorDetail(refusal, GetErrorDetail(status))
             : refusal;
}

}  // namespace millrace::rpc
