// Names that stand for a part of a dataset, not for data of their own kind.
//
// Pure function.
//
//   IsSplitName("Train")  ->  true

#ifndef MILLRACE_SERVER_DATA_TOOL_SPLIT_NAME_H_
#define MILLRACE_SERVER_DATA_TOOL_SPLIT_NAME_H_

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace millrace {

// In any case of letters.
inline bool IsSplitName(absl::string_view name) {
  for (absl::string_view split :
       {"train", "training", "val", "valid", "validation", "dev", "test",
        "testing", "eval"}) {
    if (absl::EqualsIgnoreCase(name, split)) return true;
  }
  return false;
}

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_SPLIT_NAME_H_
