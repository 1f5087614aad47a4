// millrace-data preview: a batch of a pipeline, before and after, as a contact
// sheet, and what was drawn for each of its samples.

#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/atomic_file.h"
#include "common/count_text.h"
#include "common/json_text.h"
#include "common/read_file.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/flag_hint.h"
#include "proto/output_names.h"
#include "proto/spec_text.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/png_encoder.h"
#include "server/data_tool/preview_batch.h"
#include "server/data_tool/report.h"
#include "server/data_tool/spec_datasets.h"
#include "server/operators/operators.h"
#include "server/plan/presets.h"
#include "server/plan/spec_limits.h"
#include "server/plan/transforms/transforms.h"
#include "server/storage/open.h"

namespace millrace {
namespace {

constexpr int64_t kMaxSamples = 1000;
constexpr int64_t kMinCell = 16;
constexpr int64_t kMaxCell = 1024;

struct Flags {
  std::vector<std::string> datasets;
  std::string preset;
  std::string pipeline;
  std::string outputs;
  std::string output;
  std::string field;
  std::string explain;  // "text" or "json"
  std::vector<std::string> operators;
  uint64_t epoch = 0;
  uint64_t step = 0;
  int64_t samples = 16;
  std::optional<uint64_t> seed;  // absent: the pipeline's
  int64_t batch_size = 0;  // 0: the pipeline's, or --samples
  int64_t cell = 192;
  int64_t columns = 0;
};

absl::Status CheckFlags(const Flags& flags, bool batch_size_given) {
  const auto invalid = [](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat(what...));
  };
  if (flags.datasets.empty()) {
    return invalid("--dataset=URI is missing, such as lmdb:/data/train");
  }
  if (flags.preset.empty() == flags.pipeline.empty()) {
    return invalid(
        "give one of --preset=NAME and --pipeline=FILE: they say what is done "
        "to the samples");
  }
  PipelineSpec unused;
  MR_RETURN_IF_ERROR(SelectOutputs(flags.outputs, unused));
  if (flags.output.empty() && flags.explain.empty()) {
    return invalid(
        "nothing to do: give --output=FILE.png for the pictures, --explain for "
        "the parameters, or both");
  }
  if (!flags.output.empty() &&
      !absl::EndsWithIgnoreCase(flags.output, ".png")) {
    return invalid("--output=", flags.output,
                   " does not end in .png, and the sheet is a PNG file: write "
                   "--output=FILE.png");
  }
  if (!flags.explain.empty() && flags.explain != "text" &&
      flags.explain != "json") {
    return invalid("--explain=", flags.explain,
                   " is neither text nor json: write --explain or "
                   "--explain=json");
  }
  if (flags.samples < 1 || flags.samples > kMaxSamples) {
    return invalid("--samples=", flags.samples, ": it is 1 .. ", kMaxSamples);
  }
  if (flags.cell < kMinCell || flags.cell > kMaxCell) {
    return invalid("--cell=", flags.cell, ": it is ", kMinCell, " .. ",
                   kMaxCell, " pixels");
  }
  if (flags.columns < 0 || flags.columns > kMaxSamples) {
    return invalid("--columns=", flags.columns, ": it is 0 .. ", kMaxSamples);
  }
  if (batch_size_given &&
      (flags.batch_size < 1 ||
       flags.batch_size > static_cast<int64_t>(kMaxBatchSize))) {
    return invalid("--batch_size=", flags.batch_size, ": it is 1 .. ",
                   kMaxBatchSize);
  }
  if (!flags.preset.empty()) {
    MR_RETURN_IF_ERROR(CheckPresetName(flags.preset));
  }
  return absl::OkStatus();
}

absl::StatusOr<PipelineSpec> ReadSpec(const Flags& flags) {
  PipelineSpec spec;
  if (!flags.pipeline.empty()) {
    MR_ASSIGN_OR_RETURN(const std::string text,
                        UsageError(ReadFile(flags.pipeline, kMaxTextFileBytes,
                                            "the pipeline")));
    MR_ASSIGN_OR_RETURN(spec, UsageError(ParseSpecText(text, flags.pipeline)));
  } else {
    spec.set_preset(flags.preset);
  }
  MR_RETURN_IF_ERROR(SelectOutputs(flags.outputs, spec));
  if (flags.seed.has_value()) spec.set_seed(*flags.seed);
  if (flags.batch_size > 0) {
    spec.set_batch_size(static_cast<uint64_t>(flags.batch_size));
  }
  return spec;
}

// What was drawn, gathered by row.
class DrawnLog final : public ParameterLog {
 public:
  struct Drawn {
    std::string field;  // empty: of the batch
    uint32_t place;
    std::string what;
  };
  struct Sample {
    uint32_t source;
    int64_t index;
    uint64_t key;
    std::vector<Drawn> drawn;
  };

