// millrace-data pack: converts original files to a dataset.

#include <google/protobuf/text_format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/atomic_file.h"
#include "common/cgroup.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/read_file.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/usage_error.h"
#include "common/write_target.h"
#include "proto/spec_text.h"
#include "server/data_tool/applying_reader.h"
#include "server/data_tool/checking_reader.h"
#include "server/data_tool/cifar_dataset.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/csv_dataset.h"
#include "server/data_tool/idx_dataset.h"
#include "server/data_tool/image_folder.h"
#include "server/data_tool/input_hashes.h"
#include "server/data_tool/pack_options.h"
#include "server/data_tool/pipeline_beginning.h"
#include "server/data_tool/progress.h"
#include "server/data_tool/report.h"
#include "server/data_tool/seekable_reader.h"
#include "server/data_tool/shrinking_reader.h"
#include "server/data_tool/stored_dataset.h"
#include "server/operators/operators.h"
#include "server/storage/dataset_writer.h"

namespace millrace::data_tool {
namespace {

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

// `check`: decodes all images.
absl::StatusOr<std::unique_ptr<SampleReader>> OpenInput(
    const PackOptions& options, bool check,
    const operators::Operators& operators) {
  const uint32_t decode_threads = check ? AvailableCpus() : 0;
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

absl::StatusOr<PipelineSpec> ReadPipeline(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, kMaxTextFileBytes, "the pipeline"));
  return ParseSpecText(text, path);
}

// The file of --remainder is written last, after a packing that may take hours.
absl::Status CheckRemainder(const PackOptions& options) {
  const std::string& path = options.remainder;
  if (path.empty() || IsSpecialFile(path)) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const std::string target, RealPath(path));
  const auto exists = [&path](auto... what) {
    return UsageError(
        absl::AlreadyExistsError(absl::StrCat("--remainder=", path, what...)));
  };
  MR_ASSIGN_OR_RETURN(const std::string applied, RealPath(options.apply));
  if (target == applied) {
    return exists(" is the file of --apply: name another file");
  }
  const size_t scheme = options.output.find(':') + 1;
  MR_ASSIGN_OR_RETURN(const std::string output,
                      RealPath(options.output.substr(scheme)));
  if (target == output) return exists(" is --output: name another file");
  struct stat info;
  if (stat(target.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return exists(" is a folder: name a file");
    if (!options.overwrite) {
      return exists(
          " exists already; set --overwrite to replace it, or name another "
          "file");
    }
    if (!ReadPipeline(path).ok()) {
      return exists(
          " is not a pipeline, so --overwrite does not replace it; remove it "
          "yourself or name another file");
    }
  }
  const std::string folder = FolderOf(target);
  return access(folder.c_str(), W_OK | X_OK) == 0
             ? absl::OkStatus()
             : FileError(errno, "write into folder", folder);
}

// What the flags do to the samples, from the input to the output.
struct Conversions {
  std::unique_ptr<SampleReader> reader;
  // Parts of the reader; null: the flag is not given.
  const ShrinkingReader* shrinking = nullptr;
  const SeekableReader* seekable = nullptr;
  // Lines of DatasetInfo::prepared.
  std::vector<std::string> prepared;
  std::optional<PipelineBeginning> beginning;
};

absl::Status Apply(const PackOptions& options, const PipelineSpec& pipeline,
                   const operators::Operators& operators, Conversions& to) {
  absl::StatusOr<PipelineBeginning> beginning =
      DividePipeline(pipeline, to.reader->description(), options.stored_as());
  if (!beginning.ok()) {
    return UsageError(absl::Status(
        beginning.status().code(),
        absl::StrCat(options.apply, ": ", beginning.status().message())));
  }
  if (!beginning->ends_at.empty() && options.remainder.empty()) {
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        options.apply, ": ", beginning->ends_at,
        ", so the pipeline cannot be applied as a whole; end the file before "
        "it, or set --remainder=FILE to apply what is before it and to write "
        "the pipeline for training to FILE")));
  }
  ApplyOptions apply;
  apply.applied = beginning->applied;
  apply.stored_as = options.stored_as();
  apply.quality = options.jpeg_quality();
  apply.threads = AvailableCpus();
  apply.operators = &operators;
  absl::StatusOr<std::unique_ptr<SampleReader>> applying =
      MakeApplying(std::move(to.reader), apply);
  if (!applying.ok()) {
    return UsageError(absl::Status(
        applying.status().code(),
        absl::StrCat(options.apply, ": ", applying.status().message())));
  }
  to.reader = *std::move(applying);
  to.prepared.push_back(
      AppliedLine(beginning->applied, apply.stored_as, apply.quality));
  to.beginning = *std::move(beginning);
  return absl::OkStatus();
}

