#include "trainer/write_failures.h"

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "trainer/error_text.h"

namespace millrace::trainer {

std::optional<std::string> WriteFailures::LineOf(const absl::Status& written,
                                                 SteadyTime now) {
  if (written.ok()) {
    const uint64_t failed = std::exchange(failed_, 0);
    if (!std::exchange(told_, false)) return std::nullopt;
    return absl::StrCat(path_, " can be written again, after ",
                        CountText(failed, "failed write"));
  }
  ++failed_;
  const std::optional<uint64_t> left_out = limit_.Pass(path_, 0, now);
  if (!left_out.has_value()) return std::nullopt;
  told_ = true;
  std::string line = ErrorText(written);
  if (*left_out > 0) {
    absl::StrAppend(&line, " (", CountText(*left_out, "further failed write"),
                    " since the last such line)");
  }
  return line;
}

}  // namespace millrace::trainer
