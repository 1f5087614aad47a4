#include "server/operators/operator_result.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/clean_text.h"

namespace millrace::operators {
namespace {

// Max bytes of a text: a library may return a text without a terminating zero.
constexpr size_t kMaxTextBytes = 4096;

}  // namespace

std::string Printable(absl::string_view text) {
  return CleanText(text, kMaxTextBytes);
}

absl::Status OperatorResult::Failed(absl::string_view who,
                                    absl::StatusCode invalid) const {
  const absl::string_view sentence(error_, strnlen(error_, sizeof(error_)));
  const std::string text = absl::StrCat(
      who, ": ",
      sentence.empty() ? "it failed without a reason" : Printable(sentence));
  switch (result_) {
    case MILLRACE_INVALID:
      return absl::Status(invalid, text);
    case MILLRACE_NOT_FOUND:
      return absl::NotFoundError(text);
    case MILLRACE_UNAVAILABLE:
      return absl::UnavailableError(text);
    case MILLRACE_NO_MEMORY:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::InternalError(
          absl::StrCat(text, " (result ", result_,
                       ", which is not a result of millrace_operator.h)"));
  }
}

}  // namespace millrace::operators