absl::StatusOr<Conversions> Convert(const PackOptions& options,
                                    const std::optional<PipelineSpec>& pipeline,
                                    std::unique_ptr<SampleReader> input,
                                    const operators::Operators& operators) {
  Conversions to;
  for (const std::string& line : input->description().prepared()) {
    to.prepared.push_back(line);
  }
  to.reader = std::move(input);
  if (pipeline.has_value()) {
    MR_RETURN_IF_ERROR(Apply(options, *pipeline, operators, to));
  }
  if (options.shrinks()) {
    const ShrinkOptions shrink = {.max_side = options.max_side,
                                  .quality = options.jpeg_quality(),
                                  .threads = AvailableCpus(),
                                  .operators = &operators};
    MR_ASSIGN_OR_RETURN(auto shrinking,
                        MakeShrinking(std::move(to.reader), shrink));
    to.shrinking = shrinking.get();
    to.reader = std::move(shrinking);
    to.prepared.push_back(ShrinkLine(shrink));
  }
  if (options.seekable) {
    auto rewriting =
        MakeSeekable(std::move(to.reader), AvailableCpus(), &operators);
    to.seekable = rewriting.get();
    to.reader = std::move(rewriting);
    to.prepared.push_back("JPEGs made seekable");
  }
  return to;
}

// `status` of a packing that ends before its time. What is worth going on with
// is kept where the user can go on: after a signal, when the disk is full, and
// when an image is to be repaired.
absl::Status Interrupted(absl::Status status, storage::DatasetWriter& writer) {
  const bool cancelled = absl::IsCancelled(status);
  // A damaged image of a packing that goes on is found after finished shards.
  const bool damaged = absl::IsDataLoss(status) && writer.kept_samples() > 0;
  if (!cancelled && !absl::IsResourceExhausted(status) && !damaged) {
    return status;
  }
  const int64_t kept = writer.KeepFinishedShards();
  if (kept == 0) {
    return cancelled
               ? absl::CancelledError(absl::StrCat(
                     status.message(), "; the incomplete output is removed"))
               : status;
  }
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "; the finished shards with ",
                   CountText(kept, "sample"),
                   " are kept: the same command goes on with them"));
}

// Reads, converts and writes all samples.
absl::Status Write(Conversions& from, InputHashes& hashes,
                   storage::DatasetWriter& writer, int64_t* bytes) {
  const int64_t samples = from.reader->description().samples();
  const int64_t kept = writer.kept_samples();
  ToolProgress progress("packing", samples);
  const auto stopped = [&](int64_t done) {
    return StopSignals::signal() == 0 ? absl::OkStatus()
                                      : absl::CancelledError(absl::StrCat(
                                            "interrupted after ", done, " of ",
                                            CountText(samples, "sample")));
  };
  int64_t done = 0;
  MR_RETURN_IF_ERROR(
      hashes.Skip(kept, [&](storage::Hash128 hash) -> absl::Status {
        MR_RETURN_IF_ERROR(stopped(done));
        MR_RETURN_IF_ERROR(writer.Confirm(hash));
        progress.Update(++done, 0);
        return absl::OkStatus();
      }));
  SampleReader::Sample sample;
  while (done < samples) {
    MR_RETURN_IF_ERROR(stopped(done));
    MR_RETURN_IF_ERROR(from.reader->Next(&sample));
    MR_RETURN_IF_ERROR(
        writer.Append(sample.fields, sample.origin, hashes.Take()));
    for (const auto& field : sample.fields) *bytes += field.size();
    progress.Update(++done, *bytes);
  }
  return absl::OkStatus();
}

