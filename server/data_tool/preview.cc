// millrace-data preview: shows a batch of a pipeline as a contact sheet, before
// and after the transforms, and the values drawn for each sample.

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/atomic_file.h"
#include "common/count_text.h"
#include "common/json_text.h"
#include "common/output_file.h"
#include "common/picture/picture_renderer.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/bad_sample_hint.h"
#include "proto/flag_hint.h"
#include "proto/output_names.h"
#include "proto/spec_choices.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/explained_batch.h"
#include "server/data_tool/preview_batch.h"
#include "server/data_tool/preview_sheet.h"
#include "server/data_tool/report.h"
#include "server/data_tool/spec_datasets.h"
#include "server/operators/operators.h"
#include "server/plan/presets.h"
#include "server/plan/spec_limits.h"
#include "server/plan/transforms/transforms.h"
#include "server/storage/open.h"
#include "server/storage/schemes.h"

namespace millrace::data_tool {
namespace {

constexpr int64_t kMaxSamples = 1000;
constexpr int64_t kMinCell = 16;
constexpr int64_t kMaxCell = 1024;

struct Flags {
  std::vector<std::string> datasets;
  SpecChoices choices;
  std::string output;
  std::string field;
  std::string explain;  // "text" or "json"
  std::vector<std::string> operators;
  std::string cache_dir;
  uint64_t epoch = 0;
  uint64_t step = 0;
  int64_t samples = 16;
  int64_t batch_size = 0;  // 0: the pipeline's, or --samples
  int64_t cell = 224;
  int64_t columns = 0;
};

absl::Status CheckFlags(const Flags& flags, bool batch_size_given) {
  const auto invalid = [](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat(what...));
  };
  if (flags.datasets.empty()) {
    return invalid("--dataset=URI is missing, such as lmdb:/data/train");
  }
  if (flags.choices.preset.empty() == flags.choices.pipeline.empty()) {
    return invalid(
        "set one of --preset=NAME and --pipeline=FILE, which define the "
        "transforms");
  }
  PipelineSpec unused;
  MR_RETURN_IF_ERROR(SelectOutputs(flags.choices.outputs, unused));
  if (flags.output.empty() && flags.explain.empty()) {
    return invalid(
        "nothing to do: set --output=FILE.png for the pictures, --explain for "
        "the random choices, or both");
  }
  if (!flags.output.empty()) {
    const auto format = picture::PictureFormatOf(flags.output);
    if (!format.ok()) return invalid("--output=", format.status().message());
    MR_RETURN_IF_ERROR(CheckOutputFile("--output", flags.output,
                                       *format == picture::PictureFormat::kPng
                                           ? OutputKind::kPng
                                           : OutputKind::kSvg));
  }
  if (!flags.explain.empty() && flags.explain != "text" &&
      flags.explain != "json") {
    return invalid("--explain=", flags.explain,
                   " is neither text nor json: write --explain or "
                   "--explain=json");
  }
  if (flags.samples < 1 || flags.samples > kMaxSamples) {
    return invalid("--samples=", flags.samples, ": it must be 1 .. ",
                   kMaxSamples);
  }
  if (flags.cell < kMinCell || flags.cell > kMaxCell) {
    return invalid("--cell=", flags.cell, ": it must be ", kMinCell, " .. ",
                   kMaxCell, " pixels");
  }
  if (flags.columns < 0 || flags.columns > kMaxSamples) {
    return invalid("--columns=", flags.columns, ": it must be 0 .. ",
                   kMaxSamples);
  }
  if (batch_size_given &&
      (flags.batch_size < 1 ||
       flags.batch_size > static_cast<int64_t>(plan::kMaxBatchSize))) {
    return invalid("--batch_size=", flags.batch_size, ": it must be 1 .. ",
                   plan::kMaxBatchSize);
  }
  if (!flags.choices.preset.empty()) {
    MR_RETURN_IF_ERROR(plan::CheckPresetName(flags.choices.preset));
  }
  return absl::OkStatus();
}

absl::StatusOr<PipelineSpec> ReadSpec(const Flags& flags) {
  SpecChoices choices = flags.choices;
  if (flags.batch_size > 0) {
    choices.batch_size = static_cast<uint64_t>(flags.batch_size);
  }
  // CheckFlags() requires a pipeline or a preset.
  MR_ASSIGN_OR_RETURN(PipelineSpec spec, choices.Start([] { return ""; }));
  // Without a batch size, --samples replaces it.
  MR_RETURN_IF_ERROR(choices.Replace(
      {.pipeline = choices.pipeline, .default_batch_size = 0}, spec));
  return spec;
}

std::string NameOf(const PipelineSpec& spec, const DrawnValues& drawn) {
  return plan::TransformName(spec.transforms(static_cast<int>(drawn.place)));
}

std::string Where(const PipelineSpec& spec, const DrawnValues& drawn) {
  return absl::StrCat("transforms[", drawn.place, "].", NameOf(spec, drawn));
}

std::string DrawnJson(const PipelineSpec& spec,
                      const std::vector<DrawnValues>& list) {
  return JsonList(list, [&spec](const DrawnValues& drawn) {
    JsonObject json;
    json.Add("place", drawn.place).Add("transform", NameOf(spec, drawn));
    if (!drawn.field.empty()) json.Add("field", drawn.field);
    return json.Add("drawn", drawn.what).Json();
  });
}

std::string HexOf(uint64_t value) { return absl::StrFormat("%016x", value); }

// The label of a sample that is shown; "": it is not in the batch, or its row
// is left empty.
std::string LabelOf(const PreviewBatch& batch, const ExplainedSample& sample) {
  return sample.here && batch.valid(sample.row) ? batch.label(sample.row) : "";
}

void PrintJsonLines(const Flags& flags, const PreviewBatch& batch,
                    const ExplainedBatch& explained, std::ostream& out) {
  const PipelineSpec& spec = batch.resolved_spec();
  out << JsonObject()
             .Add("epoch", flags.epoch)
             .Add("step", flags.step)
             .Add("seed", spec.seed())
             .Add("batch_size", spec.batch_size())
             .Add("payload_xxh3", HexOf(batch.payload_xxh3()))
             .AddJson("drawn", DrawnJson(spec, explained.drawn))
             .Json()
      << "\n";
  for (const ExplainedSample& sample : explained.samples) {
    JsonObject json;
    json.AddJson("row", sample.here ? JsonOf(sample.row) : "null");
    if (spec.sources_size() > 1) json.Add("source", sample.source);
    json.Add("sample", sample.index).Add("key", HexOf(sample.key));
    if (sample.here && !batch.valid(sample.row)) json.Add("left_empty", true);
    json.Add("label", LabelOf(batch, sample))
        .AddJson("drawn", DrawnJson(spec, sample.drawn));
    out << json.Json() << "\n";
  }
}

void PrintText(const Flags& flags, const PreviewBatch& batch,
               const ExplainedBatch& explained, std::ostream& out) {
  const PipelineSpec& spec = batch.resolved_spec();
  out << "epoch " << flags.epoch << ", step " << flags.step << " of "
      << batch.steps_per_epoch() << ", seed " << spec.seed() << ", batch of "
      << spec.batch_size() << ", payload xxh3 " << HexOf(batch.payload_xxh3())
      << "\n";
  for (const DrawnValues& drawn : explained.drawn) {
    out << "  " << Where(spec, drawn) << ": " << drawn.what << "\n";
  }
  for (const ExplainedSample& sample : explained.samples) {
    out << "row " << sample.row << ": sample " << sample.index;
    if (spec.sources_size() > 1) {
      out << " of "
          << Readable(spec.sources(static_cast<int>(sample.source)).dataset());
    }
    out << ", key " << HexOf(sample.key);
    if (!sample.here) {
      out << ", damaged and replaced";
    } else if (!batch.valid(sample.row)) {
      out << ", damaged and left empty";
    } else if (const std::string label = LabelOf(batch, sample);
               !label.empty()) {
      out << ", label " << Readable(label);
    }
    out << "\n";
    for (const DrawnValues& drawn : sample.drawn) {
      out << "  " << Where(spec, drawn) << " of " << Readable(drawn.field)
          << ": " << drawn.what << "\n";
    }
  }
}

std::string PipelineName(const Flags& flags) {
  return flags.choices.pipeline.empty()
             ? absl::StrCat("preset ", flags.choices.preset)
             : std::filesystem::path(flags.choices.pipeline)
                   .filename()
                   .string();
}

absl::Status WriteSheet(const Flags& flags, const PreviewBatch& batch,
                        const ExplainedBatch& explained,
                        const picture::PictureRenderer& renderer) {
  PreviewFacts facts;
  facts.pipeline = PipelineName(flags);
  facts.epoch = static_cast<uint64_t>(flags.epoch);
  facts.step = static_cast<uint64_t>(flags.step);
  SheetOptions options;
  options.cell = static_cast<int>(flags.cell);
  options.columns = static_cast<int>(flags.columns);
  MR_ASSIGN_OR_RETURN(const picture::Picture sheet,
                      PreviewSheet(batch, explained, facts, options));
  MR_ASSIGN_OR_RETURN(const picture::PictureFormat format,
                      picture::PictureFormatOf(flags.output));
  const auto file = renderer.Render(sheet, format);
  if (absl::IsInvalidArgument(file.status())) {
    return UsageError(absl::InvalidArgumentError(
        absl::StrCat(file.status().message(),
                     ": lower --samples or --cell, or change --columns")));
  }
  MR_RETURN_IF_ERROR(file.status());
  MR_RETURN_IF_ERROR(
      WriteFileAtomically(flags.output, *file, Lasts::kThroughCrash));
  std::cerr << "millrace-data preview: wrote " << Readable(flags.output) << ", "
            << sheet.width << " x " << sheet.height << " pixels, "
            << batch.rows() << " of "
            << CountText(batch.resolved_spec().batch_size(), "sample")
            << " of step " << flags.step << std::endl;
  return absl::OkStatus();
}

// `samples_given`: the command line has --samples.
absl::Status Preview(const Flags& flags, bool samples_given,
                     std::ostream& out) {
  MR_ASSIGN_OR_RETURN(PipelineSpec spec, ReadSpec(flags));
  std::optional<picture::PictureRenderer> renderer;
  if (!flags.output.empty()) {
    MR_ASSIGN_OR_RETURN(renderer, picture::PictureRenderer::Load(
                                      picture::PictureRenderer::Paths()));
  }
  std::shared_ptr<const operators::Operators> operators;
  if (!flags.operators.empty()) {
    MR_ASSIGN_OR_RETURN(
        operators, UsageError(operators::Operators::Load(flags.operators)));
  }
  storage::OpenSourceOptions open;
  open.operators = operators.get();
  open.cache_dir = flags.cache_dir;
  std::vector<std::shared_ptr<const storage::RecordSource>> datasets;
  for (const std::string& uri : flags.datasets) {
    MR_ASSIGN_OR_RETURN(std::shared_ptr<const storage::RecordSource> source,
                        storage::OpenRecordSource(uri, open));
    datasets.push_back(std::move(source));
  }
  NameSource(flags.datasets[0], spec);
  PreviewOptions options;
  options.epoch = flags.epoch;
  options.step = flags.step;
  options.samples = flags.samples;
  options.cell = static_cast<int>(flags.cell);
  options.field = flags.field;
  options.operators = operators.get();
  const auto made = PreviewBatch::Make(std::move(datasets), spec, options);
  if (!made.ok()) {
    const std::string flag =
        flags.batch_size > 0 ? absl::StrCat("--batch_size=", flags.batch_size)
        : spec.batch_size() == 0 ? absl::StrCat("--samples=", flags.samples)
                                 : flags.choices.pipeline;
    return WithOwnFlag(NamingFlag(made.status(), "batch_size", flag),
                       {"outputs"});
  }
  const std::unique_ptr<PreviewBatch>& batch = *made;
  const auto batch_size =
      static_cast<int64_t>(batch->resolved_spec().batch_size());
  if (samples_given && flags.samples > batch_size) {
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        "--samples=", flags.samples, " exceeds the batch (",
        CountText(batch->resolved_spec().batch_size(), "sample"),
        "): set --samples=", batch_size, " or less",
        spec.batch_size() > 0 ? ", or a larger --batch_size" : "")));
  }
  MR_ASSIGN_OR_RETURN(const ExplainedBatch explained, ExplainRows(*batch));
  if (flags.explain == "json") {
    PrintJsonLines(flags, *batch, explained, out);
  } else if (!flags.explain.empty()) {
    PrintText(flags, *batch, explained, out);
  }
  return renderer ? WriteSheet(flags, *batch, explained, *renderer)
                  : absl::OkStatus();
}

}  // namespace