  void BeginSource(uint32_t source) override { source_ = source; }
  void BeginSample(int64_t index, uint64_t key) override {
    samples_.push_back({source_, index, key, {}});
    field_.clear();
  }
  void BeginField(const std::string& field) override { field_ = field; }
  void Add(uint32_t place, std::string what) override {
    auto& list = samples_.empty() ? batch_ : samples_.back().drawn;
    // Of a field in the order of the transforms, which is not always that in
    // which stages draw: geometry comes first.
    auto at = list.end();
    while (at != list.begin() && std::prev(at)->field == field_ &&
           std::prev(at)->place > place) {
      --at;
    }
    list.insert(at, {field_, place, std::move(what)});
  }

  const std::vector<Drawn>& batch() const { return batch_; }
  const std::vector<Sample>& samples() const { return samples_; }

 private:
  uint32_t source_ = 0;
  std::string field_;
  std::vector<Drawn> batch_;
  std::vector<Sample> samples_;
};

std::string Where(const PipelineSpec& spec, const DrawnLog::Drawn& drawn) {
  const int place = static_cast<int>(drawn.place);
  return absl::StrCat("transforms[", place, "].",
                      place < spec.transforms_size()
                          ? TransformName(spec.transforms(place))
                          : "?");
}

std::string DrawnJson(const PipelineSpec& spec,
                      const std::vector<DrawnLog::Drawn>& list) {
  return absl::StrCat(
      "[",
      absl::StrJoin(list, ", ",
                    [&](std::string* out, const DrawnLog::Drawn& drawn) {
                      const int place = static_cast<int>(drawn.place);
                      absl::StrAppend(
                          out, "{\"place\": ", place, ", \"transform\": ",
                          JsonText(place < spec.transforms_size()
                                       ? TransformName(spec.transforms(place))
                                       : ""),
                          drawn.field.empty()
                              ? ""
                              : absl::StrCat(", \"field\": ",
                                             JsonText(drawn.field)),
                          ", \"drawn\": ", JsonText(drawn.what), "}");
                    }),
      "]");
}

// Samples that stand in the rows shown, in their order. A bad one that was
// replaced comes before what took its place and has no row.
void PrintExplanation(const Flags& flags, const PreviewBatch& batch,
                      const DrawnLog& log, std::ostream& out) {
  const PipelineSpec& spec = batch.resolved_spec();
  const bool json = flags.explain == "json";
  const std::string digest = absl::StrFormat("%016x", batch.payload_xxh3());
  if (json) {
    out << "{\"epoch\": " << flags.epoch << ", \"step\": " << flags.step
        << ", \"seed\": " << spec.seed()
        << ", \"batch_size\": " << spec.batch_size()
        << ", \"payload_xxh3\": " << JsonText(digest)
        << ", \"drawn\": " << DrawnJson(spec, log.batch()) << "}\n";
  } else {
    out << "epoch " << flags.epoch << ", step " << flags.step << " of "
        << batch.steps_per_epoch() << ", seed " << spec.seed() << ", batch of "
        << spec.batch_size() << ", payload xxh3 " << digest << "\n";
    for (const DrawnLog::Drawn& drawn : log.batch()) {
      out << "  " << Where(spec, drawn) << ": " << drawn.what << "\n";
    }
  }
  int64_t row = 0;
  const auto skip_padding = [&] {
    while (row < batch.rows() && batch.sample_index(row) < 0) ++row;
  };
  for (const DrawnLog::Sample& sample : log.samples()) {
    skip_padding();
    if (row == batch.rows()) break;
    const bool here = batch.sample_index(row) == sample.index &&
                      batch.source(row) == static_cast<int32_t>(sample.source);
    const bool several = spec.sources_size() > 1;
    const bool empty = here && !batch.valid(row);
    const std::string label = here && !empty ? batch.label(row) : "";
    const std::string key = absl::StrFormat("%016x", sample.key);
    if (json) {
      out << "{\"row\": " << (here ? absl::StrCat(row) : "null")
          << (several ? absl::StrCat(", \"source\": ", sample.source) : "")
          << ", \"sample\": " << sample.index << ", \"key\": " << JsonText(key)
          << (empty ? ", \"left_empty\": true" : "")
          << ", \"label\": " << JsonText(label)
          << ", \"drawn\": " << DrawnJson(spec, sample.drawn) << "}\n";
    } else {
      out << "row " << row << ": sample " << sample.index;
      if (several) {
        out << " of "
            << Readable(
                   spec.sources(static_cast<int>(sample.source)).dataset());
      }
      out << ", key " << key;
      if (!here) {
        out << ", damaged and replaced";
      } else if (empty) {
        out << ", damaged and left empty";
      } else if (!label.empty()) {
        out << ", label " << Readable(label);
      }
      out << "\n";
      for (const DrawnLog::Drawn& drawn : sample.drawn) {
        out << "  " << Where(spec, drawn) << " of " << Readable(drawn.field)
            << ": " << drawn.what << "\n";
      }
    }
    if (here) ++row;
  }
}

// `samples_given`: --samples is no default.
absl::Status Preview(const Flags& flags, bool samples_given,
                     std::ostream& out) {
  MR_ASSIGN_OR_RETURN(PipelineSpec spec, ReadSpec(flags));
  std::shared_ptr<const Operators> operators;
  if (!flags.operators.empty()) {
    MR_ASSIGN_OR_RETURN(operators,
                        UsageError(Operators::Load(flags.operators)));
  }
  OpenSourceOptions open;
  open.operators = operators.get();
  std::vector<std::shared_ptr<const RecordSource>> datasets;
  for (const std::string& uri : flags.datasets) {
    MR_ASSIGN_OR_RETURN(std::shared_ptr<const RecordSource> source,
                        OpenRecordSource(uri, open));
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
    // Without a batch size --samples stands for it.
    const std::string flag =
        flags.batch_size > 0 ? absl::StrCat("--batch_size=", flags.batch_size)
        : spec.batch_size() == 0 ? absl::StrCat("--samples=", flags.samples)
                                 : flags.pipeline;
    return WithOwnFlag(NamingFlag(made.status(), "batch_size", flag),
                       {"outputs"});
  }
  const std::unique_ptr<PreviewBatch>& batch = *made;
  const auto batch_size =
      static_cast<int64_t>(batch->resolved_spec().batch_size());
  if (samples_given && flags.samples > batch_size) {
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        "--samples=", flags.samples, " is more than the batch holds (",
        CountText(batch->resolved_spec().batch_size(), "sample"),
        "): give --samples=", batch_size, " or less",
        spec.batch_size() > 0 ? ", or a larger --batch_size" : "")));
  }
  if (!flags.explain.empty()) {
    DrawnLog log;
    MR_RETURN_IF_ERROR(batch->Explain(log));
    PrintExplanation(flags, *batch, log, out);
  }
  if (flags.output.empty()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const std::vector<SheetPair> pairs, batch->Pairs());
  SheetOptions sheet_options;
  sheet_options.cell = options.cell;
  sheet_options.columns = static_cast<int>(flags.columns);
  const RgbImage sheet = DrawContactSheet(pairs, sheet_options);
  std::string png;
  MR_RETURN_IF_ERROR(
      EncodePng(sheet.bytes(), sheet.height(), sheet.width(), 3, &png));
  MR_RETURN_IF_ERROR(
      WriteFileAtomically(flags.output, png, Lasts::kThroughCrash));
  std::cerr << "millrace-data preview: wrote " << Readable(flags.output) << ", "
            << sheet.width() << " x " << sheet.height() << " pixels, "
            << pairs.size() << " of "
            << CountText(batch->resolved_spec().batch_size(), "sample")
            << " of step " << flags.step << std::endl;
  return absl::OkStatus();
}

}  // namespace

