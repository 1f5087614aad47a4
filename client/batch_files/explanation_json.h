// The explanation of a batch as JSON: the random choices for the batch, and for
// each row its sample, where that lies and what was drawn for it.
// docs/client.md describes the fields.
//
// Pure functions, safe from any thread.
//
//   json.AddJson("drawn", DrawnJson(explained.drawn()));
//   json.AddJson("samples", ExplainedRowsJson(explained));

#ifndef MILLRACE_CLIENT_BATCH_FILES_EXPLANATION_JSON_H_
#define MILLRACE_CLIENT_BATCH_FILES_EXPLANATION_JSON_H_

#include <string>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::batch_files {

// A list of objects: place, transform, field (absent: of the whole batch),
// drawn.
std::string DrawnJson(const google::protobuf::RepeatedPtrField<Drawn>& list);

// A list of objects, one a row and one on a line. A row of padding has only
// row, position and sample (-1).
std::string ExplainedRowsJson(const ExplainBatchResponse& explained);

}  // namespace millrace::batch_files

#endif  // MILLRACE_CLIENT_BATCH_FILES_EXPLANATION_JSON_H_
