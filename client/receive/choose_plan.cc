#include "client/receive/choose_plan.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "proto/wire/version.h"

namespace millrace::receive {
namespace {

std::string PlanText(const OpenResponse& plan) {
  return absl::StrCat(
      "plan ", absl::BytesToHexString(plan.plan_hash()), " over content ",
      plan.fingerprint(), ", revision ", plan.content_revision(),
      plan.decoder_digest().empty()
          ? ""
          : absl::StrCat(", image decoders ", plan.decoder_digest()));
}

bool SamePlan(const OpenResponse& a, const OpenResponse& b) {
  return a.plan_hash() == b.plan_hash() && a.fingerprint() == b.fingerprint();
}

}  // namespace

absl::StatusOr<OpenResponse> ChoosePlan(
    absl::Span<const PlanOffer> offers, absl::string_view expected_plan_hash,
    absl::string_view expected_fingerprint) {
  std::vector<const PlanOffer*> good;
  std::string refused;
  for (const PlanOffer& offer : offers) {
    const OpenResponse& plan = offer.plan;
    std::string why;
    if (plan.protocol_version() < wire::kMinProtocolVersion ||
        plan.protocol_version() > wire::kProtocolVersion) {
      why = absl::StrCat("has protocol version ", plan.protocol_version(),
                         "; this client has ", wire::kMinProtocolVersion,
                         " to ", wire::kProtocolVersion);
    } else if (!expected_fingerprint.empty() &&
               plan.fingerprint() != expected_fingerprint) {
      why = absl::StrCat("has data with fingerprint ", plan.fingerprint(),
                         " instead of ", expected_fingerprint,
                         ": the dataset is another one or was changed");
    } else if (!expected_plan_hash.empty() &&
               plan.plan_hash() != expected_plan_hash) {
      why = absl::StrCat(
          "has plan ", absl::BytesToHexString(plan.plan_hash()), " instead of ",
          absl::BytesToHexString(expected_plan_hash),
          ": the pipeline, its options, the server's content revision or its "
          "image decoders differ from those of the checkpoint");
    }
    if (why.empty()) {
      good.push_back(&offer);
    } else {
      absl::StrAppend(&refused, refused.empty() ? "" : "; ", "server ",
                      offer.server, " ", why);
    }
  }
  if (good.empty()) return absl::FailedPreconditionError(refused);

  const PlanOffer* best = nullptr;
  size_t majority = 0;
  for (const PlanOffer* offer : good) {
    const size_t same = std::count_if(
        good.begin(), good.end(), [offer](const PlanOffer* other) {
          return SamePlan(offer->plan, other->plan);
        });
    if (same > majority) {
      best = offer;
      majority = same;
    }
  }
  if (2 * majority <= good.size()) {
    std::string plans;
    for (const PlanOffer* offer : good) {
      absl::StrAppend(&plans, plans.empty() ? "" : "; ", offer->server, ": ",
                      PlanText(offer->plan));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("the servers do not serve the same plan (", plans,
                     "); give them the same data, the same version and, if "
                     "their image decoders differ, the same libjpeg, libpng "
                     "and libwebp"));
  }
  // Servers with another plan are not named here: they refuse their first call,
  // and the log line of that refusal names them.
  if (!refused.empty()) MR_LOG(WARNING) << refused;
  return best->plan;
}

}  // namespace millrace::receive