int RunPreview(const std::vector<std::string>& args, std::ostream& out) {
  Flags given;
  program::FlagSet flags(
      {.command = "millrace-data preview",
       .summary =
           "Shows a batch as the training program receives it: each sample as "
           "stored, the sample after the pipeline, and the random choices for "
           "it. Masks are drawn over the images, boxes and crops as frames.",
       .examples = {"millrace-data preview --dataset=parquet:/data/photos \\\n"
                    "      --preset=imagenet_train --output=sheet.png",
                    "millrace-data preview --dataset=lmdb:/data/train \\\n"
                    "      --pipeline=my.textproto --samples=4 --explain"}});
  flags.Group("Batch");
  flags.Add(
      "dataset", &given.datasets, "URI",
      absl::StrCat("Dataset, ", storage::SchemesText("PATH"),
                   "; for a mixture repeat the flag, once for each dataset of "
                   "the pipeline, in the pipeline's order"));
  flags.Add("preset", &given.choices.preset, "NAME",
            "Name of a preset pipeline");
  flags.Add("pipeline", &given.choices.pipeline, "FILE",
            "File of a pipeline (docs/transforms.md); if it names one dataset, "
            "--dataset replaces that name");
  flags
      .Add("outputs", &given.choices.outputs, "FIELD,...",
           "Fields of the dataset that become tensors")
      .Default("the outputs of the pipeline file, otherwise all fields");
  flags.Add("epoch", &given.epoch, "N", "Epoch, from 0");
  flags.Add("step", &given.step, "N", "Step of the epoch, from 0");
  flags
      .Add("batch_size", &given.batch_size, "N",
           "Number of samples in a global batch; overrides the file's "
           "batch_size")
      .Default(
          "the file's batch_size, otherwise --samples, or all samples of a "
          "smaller dataset");
  flags
      .Add("seed", &given.choices.seed, "N",
           "Seed of the order and of all random choices")
      .Default("the file's seed, otherwise 0");
  flags.Add("operators", &given.operators, "FILE.so",
            "Library of operators that the pipeline or the dataset needs; may "
            "be repeated");
  AddCacheDirFlag(flags, &given.cache_dir);
  flags.Group("Output");
  flags.Add(
      "output", &given.output, "FILE.png|svg",
      "File to write the contact sheet to; its name ends in .png or .svg");
  flags
      .Add("explain", &given.explain, "json",
           "Print the random choices for each sample, as text or as JSON lines")
      .Bare("text");
  flags
      .Add("samples", &given.samples, "N",
           "Number of samples to show, from the start of the batch")
      .Default("16, or all samples of a smaller batch");
  flags.Add("field", &given.field, "NAME", "Name of the image output to show")
      .Default("the first image output")
      .Needs({"output"});
  flags
      .Add("cell", &given.cell, "PIXELS", "Maximum side of a picture in pixels")
      .Needs({"output"});
  flags
      .Add("columns", &given.columns, "N",
           "Number of picture pairs in a row; 0: as many as fit into 1200 "
           "pixels")
      .Needs({"output"});
  int exit_code;
  if (!ParseOrLeave(flags, args, "preview", out, &exit_code)) return exit_code;
  const absl::Status checked =
      UsageError(CheckFlags(given, flags.Given("batch_size")));
  if (!checked.ok()) return Report("preview", checked);
  return Report("preview",
                WithBadSampleHint(Preview(given, flags.Given("samples"), out)));
}

}  // namespace millrace::data_tool
