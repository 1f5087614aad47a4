// What plans must know of the loaded operators, answered by the operators
// themselves: server/plan/operator_catalog.h over server/operators/operators.h.
//
// Thread-safe, immutable.

#ifndef MILLRACE_SERVER_PIPELINE_STAGE_LOADED_OPERATOR_CATALOG_H_
#define MILLRACE_SERVER_PIPELINE_STAGE_LOADED_OPERATOR_CATALOG_H_

#include <memory>

#include "server/operators/operators.h"
#include "server/plan/operator_catalog.h"

namespace millrace::pipeline {

// `operators` null: there are none. Must outlive the catalogue.
std::unique_ptr<const plan::OperatorCatalog> NewLoadedOperatorCatalog(
    const operators::Operators* operators);

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_STAGE_LOADED_OPERATOR_CATALOG_H_