storage::DatasetWriter::Options OutputOf(const PackOptions& options) {
  return {.shards = options.shards,
          .shard_bytes = options.shard_bytes,
          .overwrite = options.overwrite,
          .resume = true,
          // The images of the finished shards must have been checked.
          .resume_flags = options.no_decode ? "no_decode" : ""};
}

// What a packing begins with.
struct Beginning {
  std::optional<PipelineSpec> pipeline;  // of --apply
  // False: go on with an interrupted packing, whose images have been checked.
  // The others are checked when they are read.
  bool check_all = true;
};

// `*again` is set if the interrupted packing does not fit: nothing is left of
// it then, and packing begins again with check_all.
absl::Status PackOnce(const PackOptions& options, const Beginning& beginning,
                      const operators::Operators& operators, std::ostream& out,
                      bool* again) {
  const absl::Time start = absl::Now();
  const storage::DatasetWriter::Options output = OutputOf(options);
  // Checked before the input is scanned, which takes long.
  MR_RETURN_IF_ERROR(CheckOutput(options, output));
  const bool check = !options.no_decode && options.has_files();
  MR_ASSIGN_OR_RETURN(
      auto input, OpenInput(options, check && beginning.check_all, operators));
  const bool has_images = HasImages(input->description());
  InputHashes hashes;
  input = hashes.Over(std::move(input));
  if (check && !beginning.check_all) {
    input = MakeChecking(std::move(input), AvailableCpus(), &operators);
  }
  MR_ASSIGN_OR_RETURN(
      Conversions conversions,
      Convert(options, beginning.pipeline, std::move(input), operators));
  DatasetInfo description = conversions.reader->description();
  description.clear_prepared();
  for (const std::string& line : conversions.prepared) {
    description.add_prepared(line);
  }
  MR_ASSIGN_OR_RETURN(auto writer, storage::DatasetWriter::Create(
                                       options.output, description, output));
  const int64_t kept = writer->kept_samples();
  if (kept == 0 && !beginning.check_all) {
    *again = true;
    return absl::OkStatus();
  }
  int64_t bytes = 0;
  const absl::Status written = Write(conversions, hashes, *writer, &bytes);
  if (absl::IsFailedPrecondition(written) && kept > 0) *again = true;
  if (!written.ok()) return Interrupted(written, *writer);
  const auto finished = writer->Finish();
  if (!finished.ok()) return Interrupted(finished.status(), *writer);
  const DatasetInfo& info = *finished;
  Warn("pack", conversions.reader->Warnings());
  out << absl::StreamFormat(
      "packed %s (%s) into %s: %s, fingerprint %s, %.1f s\n",
      CountText(info.samples(), "sample"), SizeText(bytes),
      Readable(options.output), CountText(info.shards_size(), "shard"),
      info.fingerprint(), absl::ToDoubleSeconds(absl::Now() - start));
  if (kept > 0) {
    out << CountText(kept, "sample")
        << " were kept of an interrupted packing; sizes and counts are those "
           "of the others\n";
  }
  if (has_images && options.has_files()) {
    out << (options.no_decode
                ? "the images were not decoded (--no_decode): the server "
                  "reports a damaged image when it serves it\n"
                : "every image was decoded before it was packed\n");
  }
  if (conversions.shrinking != nullptr) {
    out << conversions.shrinking->Summary() << "\n";
  }
  if (conversions.seekable != nullptr) {
    out << conversions.seekable->Summary() << "\n";
  }
  if (!conversions.beginning.has_value()) return absl::OkStatus();
  const PipelineBeginning& applied = *conversions.beginning;
  out << "applied " << CountText(applied.applied.transforms_size(), "transform")
      << " of " << Readable(options.apply);
  if (!applied.ends_at.empty()) out << "; " << applied.ends_at;
  out << "\n";
  if (options.remainder.empty()) return absl::OkStatus();
  std::string text;
  google::protobuf::TextFormat::PrintToString(applied.remainder, &text);
  MR_RETURN_IF_ERROR(WriteFileAtomically(options.remainder, text));
  out << "wrote the pipeline for training to " << Readable(options.remainder)
      << "\n";
  return absl::OkStatus();
}

