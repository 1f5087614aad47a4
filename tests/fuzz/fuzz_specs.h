// Specs and datasets that the fuzz targets of the spec share.

#ifndef MILLRACE_TESTS_FUZZ_FUZZ_SPECS_H_
#define MILLRACE_TESTS_FUZZ_FUZZ_SPECS_H_

#include <string>
#include <vector>

#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/resolve.h"

namespace millrace {

// One dataset of each kind, for the life of the process.
const plan::DatasetInfos& FuzzDatasets();

// Specs in text form: every preset, and every transform.
std::vector<std::string> FuzzSpecTexts();

// The spec as text or as bytes is whatever it is; nothing that is done with it
// may crash, hang or break a promise. Returns whether it could be resolved.
bool FuzzSpec(const PipelineSpec& spec);

}  // namespace millrace

#endif  // MILLRACE_TESTS_FUZZ_FUZZ_SPECS_H_
