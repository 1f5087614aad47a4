#include "server/plan/plan.h"

#include "common/logging.h"
#include "common/status_macros.h"
#include "server/plan/content_revision.h"
#include "server/plan/plan_hash.h"

namespace millrace {

absl::StatusOr<Plan> Plan::Create(const PipelineSpec& resolved,
                                  const DatasetInfo& info) {
  MR_CHECK(resolved.sources_size() == 1 && resolved.preset().empty())
      << "the spec is not resolved";
  MR_ASSIGN_OR_RETURN(SubsetCut cut,
                      SubsetCut::Create(resolved.sources(0), info.samples()));
  MR_ASSIGN_OR_RETURN(const StepTable steps,
                      StepTable::Create(cut.size(), resolved.batch_size(),
                                        resolved.last_batch()));
  Plan plan(resolved, std::move(cut), steps);
  plan.fingerprint_ = info.fingerprint();
  plan.hash_ = PlanHash(resolved, plan.fingerprint_, kContentRevision);
  return plan;
}

}  // namespace millrace
