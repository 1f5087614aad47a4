#include "trainer/step_losses.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/atomic_file.h"
#include "common/file_error.h"
#include "common/read_file.h"
#include "common/status_macros.h"
#include "common/write_bytes.h"
#include "common/write_target.h"

namespace millrace::trainer {
namespace {

// The whole lines of `text` that are of steps before `end`. InvalidArgument: a
// whole line is not of this kind of file.
absl::StatusOr<std::string> LinesBefore(absl::string_view text, Position end,
                                        const std::string& path) {
  std::string kept;
  while (true) {
    const size_t newline = text.find('\n');
    if (newline == absl::string_view::npos) return kept;
    const absl::string_view line = text.substr(0, newline + 1);
    text.remove_prefix(newline + 1);
    const std::vector<absl::string_view> words =
        absl::StrSplit(line.substr(0, newline), ' ');
    uint64_t epoch = 0;
    uint64_t step = 0;
    if (words.size() != 3 || !absl::SimpleAtoi(words[0], &epoch) ||
        !absl::SimpleAtoi(words[1], &step)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--step_losses=", path,
                       ": the file has other lines than \"EPOCH STEP "
                       "LOSS\" and would lose them; name another file"));
    }
    if (epoch < end.epoch || (epoch == end.epoch && step < end.step)) {
      kept.append(line.data(), line.size());
    }
  }
}

}  // namespace

StepLosses::~StepLosses() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::string> StepLosses::LinesOfEarlierSteps() const {
  if (!resumed_at_.has_value() || IsSpecialFile(path_)) return "";
  const absl::StatusOr<std::string> text = ReadFile(path_, kNoFileLimit);
  if (absl::IsNotFound(text.status())) return "";
  MR_RETURN_IF_ERROR(text.status());
  return LinesBefore(*text, *resumed_at_, path_);
}

absl::Status StepLosses::Begin() {
  if (IsSpecialFile(path_)) {
    // A pipe or a terminal holds no lines of an earlier run. Opened once: its
    // reader ends with the first close.
    MR_ASSIGN_OR_RETURN(fd_, OpenSpecialFile(path_));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const std::string before, LinesOfEarlierSteps());
  MR_RETURN_IF_ERROR(WriteFileAtomically(path_, before));
  fd_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  return fd_ >= 0 ? absl::OkStatus() : FileError(errno, "write", path_);
}

absl::Status StepLosses::Append(uint64_t epoch, uint64_t first_step,
                                absl::Span<const double> losses) {
  for (size_t i = 0; i < losses.size(); ++i) {
    absl::StrAppendFormat(&pending_, "%d %d %.9g\n", epoch, first_step + i,
                          losses[i]);
  }
  if (pending_.empty()) return absl::OkStatus();
  if (fd_ < 0) MR_RETURN_IF_ERROR(Begin());
  absl::string_view rest = pending_;
  const absl::Status status = WriteBytes(fd_, path_, &rest);
  pending_.erase(0, pending_.size() - rest.size());
  return status;
}

}  // namespace millrace::trainer
