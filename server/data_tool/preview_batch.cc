#include "server/data_tool/preview_batch.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/byte_budget.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/element_at.h"
#include "server/data_tool/source_region.h"
#include "server/data_tool/spec_datasets.h"
#include "server/data_tool/tensor_pixels.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/row/explain.h"
#include "server/pipeline/stage/image_stage.h"
#include "server/plan/field_trace.h"
#include "server/plan/find_field.h"
#include "server/plan/image_field.h"

namespace millrace::data_tool {
namespace {

// Memory budget for a batch and its decoding; memory is used only when needed.
constexpr uint64_t kBudgetBytes = uint64_t{4} << 30;
constexpr uint32_t kThreads = 2;
// Smaller shares of a soft label are not shown.
constexpr double kSmallestShare = 0.005;
constexpr size_t kMaxShares = 3;

// Waits for the single batch of a run.
class OneBatch {
 public:
  pipeline::Engine::Callbacks callbacks() {
    return {[this](batch::FilledBatch batch) {
              MutexLock lock(mu_);
              batch_ = std::move(batch);
            },
            [this](absl::Status status) {
              MutexLock lock(mu_);
              status_ = std::move(status);
              done_ = true;
              changed_.NotifyAll();
            }};
  }

  absl::StatusOr<batch::FilledBatch> Await() {
    MutexLock lock(mu_);
    while (!done_) changed_.Wait(lock);
    MR_RETURN_IF_ERROR(status_);
    return std::move(batch_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  batch::FilledBatch batch_ MR_GUARDED_BY(mu_);
  absl::Status status_ MR_GUARDED_BY(mu_);
  bool done_ MR_GUARDED_BY(mu_) = false;
};

// Marks errors that another pipeline, epoch or step would avoid; not errors of
// the data or of this machine.
template <typename T>
absl::StatusOr<T> OfPipeline(absl::StatusOr<T> result) {
  switch (result.status().code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return UsageError(std::move(result));
    default:
      return result;
  }
}

// Distinguishable colours for class `index` of a mask and for box `index`.
picture::Rgb ClassColor(int index) {
  static constexpr picture::Rgb kColors[] = {
      {230, 25, 75},  {60, 180, 75},  {255, 225, 25}, {0, 130, 200},
      {245, 130, 48}, {145, 30, 180}, {70, 240, 240}, {240, 50, 230},
      {210, 245, 60}, {0, 128, 128},  {170, 110, 40}, {128, 0, 0},
      {0, 0, 128},    {128, 128, 0},  {255, 255, 255}};
  return kColors[index % std::size(kColors)];
}

// Mixes in half of the mask's colour where there is a class. Class 255, which
// loss functions usually ignore, is grey.
void Overlay(const picture::RgbImage& mask, picture::RgbImage& image) {
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) {
      const int index = mask.At(x, y).r;
      if (index == 0) continue;
      const picture::Rgb color =
          index == 255 ? picture::Rgb{128, 128, 128} : ClassColor(index - 1);
      const picture::Rgb below = image.At(x, y);
      image.Set(x, y,
                {static_cast<uint8_t>((below.r + color.r) / 2),
                 static_cast<uint8_t>((below.g + color.g) / 2),
                 static_cast<uint8_t>((below.b + color.b) / 2)});
    }
  }
}

// `corners` are left, top, right and bottom of each box, in pixels; `x` and `y`
// scale them to pixels of the picture.
std::vector<SheetBox> BoxesOf(const std::vector<double>& corners, double x,
                              double y) {
  std::vector<SheetBox> boxes;
  for (size_t i = 0; i + 4 <= corners.size(); i += 4) {
    const double* b = &corners[i];
    if (!(b[2] > b[0] && b[3] > b[1])) continue;  // padding, or invisible
    boxes.push_back({b[0] * x, b[1] * y, b[2] * x, b[3] * y,
                     ClassColor(static_cast<int>(i / 4))});
  }
  return boxes;
}

std::string SizeText(absl::string_view what, int64_t width, int64_t height) {
  return absl::StrCat(what, ": ", width, " x ", height);
}

uint64_t BudgetFor(
    const std::vector<std::shared_ptr<const storage::RecordSource>>& datasets) {
  uint64_t bytes = kBudgetBytes;
  for (const auto& dataset : datasets) bytes += dataset->metadata_bytes();
  return bytes;
}

class PreviewBatchImpl final : public PreviewBatch {
 public:
  PreviewBatchImpl(
      std::vector<std::shared_ptr<const storage::RecordSource>> datasets,
      const PreviewOptions& options)
      : datasets_(std::move(datasets)),
        options_(options),
        budget_(BudgetFor(datasets_)) {}

