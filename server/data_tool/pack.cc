// millrace-data pack: converts original files to a dataset.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/cgroup.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/usage_error.h"
#include "server/data_tool/cifar_dataset.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/csv_dataset.h"
#include "server/data_tool/idx_dataset.h"
#include "server/data_tool/image_folder.h"
#include "server/data_tool/progress.h"
#include "server/data_tool/report.h"
#include "server/data_tool/seekable_reader.h"
#include "server/data_tool/stored_dataset.h"
#include "server/operators/operators.h"
#include "server/storage/dataset_writer.h"
#include "server/storage/schemes.h"

namespace millrace::data_tool {
namespace {

struct PackOptions {
  std::string format;  // empty: `input` is the URI of a dataset
  std::string input;
  std::string split;
  std::string output;
  std::string cache_dir;
  int64_t shards = 1;
  bool overwrite = false;
  bool skip_bad = false;
  bool seekable = false;
  bool no_decode = false;
  bool labels_from_folders = false;
  std::vector<std::string> operators;

  bool is_uri() const { return format.empty(); }
  // Its samples are found one by one, so that some can be left out.
  bool has_files() const {
    return format == "imagefolder" || format == "csv" || is_uri();
  }

  absl::Status Validate() const {
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
            name,
            " is missing; `millrace-data pack --help` shows how to pack"));
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
    if (shards < 1 || shards > storage::DatasetWriter::kMaxShards) {
      return absl::InvalidArgumentError(
          absl::StrCat("--shards is ", shards, "; it must be 1 to ",
                       storage::DatasetWriter::kMaxShards));
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
      return absl::InvalidArgumentError(absl::StrCat(
          "--cache_dir needs --input=SCHEME:PATH; --format=", format,
          " makes no index"));
    }
    return absl::OkStatus();
  }

 private:
  absl::string_view FilesName() const {
    return format == "idx" ? "IDX" : "CIFAR";
  }
};

// The folder to read: image folders have a sub-folder with the name of each
// split.
std::string InputFolder(const PackOptions& options) {
  return options.format != "imagefolder" || options.split.empty()
             ? options.input
             : absl::StrCat(options.input, "/", options.split);
}

absl::Status CheckInput(const PackOptions& options) {
  // OpenStoredDataset() and OpenCsvDataset() check theirs.
  if (options.is_uri() || options.format == "csv") return absl::OkStatus();
  const std::string folder = InputFolder(options);
  struct stat info;
  const int error = stat(folder.c_str(), &info) != 0 ? errno
                    : S_ISDIR(info.st_mode)          ? 0
                                                     : ENOTDIR;
  if (error == 0) return absl::OkStatus();
  if (error == ENOENT || error == ENOTDIR) {
    return UsageError(absl::NotFoundError(
        absl::StrCat("there is no folder ", folder,
                     "; set --input to the folder that contains ",
                     options.format == "idx"           ? "the IDX files"
                     : options.format != "imagefolder" ? "the .bin files"
                     : options.split.empty()           ? "the class folders"
                                             : "the part that --split names")));
  }
  return FileError(error, "read folder", folder);
}

// An existing output is a usage error, because it would still exist in the next
// run.
absl::Status CheckOutput(const PackOptions& options,
                         const storage::DatasetWriter::Options& output) {
  absl::Status checked =
      storage::DatasetWriter::CheckOutput(options.output, output);
  return absl::IsAlreadyExists(checked) ? UsageError(checked) : checked;
}

