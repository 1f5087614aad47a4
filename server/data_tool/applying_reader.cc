#include "server/data_tool/applying_reader.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/data_tool/parallel_reader.h"
#include "server/data_tool/png_encoder.h"
#include "server/decode/jpeg_encoder.h"
#include "server/pipeline/stage/image_stage.h"
#include "server/plan/field_trace.h"

namespace millrace::data_tool {
namespace {

using pipeline::ImageStage;
using pipeline::PlacedTransform;

// A field that transforms are applied to.
struct AppliedField {
  int index = 0;  // in the schema
  Field stored;
  plan::FieldTrace trace;
  uint8_t mask_fill = 0;
  StoredAs stored_as = StoredAs::kPng;
};

// The fields in the order in which they are computed: masks and boxes behind
// their image, whose size they need.
absl::StatusOr<std::vector<AppliedField>> FieldsOf(
    const Schema& schema, const ApplyOptions& options) {
  std::vector<AppliedField> fields;
  for (int i = 0; i < schema.fields_size(); ++i) {
    AppliedField field;
    field.index = i;
    field.stored = schema.fields(i);
    MR_ASSIGN_OR_RETURN(field.trace,
                        plan::TraceField(options.applied, field.stored));
    if (field.trace.image_places.empty()) continue;
    for (const FieldRole& role : options.applied.field_roles()) {
      if (role.field() == field.stored.name()) {
        field.mask_fill = static_cast<uint8_t>(role.fill());
      }
    }
    const bool encoded = field.stored.kind() == FIELD_KIND_ENCODED_IMAGE;
    const bool mask = field.trace.role == FieldRole::MASK;
    field.stored_as = !encoded ? StoredAs::kTensor
                      : mask && options.stored_as == StoredAs::kJpeg
                          ? StoredAs::kPng
                          : options.stored_as;
    if (field.stored_as == StoredAs::kTensor && !field.trace.shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "field '", field.stored.name(), "' ", field.trace.why_not_fixed,
          "; or store PNG files with --apply_as=png"));
    }
    fields.push_back(std::move(field));
  }
  std::stable_sort(
      fields.begin(), fields.end(),
      [](const AppliedField& a, const AppliedField& b) {
        const auto image = [](const AppliedField& of) {
          return of.trace.role == FieldRole::IMAGE ? of.stored.name()
                                                   : of.trace.image;
        };
        const bool later_a = a.trace.role != FieldRole::IMAGE;
        const bool later_b = b.trace.role != FieldRole::IMAGE;
        return std::pair(image(a), later_a) < std::pair(image(b), later_b);
      });
  return fields;
}