  absl::Status Run(PipelineSpec spec) {
    MR_ASSIGN_OR_RETURN(pipeline::DatasetCatalog catalog,
                        NameDatasets(datasets_, spec));
    for (const Source& source : spec.sources()) {
      sources_.push_back(catalog.at(source.dataset()));
    }
    if (spec.batch_size() == 0) {
      int64_t samples = 0;
      for (const auto& source : sources_) samples += source->info().samples();
      spec.set_batch_size(
          std::max<int64_t>(1, std::min(options_.samples, samples)));
    }
    pipeline::Engine::Options engine;
    engine.threads = kThreads;
    engine.budget = &budget_;
    engine.operators = options_.operators;
    MR_ASSIGN_OR_RETURN(engine_,
                        pipeline::Engine::Create(engine, std::move(catalog)));
    MR_ASSIGN_OR_RETURN(pipeline_, OfPipeline(engine_->Open(spec)));
    pipeline::StepRange range;
    range.epoch = options_.epoch;
    range.first_step = options_.step;
    range.step_count = 1;
    range.with_payload_digest = true;
    OneBatch one;
    MR_ASSIGN_OR_RETURN(
        const auto run,
        OfPipeline(engine_->Start(pipeline_, range, one.callbacks())));
    MR_ASSIGN_OR_RETURN(batch_, one.Await());
    return Trace();
  }

  const PipelineSpec& resolved_spec() const override {
    return pipeline_->description().resolved_spec();
  }
  uint64_t steps_per_epoch() const override {
    return pipeline_->description().steps_per_epoch();
  }
  uint64_t payload_xxh3() const override {
    return batch_.header.payload_xxh3();
  }
  int64_t rows() const override {
    return std::min<int64_t>(options_.samples, batch_.header.rows());
  }
  int64_t sample_index(int64_t row) const override {
    const int last = batch_.header.tensors_size() - 2;  // followed by `valid`
    return static_cast<int64_t>(ElementAt(Row(last, row), DTYPE_INT64, 0));
  }

  int32_t source(int64_t row) const override {
    if (sources_.size() == 1) return sample_index(row) < 0 ? -1 : 0;
    const int place = batch_.header.tensors_size() - 3;  // then the index
    return static_cast<int32_t>(ElementAt(Row(place, row), DTYPE_INT32, 0));
  }

  bool valid(int64_t row) const override {
    return *Row(batch_.header.tensors_size() - 1, row) != 0;
  }

  std::string label(int64_t row) const override {
    for (int i = 0; i < resolved_spec().outputs_size(); ++i) {
      const Field& field = FieldOf(resolved_spec().outputs(i));
      const plan::FieldTrace& trace = traces_.at(field.name());
      const TensorHeader& tensor = batch_.header.tensors(i);
      const auto name = [&](int64_t index) {
        return index >= 0 && index < field.class_names_size()
                   ? field.class_names(static_cast<int>(index))
                   : std::string();
      };
      if (trace.mixed_label) return Shares(field, tensor, Row(i, row));
      if (field.num_classes() > 0 && tensor.sample_shape_size() == 0) {
        const auto index =
            static_cast<int64_t>(ElementAt(Row(i, row), tensor.dtype(), 0));
        return absl::StrCat(index, name(index).empty() ? "" : " ", name(index));
      }
    }
    return "";
  }

  int64_t partner(int64_t row) const override {
    const int64_t other = row ^ 1;
    return other < batch_.header.rows() && valid(row) && valid(other) ? other
                                                                      : -1;
  }

  absl::StatusOr<std::string> image_field() const override {
    MR_ASSIGN_OR_RETURN(const int image, ImageOutput());
    return resolved_spec().outputs(image).field();
  }

