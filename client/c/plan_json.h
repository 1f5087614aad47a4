// What a loader knows, as JSON objects of millrace.h: the plan, the counters,
// the explanation of a batch. docs/client.md describes the fields.
//
// Pure functions, safe from any thread.
//
//   std::string json = PlanJson(loader->plan());

#ifndef MILLRACE_CLIENT_C_PLAN_JSON_H_
#define MILLRACE_CLIENT_C_PLAN_JSON_H_

#include <string>

#include "client/prefetch/batch_info.h"
#include "client/prefetch/host_loader.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::c {

std::string PlanJson(const OpenResponse& plan);
std::string StatsJson(const HostLoader::Stats& stats);
std::string ExplanationJson(const ExplainBatchResponse& explained,
                            Position position);

}  // namespace millrace::c

#endif  // MILLRACE_CLIENT_C_PLAN_JSON_H_
