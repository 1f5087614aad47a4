// ChoosePlan chooses among the plans that the servers of an endpoint returned
// from Open.
//
// What it is not: it sends no request (open_host_loader.h).
//
// Pure function apart from a log line; safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(OpenResponse plan,
//                       ChoosePlan(offers, expected_plan_hash, ""));

#ifndef MILLRACE_CLIENT_RECEIVE_CHOOSE_PLAN_H_
#define MILLRACE_CLIENT_RECEIVE_CHOOSE_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::receive {

struct PlanOffer {
  std::string server;
  OpenResponse plan;
};

// The plan that more than half of the acceptable offers have. An offer is
// acceptable when it has a known protocol version and the expected plan and
// fingerprint; empty: any. `offers` is not empty. FailedPrecondition: no offer
// is acceptable, or no plan has a majority; says what differs.
absl::StatusOr<OpenResponse> ChoosePlan(absl::Span<const PlanOffer> offers,
                                        absl::string_view expected_plan_hash,
                                        absl::string_view expected_fingerprint);

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_CHOOSE_PLAN_H_