  absl::StatusOr<std::vector<SheetPair>> Pairs(
      const std::map<int64_t, uint64_t>& keys) const override {
    MR_ASSIGN_OR_RETURN(const int image, ImageOutput());
    std::vector<std::unique_ptr<storage::RecordReader>> readers;
    for (const auto& source : sources_) {
      MR_ASSIGN_OR_RETURN(auto reader, source->NewReader());
      readers.push_back(std::move(reader));
    }
    std::vector<SheetPair> pairs;
    for (int64_t row = 0; row < rows(); ++row) {
      SheetPair& pair = pairs.emplace_back();
      pair.after = After(image, row);
      const int64_t index = sample_index(row);
      if (index < 0) continue;
      const int32_t of = source(row);
      const auto key = keys.find(row);
      const absl::Status read =
          readers[of]->Read(index, [&](const storage::EncodedSample& sample) {
            return Before(image, sources_[of]->info(), sample,
                          key == keys.end() ? nullptr : &key->second, pair);
          });
      // The policy has left the row empty: there is nothing to show.
      if (read.code() != absl::StatusCode::kDataLoss) MR_RETURN_IF_ERROR(read);
    }
    return pairs;
  }

  absl::Status Explain(augment::ParameterLog& log) const override {
    MR_ASSIGN_OR_RETURN(
        const std::string payload,
        pipeline::ExplainBatch(*pipeline_, options_.epoch, options_.step, log));
    if (payload.size() != batch_.payload->bytes() ||
        std::memcmp(payload.data(), batch_.payload->data(), payload.size()) !=
            0) {
      return absl::InternalError(
          "the explanation differs from the batch of the engine; this is a bug "
          "of Millrace: please report it with the pipeline file");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Trace() {
    for (const Field& field : first().schema().fields()) {
      MR_ASSIGN_OR_RETURN(traces_[field.name()],
                          plan::TraceField(resolved_spec(), field));
    }
    return absl::OkStatus();
  }

  // All sources give the same tensors; the stored fields may be in another
  // order.
  const DatasetInfo& first() const { return sources_[0]->info(); }

  const Field& FieldOf(const Output& output) const {
    // A resolved spec names only fields that exist.
    return *plan::FindField(first(), output.field());
  }

  const uint8_t* Row(int tensor, int64_t row) const {
    const TensorHeader& header = batch_.header.tensors(tensor);
    return batch_.payload->data() + header.offset() +
           header.bytes() / batch_.header.rows() * row;
  }

  static std::string Shares(const Field& field, const TensorHeader& tensor,
                            const uint8_t* row) {
    std::vector<std::pair<double, int>> shares;
    for (int i = 0; i < field.num_classes(); ++i) {
      const double share = ElementAt(row, tensor.dtype(), i);
      if (share >= kSmallestShare) shares.emplace_back(share, i);
    }
    std::stable_sort(
        shares.begin(), shares.end(),
        [](const auto& a, const auto& b) { return a.first > b.first; });
    if (shares.size() > kMaxShares) shares.resize(kMaxShares);
    return absl::StrJoin(shares, " ", [&](std::string* out, const auto& s) {
      absl::StrAppend(out,
                      s.second < field.class_names_size()
                          ? field.class_names(s.second)
                          : absl::StrCat(s.second),
                      absl::StrFormat(" %.2f", s.first));
    });
  }

  // Index of the output to show.
  absl::StatusOr<int> ImageOutput() const {
    const auto& outputs = resolved_spec().outputs();
    std::vector<std::string> images;
    for (int i = 0; i < outputs.size(); ++i) {
      const Field& field = FieldOf(outputs[i]);
      const plan::FieldTrace& trace = traces_.at(field.name());
      if (!plan::IsImage(field) || trace.shape->size() != 3 ||
          (trace.role != FieldRole::IMAGE && options_.field.empty())) {
        continue;
      }
      if (options_.field.empty() || options_.field == field.name()) return i;
      images.push_back(field.name());
    }
    if (options_.field.empty()) {
      return UsageError(absl::InvalidArgumentError(
          "no output of this pipeline is an image, so there is no picture to "
          "show; --explain without --output prints the random choices"));
    }
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        "--field=", options_.field, " is not an image output; ",
        images.empty() ? "the pipeline has none"
                       : absl::StrCat("the image outputs are: ",
                                      absl::StrJoin(images, ", ")))));
  }

  // Calls see(output index) for the fields of the role that belong to the image
  // and are outputs: masks [H, W, C] and boxes [K, 4].
  template <typename See>
  absl::Status EachOf(int image, FieldRole::Role role, const See& see) const {
    const auto& outputs = resolved_spec().outputs();
    for (int i = 0; i < outputs.size(); ++i) {
      const plan::FieldTrace& trace = traces_.at(outputs[i].field());
      if (trace.role != role || trace.image != outputs[image].field()) continue;
      // The result of an operator that is no mask or boxes cannot be drawn.
      const std::vector<int64_t>& shape = *trace.shape;
      if (role == FieldRole::MASK && shape.size() != 3) continue;
      if (role == FieldRole::BOXES_XYXY &&
          (shape.size() != 2 || shape[1] != 4)) {
        continue;
      }
      MR_RETURN_IF_ERROR(see(i));
    }
    return absl::OkStatus();
  }

