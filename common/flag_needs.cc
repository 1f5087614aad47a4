#include "common/flag_needs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace {

absl::Status CheckFlagNeeds(absl::Span<const FlagNeed> needs,
                            absl::FunctionRef<bool(absl::string_view)> given) {
  for (const FlagNeed& need : needs) {
    if (!given(need.flag) ||
        std::any_of(need.one_of.begin(), need.one_of.end(), given)) {
      continue;
    }
    std::string names;
    for (size_t i = 0; i < need.one_of.size(); ++i) {
      const bool last = i + 1 == need.one_of.size();
      absl::StrAppend(&names,
                      i == 0 ? ""
                      : last ? " or "
                             : ", ",
                      "--", need.one_of[i]);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("--", need.flag, " has no effect without ", names,
                     ": add ", need.one_of.size() == 1 ? "it" : "one of them",
                     ", or remove --", need.flag));
  }
  return absl::OkStatus();
}

}  // namespace millrace