int RunPreview(const Args& args, std::ostream& out) {
  Flags given;
  FlagSet flags(
      {.command = "millrace-data preview",
       .summary = "Shows a batch as training gets it: each sample as it is "
                  "stored, and what the pipeline makes of it. Masks are laid "
                  "over the images, boxes drawn.",
       .examples = {"millrace-data preview --dataset=parquet:/data/photos \\\n"
                    "      --preset=imagenet_train --output=sheet.png",
                    "millrace-data preview --dataset=lmdb:/data/train \\\n"
                    "      --pipeline=my.textproto --samples=4 --explain"}});
  flags.Group("Which batch");
  flags.Add("dataset", &given.datasets, "URI",
            "Dataset, lmdb:PATH or parquet:PATH; of a mixture once for each "
            "dataset that the pipeline names, in their order");
  flags.Add("preset", &given.preset, "NAME", "Pipeline by name");
  flags.Add("pipeline", &given.pipeline, "FILE",
            "Pipeline from a file (docs/transforms.md); the name of a single "
            "dataset does not matter");
  flags
      .Add("outputs", &given.outputs, "FIELD,...",
           "Fields of the dataset that become tensors")
      .Default("those that the pipeline file lists, else all");
  flags.Add("epoch", &given.epoch, "N", "Epoch, from 0");
  flags.Add("step", &given.step, "N", "Step of the epoch, from 0");
  flags
      .Add("batch_size", &given.batch_size, "N",
           "Samples of a global batch, instead of the file's batch_size")
      .Default("the file's, else --samples, or all there are");
  flags
      .Add("seed", &given.seed, "N",
           "Seed of the order and of every random choice")
      .Default("0, or what the pipeline file says");
  flags.Add("operators", &given.operators, "FILE.so",
            "Library of operators that the pipeline or the dataset needs; may "
            "be repeated");
  flags.Group("What to show");
  flags.Add("output", &given.output, "FILE.png", "File for the contact sheet");
  flags
      .Add("explain", &given.explain, "json",
           "Print what was drawn at random for each sample, as text or as JSON "
           "lines")
      .Bare("text");
  flags
      .Add("samples", &given.samples, "N",
           "Samples to show, the first of the batch")
      .Default("16, or all of a smaller batch");
  flags.Add("field", &given.field, "NAME", "Image to show")
      .Default("the first output")
      .Needs({"output"});
  flags.Add("cell", &given.cell, "PIXELS", "Upper bound of a picture's side")
      .Needs({"output"});
  flags
      .Add("columns", &given.columns, "N",
           "Pairs in a row; 0: as many as 1200 pixels hold")
      .Needs({"output"});
  int exit_code;
  if (!ParseOrLeave(flags, args, "preview", out, &exit_code)) return exit_code;
  const absl::Status checked =
      UsageError(CheckFlags(given, flags.Given("batch_size")));
  if (!checked.ok()) return Report("preview", checked);
  return Report("preview", Preview(given, flags.Given("samples"), out));
}

}  // namespace millrace
