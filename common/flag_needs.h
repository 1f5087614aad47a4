// Flags that have an effect only together with another flag. A program that
// accepted such a flag alone would silently ignore what its user wants.
//
// Pure functions, safe from any thread. Knows no parser: the caller says which
// flags were given.
//
//   const std::vector<FlagNeed> needs = {{"plot", {"sweep", "rounds"}}};
//   MR_RETURN_IF_ERROR(CheckFlagNeeds(
//       needs, [&](absl::string_view name) { return given.contains(name); }));

#ifndef MILLRACE_COMMON_FLAG_NEEDS_H_
#define MILLRACE_COMMON_FLAG_NEEDS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace millrace {

// Names without dashes.
struct FlagNeed {
  std::string flag;
  std::vector<std::string> one_of;  // at least one of these must be given
};

// InvalidArgument: names the first flag that is given and has no effect, and
// the flags that are missing.
absl::Status CheckFlagNeeds(absl::Span<const FlagNeed> needs,
                            absl::FunctionRef<bool(absl::string_view)> given);

}  // namespace millrace

#endif  // MILLRACE_COMMON_FLAG_NEEDS_H_
