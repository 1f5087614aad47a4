// Asks all servers of an endpoint to Open a pipeline and takes the plan that
// they agree on.

#ifndef MILLRACE_CLIENT_RECEIVE_OPEN_PLAN_H_
#define MILLRACE_CLIENT_RECEIVE_OPEN_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/prefetch/host_loader.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

struct PlanOffer {
  std::string server;
  OpenResponse plan;
};

// The plan that more than half of the offers have, or the only one that is
// the expected one. FailedPrecondition: they disagree, or none is expected, or
// another protocol version: says what differs. `offers` is not empty.
absl::StatusOr<OpenResponse> ChoosePlan(absl::Span<const PlanOffer> offers,
                                        absl::string_view expected_plan_hash,
                                        absl::string_view expected_fingerprint);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_OPEN_PLAN_H_
