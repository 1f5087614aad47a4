#include "server/data_tool/pack_options.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/dataset_writer.h"
#include "server/storage/schemes.h"

namespace millrace::data_tool {

absl::Status PackOptions::Validate() const {
  if (format.empty() && !absl::StrContains(input, ':')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--format is missing",
        input.empty() ? "; `millrace-data pack --help` shows how to pack"
                      : "; set it to the format of the folder, or write "
                        "--input=SCHEME:PATH for a dataset that "
                        "millrace-server reads"));
  }
  for (const auto& [name, value] :
       {std::pair("--input", &input), std::pair("--output", &output)}) {
    if (value->empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " is missing; `millrace-data pack --help` shows how to pack"));
    }
  }
  if (!is_uri() && format != "imagefolder" && format != "csv" &&
      format != "idx" && format != "cifar10" && format != "cifar100") {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no format '", format,
        "'; set --format to imagefolder, csv, idx, cifar10 or cifar100, or "
        "leave it out and write --input=SCHEME:PATH (",
        storage::SchemesText("PATH"), ")"));
  }
  if (!is_uri() && storage::HasScheme(input) &&
      access(input.c_str(), F_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--input=", input,
                     " says its format; leave --format=", format, " out"));
  }
  MR_RETURN_IF_ERROR(ValidateOutput());
  MR_RETURN_IF_ERROR(ValidateInput());
  return ValidateConversion();
}

absl::Status PackOptions::ValidateOutput() const {
  if (shards < 1 || shards > storage::DatasetWriter::kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shards is ", shards, "; it must be 1 to ",
                     storage::DatasetWriter::kMaxShards));
  }
  if (shard_bytes > 0 && shards != 1) {
    return absl::InvalidArgumentError(
        "--shards and --shard_bytes cannot be used together: remove one");
  }
  if (!absl::StartsWith(output, "lmdb:") &&
      !absl::StartsWith(output, "parquet:")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output=", output,
                     " does not say its format; write --output=lmdb:PATH or "
                     "--output=parquet:PATH"));
  }
  if (absl::EndsWith(output, ":")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output=", output,
                     " names no file; write --output=", output, "PATH"));
  }
  return absl::OkStatus();
}

// The flags that suit some inputs only.
absl::Status PackOptions::ValidateInput() const {
  if (format == "csv" && !split.empty()) {
    return absl::InvalidArgumentError(
        "--split has no effect with --format=csv; set --input to the table "
        "of the part");
  }
  if (format != "imagefolder" && !is_uri() && !split.empty() &&
      split != "train" && split != "test") {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no split '", split, "' of ", FilesName(),
        " files; with --format=", format, " set --split to train or test"));
  }
  if (skip_bad && !has_files()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--skip_bad needs --format=imagefolder, --format=csv or "
                     "--input=SCHEME:PATH; a file of ",
                     FilesName(), " is whole or damaged"));
  }
  if (seekable && !has_files()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--seekable needs --format=imagefolder, --format=csv or "
                     "--input=SCHEME:PATH; ",
                     FilesName(), " files contain no JPEGs"));
  }
  if (no_decode && !has_files()) {
    return absl::InvalidArgumentError(
        "--no_decode needs --format=imagefolder, --format=csv or "
        "--input=SCHEME:PATH");
  }
  if (!operators.empty() && !has_files()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--operators needs --format=imagefolder, --format=csv "
                     "or --input=SCHEME:PATH; ",
                     FilesName(), " files contain no encoded images"));
  }
  if (labels_from_folders && format != "imagefolder") {
    return absl::InvalidArgumentError(
        "--labels_from_folders needs --format=imagefolder");
  }
  if (is_uri() && !split.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--split needs --format; --input=", input,
                     " names the whole dataset: name its part in the URI"));
  }
  if (!is_uri() && !cache_dir.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cache_dir needs --input=SCHEME:PATH; --format=", format,
                     " makes no index"));
  }
  return absl::OkStatus();
}

absl::Status PackOptions::ValidateConversion() const {
  if (max_side < 0 || max_side > 65500) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_side=", max_side,
                     ": it must be 1 .. 65500 pixels, or 0 to keep "
                     "the sizes"));
  }
  if (quality.has_value() && (*quality < 1 || *quality > 100)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--quality=", *quality, ": it must be 1 .. 100"));
  }
  if ((shrinks() || !apply.empty()) && !has_files()) {
    return absl::InvalidArgumentError(absl::StrCat(
        apply.empty() ? "--max_side and --quality need" : "--apply needs",
        " --format=imagefolder, --format=csv or --input=SCHEME:PATH; ",
        FilesName(), " files contain no encoded images"));
  }
  if (apply.empty()) return absl::OkStatus();
  if (max_side > 0) {
    return absl::InvalidArgumentError(
        "--max_side has no effect with --apply; write a resize into the "
        "pipeline");
  }
  if (quality.has_value() && stored_as() != StoredAs::kJpeg) {
    return absl::InvalidArgumentError(
        "--quality needs --apply_as=jpeg when --apply is given");
  }
  return absl::OkStatus();
}

}  // namespace millrace::data_tool