absl::Status Pack(const PackOptions& options, std::ostream& out) {
  MR_ASSIGN_OR_RETURN(
      const std::shared_ptr<const operators::Operators> operators,
      UsageError(operators::Operators::Load(options.operators)));
  // Checked before the input is read, which takes long.
  MR_RETURN_IF_ERROR(CheckRemainder(options));
  Beginning beginning;
  if (!options.apply.empty()) {
    MR_ASSIGN_OR_RETURN(beginning.pipeline,
                        UsageError(ReadPipeline(options.apply)));
  }
  MR_RETURN_IF_ERROR(CheckInput(options));
  // With --skip_bad, the check decides which samples there are.
  beginning.check_all =
      options.skip_bad || storage::DatasetWriter::InterruptedSamples(
                              options.output, OutputOf(options)) == 0;
  bool again = false;
  const absl::Status status =
      PackOnce(options, beginning, *operators, out, &again);
  if (!again) return status;
  if (!status.ok()) {
    Warn("pack", {absl::StrCat(status.message(), "; packing starts anew")});
  }
  beginning.check_all = true;
  return PackOnce(options, beginning, *operators, out, &again);
}

}  // namespace

int RunPack(const std::vector<std::string>& args, std::ostream& out) {
  PackOptions options;
  program::FlagSet flags(
      {.command = "millrace-data pack",
       .summary =
           "Packs original files, or a dataset of another format, into a "
           "dataset that millrace-server reads. The output appears under its "
           "name only when it is complete. A packing that was interrupted goes "
           "on with its finished shards when the same command is given "
           "again.\n\nWithout --format, --input is "
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
  flags
      .Add("shard_bytes", program::FlagSet::Bytes{&options.shard_bytes}, "SIZE",
           "Maximum size of the samples in a file, such as 1GiB; a larger "
           "sample has a file of its own. At most 10000 files. Not with "
           "--shards")
      .Default("files are cut by --shards");
  flags.Add("overwrite", &options.overwrite, "",
            "Replace an existing dataset, and an existing pipeline file of "
            "--remainder");
  flags
      .Add("max_side", &options.max_side, "N",
           "imagefolder, csv, URI: maximum of the LONGER side of an image in "
           "pixels. A larger image is decoded, resized so that its longer side "
           "is N (antialiased, in proportion), and stored as JPEG. Images that "
           "fit stay as they are, byte for byte. 0: images keep their size")
      .Default("0");
  flags
      .Add("quality", &options.quality, "Q",
           "Quality of the JPEGs that --max_side and --apply_as=jpeg make, 1 "
           "to 100. Without these flags: every image is decoded and stored "
           "again as JPEG of quality Q, in its size")
      .Default("90");
  flags.Add("apply", &options.apply, "FILE.textproto",
            "imagefolder, csv, URI: pipeline whose deterministic transforms "
            "(decode_image, resize, center_crop, pad, flips and grayscale with "
            "p of 0 or 1) are computed now, once. A pipeline with another "
            "transform is refused without --remainder");
  flags
      .Add("apply_as", &options.apply_as, "png|jpeg|tensor",
           "What --apply stores: PNG files (no loss), JPEG files of --quality, "
           "or pixels, uint8 [height, width, channels] (no loss; all images "
           "must have one size)")
      .Choice()
      .Default("png")
      .Needs({"apply"});
  flags
      .Add("remainder", &options.remainder, "FILE.textproto",
           "File to write the pipeline to that training uses on the output of "
           "--apply: the transforms from the first one that cannot be computed "
           "once")
      .Needs({"apply"});
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
