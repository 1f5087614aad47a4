#include "tests/fuzz/fuzz_specs.h"

#include <utility>

#include "common/logging.h"
#include "server/plan/content_revision.h"
#include "server/plan/plan_hash.h"
#include "server/plan/presets.h"
#include "server/plan/spec_check.h"

namespace millrace {
namespace {

DatasetInfo Dataset(const std::string& name, std::vector<Field> fields) {
  DatasetInfo info;
  info.set_name(name);
  info.set_samples(1000);
  for (Field& field : fields) {
    *info.mutable_schema()->add_fields() = std::move(field);
  }
  return info;
}

Field Encoded(const std::string& name) {
  Field field;
  field.set_name(name);
  field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  return field;
}

Field Tensor(const std::string& name, DType dtype, std::vector<int64_t> shape,
             int64_t classes = 0) {
  Field field;
  field.set_name(name);
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(dtype);
  field.mutable_shape()->Add(shape.begin(), shape.end());
  field.set_num_classes(classes);
  return field;
}

bool IsDocumented(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kFailedPrecondition:
      return true;
    default:
      return false;
  }
}

}  // namespace

const plan::DatasetInfos& FuzzDatasets() {
  static const plan::DatasetInfos& datasets = *[] {
    static std::vector<DatasetInfo>& infos = *new std::vector<DatasetInfo>;
    Field label = Tensor("label", DTYPE_INT64, {}, 1000);
    Field digit = Tensor("label", DTYPE_INT64, {}, 10);
    Field text;
    text.set_name("text");
    text.set_kind(FIELD_KIND_RAGGED);
    text.set_dtype(DTYPE_UINT8);
    infos.push_back(Dataset("photos", {Encoded("image"), label}));
    infos.push_back(
        Dataset("digits", {Tensor("image", DTYPE_UINT8, {28, 28, 1}), digit}));
    infos.push_back(
        Dataset("cifar", {Tensor("image", DTYPE_UINT8, {32, 32, 3}), digit}));
    infos.push_back(
        Dataset("segments", {Encoded("image"), Encoded("mask"), label, text}));
    infos.push_back(
        Dataset("table", {Tensor("x", DTYPE_FLOAT32, {16}), label}));
    auto* by_name = new plan::DatasetInfos;
    for (const DatasetInfo& info : infos) (*by_name)[info.name()] = &info;
    return by_name;
  }();
  return datasets;
}

std::vector<std::string> FuzzSpecTexts() {
  std::vector<std::string> texts;
  for (const std::string& preset : plan::PresetNames()) {
    std::string dataset = "photos";
    if (preset.find("mnist") != std::string::npos) dataset = "digits";
    if (preset.find("cifar") != std::string::npos) dataset = "cifar";
    if (preset.find("segment") != std::string::npos) dataset = "segments";
    texts.push_back("sources { dataset: \"" + dataset +
                    "\" } batch_size: 64 preset: \"" + preset + "\"" +
                    (dataset == "segments"
                         ? " outputs { field: 'image' } outputs { field: "
                           "'mask' } outputs { field: 'label' }"
                         : ""));
  }
  const std::string photos =
      "# a comment\nsources { dataset: 'photos' }\nbatch_size: 32\n"
      "transforms { decode_image {} }\n";
  const std::string crop =
      "transforms { random_resized_crop { height: 32 width: 32 } }\n";
  texts.push_back(photos + crop);
  texts.push_back(photos + crop +
                  "transforms { horizontal_flip { p: 0.25 } }\n"
                  "transforms { normalize { mean: [0.5, 0.4, 0.3] stddev: "
                  "[0.2, 0.2, 0.2] } }\n"
                  "outputs { field: 'image' name: 'pixels' }\n"
                  "outputs { field: 'label' dtype: DTYPE_INT32 }\n"
                  "last_batch: LAST_BATCH_PAD bad_samples { action: ZERO }\n");
  texts.push_back(photos +
                  "transforms { resize { short_side: 40 } }\n"
                  "transforms { center_crop { height: 32 width: 32 } }\n"
                  "shuffle { mode: BLOCK block_size: 10 window_blocks: 4 }\n"
                  "seed: 18446744073709551615 spec_version: 1\n");
  texts.push_back(
      "sources { dataset: 'table' subset { from: 0.1 to: 0.9 seed: 3 } }\n"
      "batch_size: 8 shuffle { mode: SEQUENTIAL }\n");
  texts.push_back(
      "sources { dataset: 'table' weight: 0.7 }\n"
      "sources { dataset: 'table' weight: 0.3 subset { to: 0.5 unit: 64 } }\n"
      "batch_size: 8 epoch_samples: 1000 shuffle { mode: BLOCK }\n");
  texts.push_back(
      "sources { dataset: 'table' } sources { dataset: 'table' }\n"
      "batch_size: 8 concatenate: true\n");
  return texts;
}

bool FuzzSpec(const PipelineSpec& spec) {
  const std::vector<plan::SpecProblem> problems = plan::FindSpecProblems(spec);
  for (const plan::SpecProblem& problem : problems) {
    MR_CHECK(IsDocumented(problem.status.code())) << problem.status;
    plan::FormatSpecPath(problem.path);
  }
  MR_CHECK(plan::CheckSpec(spec).ok() == problems.empty());
  const auto resolved = plan::ResolveSpec(spec, FuzzDatasets());
  if (!resolved.ok()) {
    MR_CHECK(IsDocumented(resolved.status().code())) << resolved.status();
    return false;
  }
  MR_CHECK(problems.empty()) << problems[0].status;
  // What a resolved spec says does not change by resolving it again, and two
  // encodings of it have one hash.
  const auto again = plan::ResolveSpec(*resolved, FuzzDatasets());
  MR_CHECK(again.ok()) << again.status();
  MR_CHECK(plan::CanonicalEncoding(*again) ==
           plan::CanonicalEncoding(*resolved))
      << resolved->ShortDebugString();
  MR_CHECK(
      plan::PlanHash(*resolved, "fingerprint", plan::kContentRevision).size() ==
      16);
  PipelineSpec read;
  MR_CHECK(read.ParseFromString(resolved->SerializeAsString()));
  MR_CHECK(plan::CanonicalEncoding(read) == plan::CanonicalEncoding(*resolved));
  return true;
}

}  // namespace millrace