  std::vector<double> Numbers(const uint8_t* data, DType dtype,
                              int64_t count) const {
    std::vector<double> numbers;
    for (int64_t i = 0; i < count; ++i) {
      numbers.push_back(ElementAt(data, dtype, i));
    }
    return numbers;
  }

  // An image or mask output of a row, in its own size.
  picture::RgbImage Shown(int tensor, int64_t row) const {
    const Output& output = resolved_spec().outputs(tensor);
    const plan::FieldTrace& trace = traces_.at(output.field());
    PixelFormat format;
    format.dtype = batch_.header.tensors(tensor).dtype();
    format.height = trace.shape->at(0);
    format.width = trace.shape->at(1);
    format.channels = trace.shape->at(2);
    format.planes = output.layout() == Output::NCHW;
    if (trace.normalize_place >= 0 && trace.normalize_on == PLACEMENT_SERVER) {
      const Normalize& normalize =
          resolved_spec().transforms(trace.normalize_place).normalize();
      format.mean.assign(normalize.mean().begin(), normalize.mean().end());
      format.stddev.assign(normalize.stddev().begin(),
                           normalize.stddev().end());
      format.scale = 255;
    } else if (trace.to_dtype_place >= 0 &&
               trace.to_dtype_on == PLACEMENT_SERVER &&
               resolved_spec()
                   .transforms(trace.to_dtype_place)
                   .to_dtype()
                   .scale()) {
      format.scale = 255;
    }
    return ToRgb(Row(tensor, row), format);
  }

  SheetPicture After(int image, int64_t row) const {
    SheetPicture shown;
    shown.pixels = Shown(image, row);
    shown.caption =
        SizeText("after", shown.pixels.width(), shown.pixels.height());
    EachOf(image, FieldRole::MASK, [&](int output) {
      Overlay(Shown(output, row), shown.pixels);
      return absl::OkStatus();
    }).IgnoreError();
    EachOf(image, FieldRole::BOXES_XYXY, [&](int output) {
      const TensorHeader& boxes = batch_.header.tensors(output);
      shown.boxes = BoxesOf(
          Numbers(Row(output, row), boxes.dtype(), 4 * boxes.sample_shape(0)),
          1, 1);
      return absl::OkStatus();
    }).IgnoreError();
    return shown;
  }

  // `key` may be null: then no region is framed.
  absl::Status Before(int image, const DatasetInfo& info,
                      const storage::EncodedSample& sample, const uint64_t* key,
                      SheetPair& pair) const {
    const auto index = [&](int output) {
      return plan::FieldIndex(info, resolved_spec().outputs(output).field());
    };
    picture::RgbImage& pixels = pair.before.pixels;
    augment::Size stored;
    MR_RETURN_IF_ERROR(Stored(info, index(image), sample, stored, pixels));
    pair.before.caption = SizeText("before", stored.width, stored.height);
    MR_RETURN_IF_ERROR(
        EachOf(image, FieldRole::MASK, [&](int mask) -> absl::Status {
          picture::RgbImage classes;
          augment::Size size;
          MR_RETURN_IF_ERROR(Stored(info, index(mask), sample, size, classes));
          // Nearest pixel, in the size of the shown image.
          picture::RgbImage fitting(pixels.width(), pixels.height());
          for (int y = 0; y < pixels.height(); ++y) {
            for (int x = 0; x < pixels.width(); ++x) {
              fitting.Set(x, y,
                          classes.At(x * classes.width() / pixels.width(),
                                     y * classes.height() / pixels.height()));
            }
          }
          Overlay(fitting, pixels);
          return absl::OkStatus();
        }));
    const double x = static_cast<double>(pixels.width()) / stored.width;
    const double y = static_cast<double>(pixels.height()) / stored.height;
    MR_RETURN_IF_ERROR(EachOf(image, FieldRole::BOXES_XYXY, [&](int output) {
      const absl::Span<const uint8_t> boxes = sample.fields[index(output)];
      pair.before.boxes =
          BoxesOf(Numbers(boxes.data(), DTYPE_FLOAT32,
                          static_cast<int64_t>(boxes.size()) / 4),
                  x, y);
      return absl::OkStatus();
    }));
    if (key == nullptr) return absl::OkStatus();
    const plan::FieldTrace& trace =
        traces_.at(resolved_spec().outputs(image).field());
    std::vector<pipeline::PlacedTransform> transforms;
    for (const uint32_t place : trace.image_places) {
      transforms.push_back(
          {&resolved_spec().transforms(static_cast<int>(place)), place});
    }
    MR_ASSIGN_OR_RETURN(pair.kept, SourceRegion(transforms, stored, *key));
    for (picture::PicturePoint& corner : pair.kept)
      corner = {corner.x * x, corner.y * y};
    return absl::OkStatus();
  }

