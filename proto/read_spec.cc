#include "proto/read_spec.h"

#include "common/read_file.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/spec_text.h"

namespace millrace {

absl::StatusOr<PipelineSpec> ReadSpecFile(const std::string& path) {
  MR_ASSIGN_OR_RETURN(
      const std::string text,
      UsageError(ReadFile(path, kMaxTextFileBytes, "the pipeline")));
  return UsageError(ParseSpecText(text, path));
}

}  // namespace millrace
