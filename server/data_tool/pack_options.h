// The flags of `millrace-data pack` and the rules among them that need no file.
//
// Plain data, one thread at a time.

#ifndef MILLRACE_SERVER_DATA_TOOL_PACK_OPTIONS_H_
#define MILLRACE_SERVER_DATA_TOOL_PACK_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/data_tool/pipeline_beginning.h"

namespace millrace::data_tool {

struct PackOptions {
  std::string format;  // empty: `input` is the URI of a dataset
  std::string input;
  std::string split;
  std::string output;
  std::string cache_dir;
  int64_t shards = 1;
  uint64_t shard_bytes = 0;  // 0: cut by number
  bool overwrite = false;
  bool skip_bad = false;
  bool seekable = false;
  bool no_decode = false;
  bool labels_from_folders = false;
  int64_t max_side = 0;  // 0: images keep their size
  std::optional<int64_t> quality;
  std::string apply;     // a pipeline file
  std::string apply_as;  // png, jpeg or tensor; empty: png
  std::string remainder;
  std::vector<std::string> operators;

  static constexpr int kDefaultQuality = 90;

  bool is_uri() const { return format.empty(); }
  // Its samples are found one by one, so that some can be left out.
  bool has_files() const {
    return format == "imagefolder" || format == "csv" || is_uri();
  }
  // Images are encoded again, without --apply.
  bool shrinks() const {
    return apply.empty() && (max_side > 0 || quality.has_value());
  }
  int jpeg_quality() const {
    return static_cast<int>(quality.value_or(kDefaultQuality));
  }
  StoredAs stored_as() const {
    return apply_as == "jpeg"     ? StoredAs::kJpeg
           : apply_as == "tensor" ? StoredAs::kTensor
                                  : StoredAs::kPng;
  }

  // InvalidArgument: names the flag.
  absl::Status Validate() const;

 private:
  absl::Status ValidateInput() const;
  absl::Status ValidateOutput() const;
  absl::Status ValidateConversion() const;
  absl::string_view FilesName() const {
    return format == "idx" ? "IDX" : "CIFAR";
  }
};

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_PACK_OPTIONS_H_