  // The stored image or mask, decoded as in the pipeline, at most as large as
  // its area; `size` is the full size.
  absl::Status Stored(const DatasetInfo& info, int index,
                      const storage::EncodedSample& sample, augment::Size& size,
                      picture::RgbImage& picture) const {
    const Field& field = info.schema().fields(index);
    const absl::Span<const uint8_t> bytes = sample.fields[index];
    PixelFormat format;
    if (field.kind() != FIELD_KIND_ENCODED_IMAGE) {
      format.height = size.height = field.shape(0);
      format.width = size.width = field.shape(1);
      format.channels = field.shape(2);
      picture = ToRgb(bytes.data(), format);
      return absl::OkStatus();
    }
    const plan::FieldTrace& trace = traces_.at(field.name());
    Transform decode = resolved_spec().transforms(
        static_cast<int>(trace.image_places.front()));
    pipeline::ImageStageOptions options;
    options.operators = options_.operators;
    options.role = trace.role;
    options.size_only = true;
    const pipeline::PlacedTransform one[] = {{&decode, 0}};
    MR_ASSIGN_OR_RETURN(const auto sizer,
                        pipeline::ImageStage::Create(field, one, options));
    const auto scratch = sizer->NewScratch();
    MR_ASSIGN_OR_RETURN(size, sizer->ReadSize(bytes, *scratch));
    scratch->image_size = size;  // a mask is shown without its image's size
    // Scaled in proportion, and never enlarged.
    const double scale =
        std::min({1.0, static_cast<double>(options_.cell) / size.width,
                  static_cast<double>(options_.cell) / size.height});
    Transform resize;
    Resize& to = *resize.mutable_resize();
    to.set_width(std::max(1, static_cast<int>(size.width * scale)));
    to.set_height(std::max(1, static_cast<int>(size.height * scale)));
    if (trace.role == FieldRole::MASK) {
      to.set_interpolation(INTERPOLATION_NEAREST);
    }
    options.size_only = false;
    const pipeline::PlacedTransform both[] = {{&decode, 0}, {&resize, 1}};
    MR_ASSIGN_OR_RETURN(const auto stage,
                        pipeline::ImageStage::Create(field, both, options));
    const std::vector<int64_t>& shape = stage->output_shape();
    std::vector<uint8_t> pixels(shape[0] * shape[1] * shape[2]);
    MR_RETURN_IF_ERROR(stage->Run(bytes, 0, *scratch, absl::MakeSpan(pixels)));
    format.height = shape[0];
    format.width = shape[1];
    format.channels = shape[2];
    picture = ToRgb(pixels.data(), format);
    return absl::OkStatus();
  }

  const std::vector<std::shared_ptr<const storage::RecordSource>> datasets_;
  // The sources of the spec: a part of datasets_.
  std::vector<std::shared_ptr<const storage::RecordSource>> sources_;
  const PreviewOptions options_;
  ByteBudget budget_;
  std::unique_ptr<pipeline::Engine> engine_;
  std::shared_ptr<const pipeline::Pipeline> pipeline_;
  std::map<std::string, plan::FieldTrace> traces_;  // by field
  batch::FilledBatch batch_;  // destroyed before the engine and the budget
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreviewBatch>> PreviewBatch::Make(
    std::vector<std::shared_ptr<const storage::RecordSource>> datasets,
    PipelineSpec spec, const PreviewOptions& options) {
  auto batch = std::make_unique<PreviewBatchImpl>(std::move(datasets), options);
  MR_RETURN_IF_ERROR(batch->Run(std::move(spec)));
  return batch;
}

}  // namespace millrace::data_tool