absl::StatusOr<std::unique_ptr<SampleReader>> OpenInput(
    const PackOptions& options, const operators::Operators& operators) {
  const uint32_t decode_threads = options.no_decode ? 0 : AvailableCpus();
  if (options.is_uri()) {
    return OpenStoredDataset({.uri = options.input,
                              .cache_dir = options.cache_dir,
                              .skip_bad = options.skip_bad,
                              .decode_threads = decode_threads,
                              .operators = &operators});
  }
  if (options.format == "csv") {
    return OpenCsvDataset({.input = options.input,
                           .skip_bad = options.skip_bad,
                           .decode_threads = decode_threads,
                           .operators = &operators});
  }
  const std::string split = options.split.empty() ? "train" : options.split;
  const bool as_png = absl::StartsWith(options.output, "parquet:");
  if (options.format == "idx") {
    return OpenIdxDataset(
        {.folder = options.input, .split = split, .as_png = as_png});
  }
  if (options.format != "imagefolder") {
    return OpenCifarDataset({.folder = options.input,
                             .split = split,
                             .fine_and_coarse = options.format == "cifar100",
                             .as_png = as_png});
  }
  return OpenImageFolder({.folder = InputFolder(options),
                          .by_split = !options.split.empty(),
                          .skip_bad = options.skip_bad,
                          .decode_threads = decode_threads,
                          .labels_from_folders = options.labels_from_folders,
                          .operators = &operators});
}

bool HasImages(const DatasetInfo& info) {
  for (const Field& field : info.schema().fields()) {
    if (field.kind() == FIELD_KIND_ENCODED_IMAGE) return true;
  }
  return false;
}

absl::Status Pack(const PackOptions& options, std::ostream& out) {
  const absl::Time start = absl::Now();
  MR_ASSIGN_OR_RETURN(
      const std::shared_ptr<const operators::Operators> operators,
      UsageError(operators::Operators::Load(options.operators)));
  const storage::DatasetWriter::Options output = {
      .shards = options.shards, .overwrite = options.overwrite};
  MR_RETURN_IF_ERROR(CheckInput(options));
  // Checked before the input is scanned, which takes long.
  MR_RETURN_IF_ERROR(CheckOutput(options, output));
  MR_ASSIGN_OR_RETURN(auto reader, OpenInput(options, *operators));
  const SeekableReader* seekable = nullptr;
  if (options.seekable) {
    auto rewriting =
        MakeSeekable(std::move(reader), AvailableCpus(), operators.get());
    seekable = rewriting.get();
    reader = std::move(rewriting);
  }
  const int64_t samples = reader->description().samples();
  MR_ASSIGN_OR_RETURN(auto writer,
                      storage::DatasetWriter::Create(
                          options.output, reader->description(), output));
  int64_t bytes = 0;
  {
    ToolProgress progress("packing", samples);
    SampleReader::Sample sample;
    for (int64_t i = 0; i < samples; ++i) {
      if (StopSignals::signal() != 0) {
        return absl::CancelledError(absl::StrCat(
            "interrupted after ", i, " of ", CountText(samples, "sample"),
            "; the incomplete output is removed"));
      }
      MR_RETURN_IF_ERROR(reader->Next(&sample));
      MR_RETURN_IF_ERROR(writer->Append(sample.fields, sample.origin));
      for (const auto& field : sample.fields) bytes += field.size();
      progress.Update(i + 1, bytes);
    }
  }
  MR_ASSIGN_OR_RETURN(const DatasetInfo info, writer->Finish());
  Warn("pack", reader->Warnings());
  out << absl::StreamFormat(
      "packed %s (%s) into %s: %s, fingerprint %s, %.1f s\n",
      CountText(info.samples(), "sample"), SizeText(bytes),
      Readable(options.output), CountText(info.shards_size(), "shard"),
      info.fingerprint(), absl::ToDoubleSeconds(absl::Now() - start));
  if (HasImages(reader->description()) && options.has_files()) {
    out << (options.no_decode
                ? "the images were not decoded (--no_decode): the server "
                  "reports a damaged image when it serves it\n"
                : "every image was decoded before it was packed\n");
  }
  if (seekable != nullptr) out << seekable->Summary() << "\n";
  return absl::OkStatus();
}

}  // namespace

