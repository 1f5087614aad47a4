// Converts libtorch's exceptions to Status.

#ifndef MILLRACE_TRAINER_TORCH_ERROR_H_
#define MILLRACE_TRAINER_TORCH_ERROR_H_

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace millrace::trainer {

// The exception's message without libtorch's stack.
inline std::string TorchMessage(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace()
                                : error.what();
}

// The line of the message that states the error: the last one of a TorchScript
// module's traceback, otherwise the first. Without the advice that libtorch's
// ZIP reader adds.
inline std::string TorchSentence(const std::exception& error) {
  const std::string message = TorchMessage(error);
  const std::vector<absl::string_view> lines =
      absl::StrSplit(message, '\n', absl::SkipWhitespace());
  if (lines.empty()) return message;
  if (absl::StrContains(message, "TorchScript interpreter")) {
    return std::string(lines.back());
  }
  absl::string_view line = absl::StripAsciiWhitespace(lines.front());
  line = line.substr(0, line.find(". This is an internal miniz error"));
  return std::string(absl::StripSuffix(line, ":"));
}

// "<what> failed: ...", Internal.
inline absl::Status FromTorch(const std::exception& error,
                              absl::string_view what) {
  return absl::InternalError(
      absl::StrCat(what, " failed: ", TorchMessage(error)));
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_TORCH_ERROR_H_