// Of one thread at a time.
class Applier {
 public:
  absl::Status Apply(const std::vector<AppliedField>& fields,
                     const ApplyOptions& options,
                     std::vector<std::string>& sample) {
    for (const AppliedField& field : fields) {
      if (absl::Status status = Apply(field, options, sample[field.index]);
          !status.ok()) {
        return absl::Status(status.code(),
                            absl::StrCat("field ", field.stored.name(), ": ",
                                         status.message()));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Apply(const AppliedField& field, const ApplyOptions& options,
                     std::string& stored) {
    const absl::Span<const uint8_t> bytes = {
        reinterpret_cast<const uint8_t*>(stored.data()), stored.size()};
    pipeline::ImageStageOptions of;
    of.role = field.trace.role;
    of.mask_fill = field.mask_fill;
    of.operators = options.operators;
    std::vector<PlacedTransform> transforms;
    for (const uint32_t place : field.trace.image_places) {
      transforms.push_back(
          {&options.applied.transforms(static_cast<int>(place)), place});
    }
    // A stage makes images of one size. That is the size of this image: a crop
    // of its size changes nothing, and the sizes of all that follow result.
    Transform whole;
    if (field.stored.kind() == FIELD_KIND_ENCODED_IMAGE) {
      MR_ASSIGN_OR_RETURN(const augment::Size size,
                          ReadSize(field, transforms[0], of, bytes));
      CenterCrop& crop = *whole.mutable_center_crop();
      crop.add_fields(field.stored.name());
      crop.set_width(static_cast<uint32_t>(size.width));
      crop.set_height(static_cast<uint32_t>(size.height));
      transforms.insert(transforms.begin() + 1, {&whole, 0});
    }
    MR_ASSIGN_OR_RETURN(const auto stage,
                        ImageStage::Create(field.stored, transforms, of));
    const std::vector<int64_t>& shape = stage->output_shape();
    if (field.trace.role == FieldRole::BOXES_XYXY) {
      std::string moved(stored.size(), '\0');
      MR_RETURN_IF_ERROR(
          stage->Run(bytes, 0, *scratch_,
                     {reinterpret_cast<uint8_t*>(moved.data()), moved.size()}));
      stored = std::move(moved);
      return absl::OkStatus();
    }
    pixels_.resize(shape[0] * shape[1] * shape[2]);
    MR_RETURN_IF_ERROR(
        stage->Run(bytes, 0, *scratch_, absl::MakeSpan(pixels_)));
    switch (field.stored_as) {
      case StoredAs::kTensor:
        stored.assign(reinterpret_cast<const char*>(pixels_.data()),
                      pixels_.size());
        return absl::OkStatus();
      case StoredAs::kPng:
        return EncodePng(pixels_, shape[0], shape[1], shape[2], &stored);
      case StoredAs::kJpeg:
        break;
    }
    decode::JpegEncoding encoding;
    encoding.height = shape[0];
    encoding.width = shape[1];
    encoding.channels = static_cast<int>(shape[2]);
    encoding.quality = options.quality;
    return decode::EncodeJpeg(pixels_, encoding, &stored);
  }

  absl::StatusOr<augment::Size> ReadSize(const AppliedField& field,
                                         const PlacedTransform& decode,
                                         pipeline::ImageStageOptions of,
                                         absl::Span<const uint8_t> bytes) {
    of.size_only = true;
    MR_ASSIGN_OR_RETURN(const auto sizer,
                        ImageStage::Create(field.stored, {&decode, 1}, of));
    return sizer->ReadSize(bytes, *scratch_);
  }

  const std::unique_ptr<ImageStage::Scratch> scratch_ =
      pipeline::NewImageScratch();
  std::vector<uint8_t> pixels_;
};

// What the conversions of a reader share. Outlives the reader's threads.
struct Shared {
  ApplyOptions options;
  std::vector<AppliedField> fields;
  SpareStates<Applier> appliers;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleReader>> MakeApplying(
    std::unique_ptr<SampleReader> reader, const ApplyOptions& options) {
  auto shared = std::make_shared<Shared>();
  shared->options = options;
  MR_ASSIGN_OR_RETURN(shared->fields, FieldsOf(reader->description().schema(),
                                               shared->options));
  DatasetInfo description = reader->description();
  for (const AppliedField& field : shared->fields) {
    if (field.stored_as != StoredAs::kTensor) continue;
    Field& to = *description.mutable_schema()->mutable_fields(field.index);
    to.set_kind(FIELD_KIND_TENSOR);
    to.set_dtype(field.trace.dtype);
    to.mutable_shape()->Assign(field.trace.shape->begin(),
                               field.trace.shape->end());
  }
  return std::make_unique<ParallelReader>(
      std::move(reader),
      ParallelReader::Options{.threads = options.threads,
                              .name = "mr-apply",
                              .description = std::move(description)},
      [shared](ParallelReader::Work& work) {
        std::unique_ptr<Applier> applier = shared->appliers.Take();
        const absl::Status status =
            applier->Apply(shared->fields, shared->options, work.fields);
        shared->appliers.Give(std::move(applier));
        if (status.ok()) return;
        work.status = absl::Status(
            status.code(),
            absl::StrCat("cannot apply the pipeline to ",
                         work.origin.empty() ? "a sample" : work.origin, ", ",
                         status.message()));
      });
}

}  // namespace millrace::data_tool