int RunPack(const std::vector<std::string>& args, std::ostream& out) {
  PackOptions options;
  program::FlagSet flags(
      {.command = "millrace-data pack",
       .summary =
           "Packs original files, or a dataset of another format, into a "
           "dataset that millrace-server reads. The output appears under its "
           "name only when it is complete.\n\nWithout --format, --input is "
           "the URI of a dataset that millrace-server serves "
           "(tar:PATH, mds:DIR, ...). The output has the same samples in the "
           "same order, the same fields and classes, and the fingerprint of "
           "the same content.\nimagefolder: one folder for each class, with "
           ".jpg, .jpeg, .png and .webp files below it.\ncsv: a table of "
           "image paths, relative to the folder of the table, and labels; its "
           "options follow a '?': path=COLUMN, label=COLUMN (several between "
           "commas), boxes=COLUMN (or four between commas), header=no, "
           "separator=tab, classes=FILE, num_classes=N, "
           "label_offset=K.\nidx: MNIST's files "
           "(train-images-idx3-ubyte, ..., plain or .gz).\ncifar10, cifar100: "
           "the binary version (data_batch_1.bin, ... or train.bin). idx and "
           "cifar are stored as raw pixels in LMDB, as PNG in "
           "Parquet.\n`pack` decodes each encoded image once to find damaged "
           "images (not with --no_decode).",
       .examples = {"millrace-data pack --format=imagefolder --input=DIR \\\n"
                    "      --output=parquet:/data/photos --shards=4",
                    "millrace-data pack --input='tar:/data/{000..099}.tar' "
                    "\\\n      --output=lmdb:/data/photos.lmdb",
                    "millrace-data pack --format=csv \\\n"
                    "      --input='/data/labels.csv?path=file&label=class' "
                    "\\\n      --output=lmdb:/data/photos.lmdb",
                    "millrace-data pack --format=idx --split=test --input=DIR "
                    "\\\n      --output=lmdb:/data/mnist-test.lmdb"}});
  flags.Group("Input");
  flags
      .Add("format", &options.format, "imagefolder|csv|idx|cifar10|cifar100",
           "Format of the folder, or of the table, that --input names")
      .Default("--input is a URI");
  flags.Add("input", &options.input, "DIR|TABLE|SCHEME:PATH",
            "Folder of the original files, csv: table of paths and labels, or "
            "dataset of another format");
  flags
      .Add("split", &options.split, "NAME",
           "idx, cifar10, cifar100: files to pack, train or test; imagefolder: "
           "name of the folder inside the input to pack, such as train or val")
      .Default("train; imagefolder: the input itself");
  flags.Add("skip_bad", &options.skip_bad, "",
            "imagefolder, csv, URI: skip damaged images and samples and report "
            "them; imagefolder: keep classes without images");
  flags.Add("no_decode", &options.no_decode, "",
            "imagefolder, csv, URI: do not decode the images; does not find "
            "truncated images");
  flags.Add("labels_from_folders", &options.labels_from_folders, "",
            "imagefolder: use the folders in the input as classes, even if "
            "they have the names of parts of a dataset (train, val2017), "
            "contain parts of the same samples (images and masks), contain "
            "folders that look like classes, or if the only folder is beside a "
            "table that may contain labels");
  AddCacheDirFlag(flags, &options.cache_dir);
  flags.Add(
      "operators", &options.operators, "FILE.so",
      "imagefolder: library of decoders; `pack` then also packs files of "
      "any name that one of its decoders accepts. csv: library of decoders for "
      "the images. URI: library of the source or the decoders of the dataset. "
      "May be repeated");
  flags.Group("Output");
  flags.Add(
      "output", &options.output, "lmdb:PATH|parquet:PATH",
      "Dataset to write: a file; a folder of shards if --shards is above 1, "
      "or if PATH is a folder already or ends with /");
  flags.Add("shards", &options.shards, "N", "Number of files to write");
  flags.Add("overwrite", &options.overwrite, "", "Replace an existing dataset");
  flags.Add(
      "seekable", &options.seekable, "",
      "imagefolder, csv, URI: rewrite JPEGs so that a crop decodes only its "
      "own "
      "rows. No "
      "pixel changes; progressive JPEGs become sequential, camera data and "
      "thumbnails are removed, and the fingerprint differs");
  int exit_code;
  if (!ParseOrLeave(flags, args, "pack", out, &exit_code)) return exit_code;
  const StopSignals signals;
  if (const absl::Status status = UsageError(options.Validate());
      !status.ok()) {
    return Report("pack", status);
  }
  return Report("pack", Pack(options, out));
}

}  // namespace millrace::data_tool
