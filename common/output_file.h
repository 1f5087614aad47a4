// CheckOutputFile refuses to replace a file that is of another kind than the
// output of a flag: --json=photos.lmdb would destroy a dataset. A file of the
// same kind is the output of an earlier run, and may be replaced.
//
// It looks only at the first and the last bytes of the file. It is no check
// that the path can be written, and no protection against a file that appears
// later.
//
// Thread-safe. Opens the file for reading, and changes nothing.
//
//   MR_RETURN_IF_ERROR(UsageError(
//       CheckOutputFile("--json", path, OutputKind::kJson)));

#ifndef MILLRACE_COMMON_OUTPUT_FILE_H_
#define MILLRACE_COMMON_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

enum class OutputKind {
  // {" or {} or [{ or [], with any white space between, and as the last byte
  // that is not blank the bracket that closes the first one.
  kJson,
  kStepLosses,    // lines "EPOCH STEP LOSS"
  kCheckpoint,    // libtorch's archive of tensors
  kTorchWeights,  // an archive or a pickle of torch.save
  kSafetensors,   // a length of 2 B to 100 MB and a header in JSON
  kPng,
  kSvg,   // < and, in the first 4 KiB, <svg
  kPort,  // a line with a number, 6 bytes or fewer
};

// OK: `path` is empty or absent, an empty file, a folder (which cannot be
// replaced), a special file (common/write_target.h), or a file of this kind.
// InvalidArgument: a file of another kind; names `flag` ("--json"), the file
// and what the file appears to be. Otherwise as FileError()
// (common/file_error.h): the file cannot be read.
absl::Status CheckOutputFile(absl::string_view flag, const std::string& path,
                             OutputKind kind);

}  // namespace millrace

#endif  // MILLRACE_COMMON_OUTPUT_FILE_H_
