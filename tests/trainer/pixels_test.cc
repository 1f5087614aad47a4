// Models, losses and scores over pixels, against Python's torch (pixels.txt,
// which make_pixels.py beside it makes) and counts by hand.

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/trainer/formula.h"
#include "trainer/batch_reader.h"
#include "trainer/class_loss.h"
#include "trainer/fit.h"
#include "trainer/losses/loss.h"
#include "trainer/models/graph_model.h"
#include "trainer/models/model.h"
#include "trainer/pixel_scores.h"

namespace millrace::trainer {
namespace {

using ::millrace::testing::ExpectClose;
using ::millrace::testing::Fill;
using ::millrace::testing::Golden;
using ::millrace::testing::Images;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<models::Classifier> MakeUNet(int64_t channels,
                                             int64_t outputs) {
  auto model = models::MakeModel("unet", {channels, 22, 13}, outputs);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST(UNet, ComputesWhatPythonComputes) {
  const auto golden = Golden("pixels.txt");
  for (const bool channels_last : {false, true}) {
    const auto model = MakeUNet(3, 2);
    EXPECT_EQ(models::CountParameters(*model),
              golden.at("unet parameters").at(0));
    Fill(*model);
    if (channels_last) models::UseChannelsLast(*model);
    const torch::Tensor output = model->forward(Images({2, 3, 22, 13}));
    EXPECT_EQ(output.sizes(), (std::vector<int64_t>{2, 2, 22, 13}));
    ExpectClose(output.contiguous(), golden.at("unet output"), 1e-4, "output");
    output.square().mean().backward();
    const auto parameters = model->named_parameters();
    ExpectClose(parameters["down0.conv1.weight"].grad().contiguous(),
                golden.at("unet gradient"), 1e-3, "gradient");
    ExpectClose(parameters["grow0.bias"].grad(), golden.at("unet bias"), 1e-3,
                "bias");
  }
}

TEST(UNet, TakesAnySizeFromEightPixelsOn) {
  const torch::NoGradGuard no_grad;
  const auto model = MakeUNet(1, 3);
  const auto graph = models::GraphOf(model);
  for (const auto& [height, width] :
       {std::pair<int64_t, int64_t>{8, 8}, {9, 15}, {33, 16}}) {
    const torch::Tensor images = Images({2, 1, height, width});
    const torch::Tensor output = model->forward(images);
    EXPECT_EQ(output.sizes(), (std::vector<int64_t>{2, 3, height, width}));
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(torch::allclose(graph->forward(images), output, 1e-4, 1e-5));
    }
  }
  const auto refused = models::MakeModel("unet", {1, 7, 64}, 3);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("8x8 pixels or more"));
}

// What make_pixels.py makes of the same formulas.
torch::Tensor Logits() {
  return at::sin(at::arange(72, torch::kFloat)).view({2, 3, 4, 3}) * 3;
}
torch::Tensor PixelClasses() {
  torch::Tensor classes =
      at::arange(24, torch::kLong).mul(5).remainder(3).view({2, 4, 3});
  classes[0].slice(0, 1, 3).fill_(kIgnoredLabel);
  return classes;
}

Batch OfRows(int64_t rows, std::vector<bool> valid = {}) {
  Batch batch;
  batch.rows = batch.local_valid = static_cast<uint64_t>(rows);
  if (!valid.empty()) {
    torch::Tensor flags = at::zeros(rows, torch::kBool);
    batch.local_valid = 0;
    for (int64_t i = 0; i < rows; ++i) {
      flags[i] = static_cast<bool>(valid[static_cast<size_t>(i)]);
      batch.local_valid += valid[static_cast<size_t>(i)] ? 1 : 0;
    }
    batch.tensors.push_back({"valid", flags});
  }
  return batch;
}

std::unique_ptr<losses::Loss> Learn(const std::string& name,
                                    std::optional<int64_t> ignore_value = {}) {
  auto loss =
      losses::MakeLoss(*losses::ParseLossName(name), torch::kCPU, ignore_value);
  EXPECT_TRUE(loss.ok()) << loss.status();
  return *std::move(loss);
}

TEST(PixelLoss, IsPythonsOfEachSampleAddedUp) {
  const auto golden = Golden("pixels.txt");
  const auto near = [&](double value, const std::string& key) {
    EXPECT_NEAR(value, golden.at(key).at(0), 1e-5) << key;
  };
  const Batch batch = OfRows(2);
  near(Learn("cross_entropy")
           ->Sum(Logits(), PixelClasses(), batch, 0)
           .item<double>(),
       "cross_entropy 0.0");
  near(Learn("cross_entropy")
           ->Sum(Logits(), PixelClasses(), batch, 0.1)
           .item<double>(),
       "cross_entropy 0.1");
  const torch::Tensor values =
      at::cos(at::arange(72, torch::kFloat)).view({2, 3, 4, 3}).abs();
  near(Learn("bce_with_logits")->Sum(Logits(), values, batch, 0).item<double>(),
       "bce values");
  near(Learn("bce_with_logits")
           ->Sum(Logits(), PixelClasses(), batch, 0)
           .item<double>(),
       "bce classes");
}

TEST(PixelLoss, LeavesOutRowsWithoutASampleAndPixelsThatDoNotCount) {
  for (const char* name : {"cross_entropy", "bce_with_logits"}) {
    SCOPED_TRACE(name);
    const auto loss = Learn(name);
    torch::Tensor logits = Logits().requires_grad_(true);
    const torch::Tensor sum =
        loss->Sum(logits, PixelClasses(), OfRows(2, {true, false}), 0);
    sum.backward();
    EXPECT_EQ(logits.grad()[1].abs().sum().item<float>(), 0);
    EXPECT_EQ(logits.grad()[0].slice(1, 1, 3).abs().sum().item<float>(), 0);
    EXPECT_GT(logits.grad()[0].slice(1, 0, 1).abs().sum().item<float>(), 0);
    // A sample of which no pixel counts.
    const torch::Tensor none = at::full({2, 4, 3}, kIgnoredLabel, torch::kLong);
    EXPECT_EQ(loss->Sum(Logits(), none, OfRows(2), 0).item<double>(), 0);
  }
  // By hand: a logit of 0 costs ln 2, whatever the target is; pixels of 255 are
  // left out, so that the mean of both samples is the same.
  torch::Tensor target = at::zeros({2, 1, 4, 3});
  target[0].slice(1, 0, 2).fill_(255);
  EXPECT_NEAR(Learn("bce_with_logits", 255)
                  ->Sum(at::zeros({2, 1, 4, 3}), target, OfRows(2), 0)
                  .item<double>(),
              2 * 0.69314718, 1e-5);
  torch::Tensor outputs = at::zeros({2, 1, 4, 3});
  outputs[0].slice(1, 0, 2).fill_(7);
  outputs[1].fill_(2);
  EXPECT_NEAR(
      Learn("mse", 255)->Sum(outputs, target, OfRows(2), 0).item<double>(), 4,
      1e-6);
}

// Values in a row are compared in the order of the planes.
TEST(PixelLoss, TakesAnImageForAModelOverItsValuesInARow) {
  const torch::Tensor target = at::rand({2, 3, 4, 5});
  EXPECT_EQ(
      Learn("mse")->Sum(target.flatten(1), target, OfRows(2), 0).item<double>(),
      0);
  EXPECT_ANY_THROW(
      Learn("mse")->Sum(target.permute({0, 2, 3, 1}), target, OfRows(2), 0));
}

std::string Thrown(const std::string& loss, const torch::Tensor& outputs,
                   const torch::Tensor& target) {
  try {
    Learn(loss)->Sum(outputs, target, OfRows(outputs.size(0)), 0);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const losses::TargetError& error) {
    return error.what();
  }
  return "";
}

TEST(PixelLoss, RefusesTargetsThatItCannotLearn) {
  EXPECT_THAT(Thrown("bce_with_logits", at::zeros({2, 1, 4, 3}),
                     at::full({2, 1, 4, 3}, 255.f)),
              HasSubstr("has the value 255"));
  torch::Tensor classes = PixelClasses();
  classes[1][0][0] = 255;
  for (const char* name : {"cross_entropy", "bce_with_logits"}) {
    // BatchReader refuses such classes earlier and names the target.
    EXPECT_THAT(Thrown(name, Logits(), classes),
                AllOf(HasSubstr("255"), HasSubstr("out of bounds")));
    // Outputs for the whole image.
    EXPECT_THAT(Thrown(name, at::zeros({2, 3}), PixelClasses()),
                HasSubstr("for a class in each pixel"));
  }
}

TEST(PixelScores, CountClasses) {
  // Two images of two pixels, three classes: the model says 0 1 1 1.
  const torch::Tensor logits =
      torch::one_hot(torch::tensor({{{0, 1}}, {{1, 1}}}, torch::kLong), 3)
          .permute({0, 3, 1, 2})
          .to(torch::kFloat);
  PixelScores scores(3, torch::kCPU);
  scores.AddClasses(logits,
                    torch::tensor({{{0, 1}}, {{0, -100}}}, torch::kLong));
  PixelScores::Result result = PixelScores::Read(scores.counts());
  EXPECT_NEAR(*result.accuracy, 2.0 / 3, 1e-12);
  // Class 0: 1 of 2; class 1: 1 of 2; class 2 is nowhere.
  EXPECT_NEAR(*result.mean_iou, 0.5, 1e-12);
  scores.AddClasses(logits, torch::tensor({{{0, 1}}, {{2, 1}}}, torch::kLong));
  result = PixelScores::Read(scores.counts());
  EXPECT_NEAR(*result.accuracy, 5.0 / 7, 1e-12);
  EXPECT_NEAR(*result.mean_iou, (2.0 / 3 + 3.0 / 5 + 0) / 3, 1e-12);
  const PixelScores none(3, torch::kCPU);
  EXPECT_FALSE(PixelScores::Read(none.counts()).accuracy.has_value());
  EXPECT_FALSE(PixelScores::Read(none.counts()).mean_iou.has_value());
}

TEST(PixelScores, CountYesAndNo) {
  PixelScores scores(1, torch::kCPU);
  scores.AddYesNo(torch::tensor({2.f, -1.f, 3.f, 1.f}).view({1, 1, 2, 2}),
                  torch::tensor({1.f, 1.f, 0.f, 255.f}).view({1, 1, 2, 2}),
                  255);
  const PixelScores::Result result = PixelScores::Read(scores.counts());
  EXPECT_NEAR(*result.accuracy, 1.0 / 3, 1e-12);
  EXPECT_NEAR(*result.mean_iou, 1.0 / 3, 1e-12);
}

// A plan as segmentation_train makes it.
OpenResponse PlanOfMasks() {
  OpenResponse plan;
  PipelineSpec& spec = *plan.mutable_resolved_spec();
  FieldRole* const role = spec.add_field_roles();
  role->set_field("stored_mask");
  role->set_role(FieldRole::MASK);
  for (const auto& [field, name] :
       {std::pair("image", "image"), std::pair("stored_mask", "mask")}) {
    Output* const output = spec.add_outputs();
    output->set_field(field);
    output->set_name(name);
    TensorSpec* const tensor = plan.add_tensors();
    tensor->set_name(name);
    tensor->set_dtype(DTYPE_UINT8);
    for (const int64_t dim : {4, 5, name == std::string("image") ? 3 : 1}) {
      tensor->add_sample_shape(dim);
    }
    tensor->set_view(TensorSpec::VIEW_AS_STORED);
  }
  DeviceTransform& cast = *plan.mutable_tensors(1)->mutable_device_transform();
  cast.set_dtype(DTYPE_INT64);
  return plan;
}

BatchReader Make(const OpenResponse& plan, BatchReader::Options options) {
  auto reader = BatchReader::Make(plan, options);
  EXPECT_TRUE(reader.ok()) << reader.status();
  return *std::move(reader);
}

TEST(BatchReader, LearnsAMaskWhereNothingHasClasses) {
  const OpenResponse plan = PlanOfMasks();
  const BatchReader reader = Make(plan, {.classes = 3, .ignore_value = 255});
  EXPECT_EQ(reader.form().kind, losses::TargetForm::kPixelClasses);
  EXPECT_EQ(reader.form().channels, 3);
  EXPECT_EQ(reader.form().height, 4);
  EXPECT_EQ(reader.form().width, 5);
  EXPECT_EQ(reader.classes(), 3);
  torch::Tensor mask = at::arange(40, torch::kLong).remainder(3);
  mask[7] = 255;
  torch::Tensor expected = mask.clone();
  expected[7] = kIgnoredLabel;
  Batch batch;
  batch.tensors.push_back({"mask", mask.view({2, 4, 5, 1})});
  EXPECT_TRUE(torch::equal(reader.Target(batch), expected.view({2, 4, 5})));
  // Only --ignore_value leaves out pixels of a sample.
  for (const int64_t wrong : {-100, 3, -1}) {
    mask[9] = wrong;
    try {
      reader.Target(batch);
      ADD_FAILURE() << wrong << " was accepted";
    } catch (const LabelOutsideClasses& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(absl::StrCat("the target mask has the label ",
                                               wrong, " in row 0")),
                        HasSubstr("give it to --ignore_value")));
    }
  }
  mask[9] = 0;

  // 0 and 1 without a number of classes.
  const BatchReader yes_no =
      Make(plan, {.loss = losses::LossKind::kBceWithLogits});
  EXPECT_EQ(yes_no.form().kind, losses::TargetForm::kValues);
  EXPECT_EQ(yes_no.form().channels, 1);
  EXPECT_EQ(yes_no.Target(batch).sizes(), (std::vector<int64_t>{2, 1, 4, 5}));

  const auto refusal = [&](BatchReader::Options options) {
    return std::string(BatchReader::Make(plan, options).status().message());
  };
  EXPECT_THAT(refusal({}), HasSubstr("give --classes=N"));
  EXPECT_THAT(refusal({.input = "mask",
                       .target = "image",
                       .loss = losses::LossKind::kCrossEntropy,
                       .classes = 3}),
              HasSubstr("neither a class index"));
}

TEST(BatchReader, GivesAnImageAsATargetInPlanes) {
  OpenResponse plan = PlanOfMasks();
  const BatchReader reader = Make(
      plan,
      {.input = "image", .target = "image", .loss = losses::LossKind::kMse});
  Batch batch;
  const torch::Tensor image = at::rand({2, 4, 5, 3});
  batch.tensors.push_back({"image", image});
  EXPECT_TRUE(torch::equal(reader.Target(batch), image.permute({0, 3, 1, 2})));
}

TEST(BatchReader, RefusesAnIgnoredValueThatNoPixelCanHave) {
  OpenResponse plan = PlanOfMasks();
  TensorSpec* const label = plan.add_tensors();
  label->set_name("label");
  label->set_dtype(DTYPE_INT16);
  label->set_num_classes(4);
  EXPECT_THAT(
      std::string(
          BatchReader::Make(plan, {.ignore_value = 255}).status().message()),
      HasSubstr("--ignore_value=255 applies to targets"));
  EXPECT_THAT(
      std::string(BatchReader::Make(plan, {.classes = 5}).status().message()),
      HasSubstr("has 4 classes, but --classes is 5"));
}

// For modules of a user's file.
TEST(BatchReader, GivesWhatIsNoImageInTheShapeThatTheDataHave) {
  struct Case {
    DType dtype;
    std::vector<int64_t> shape;
    torch::ScalarType of_batch;
    torch::ScalarType given;
  };
  for (const Case& c : std::vector<Case>{
           {DTYPE_FLOAT32, {6}, torch::kFloat, torch::kFloat},
           {DTYPE_FLOAT64, {2, 3}, torch::kDouble, torch::kFloat},
           {DTYPE_INT64, {6}, torch::kLong, torch::kLong},
           {DTYPE_INT32, {6}, torch::kInt, torch::kLong},
           {DTYPE_UINT8, {2, 3}, torch::kByte, torch::kLong},
           {DTYPE_BOOL, {6}, torch::kBool, torch::kLong},
           {DTYPE_FLOAT32, {1, 2, 3, 4}, torch::kFloat, torch::kFloat},
           {DTYPE_INT64, {}, torch::kLong, torch::kLong}}) {
    OpenResponse plan;
    TensorSpec* const x = plan.add_tensors();
    x->set_name("x");
    x->set_dtype(c.dtype);
    for (const int64_t dim : c.shape) x->add_sample_shape(dim);
    TensorSpec* const y = plan.add_tensors();
    y->set_name("y");
    y->set_dtype(DTYPE_INT16);
    y->set_num_classes(3);
    const BatchReader reader = Make(plan, {.as_stored = true});
    EXPECT_EQ(reader.form_of_input(), (models::InputForm{c.shape, c.given}));
    std::vector<int64_t> sizes = {2};
    sizes.insert(sizes.end(), c.shape.begin(), c.shape.end());
    const torch::Tensor values = at::ones(sizes, c.of_batch);
    Batch batch;
    batch.tensors.push_back({"x", values});
    EXPECT_TRUE(torch::equal(reader.Input(batch), values.to(c.given)));
  }
}

TEST(CheckFit, FeedsWhatTheDataHave) {
  const auto fit = [](const std::string& file, const models::InputForm& input,
                      const losses::TargetForm& form, const std::string& loss) {
    auto model =
        models::MakeModel("torchscript:" + testing::ModelFile(file), {}, 3);
    EXPECT_TRUE(model.ok()) << model.status();
    const auto name = losses::ParseLossName(loss);
    return std::string(CheckFit(**model, *Learn(loss), input, form, name->kind,
                                file, torch::kCPU)
                           .message());
  };
  const losses::TargetForm classes = {.outputs = 3, .classes = 3};
  EXPECT_EQ(
      fit("of_vectors.pt", {{8}, torch::kFloat}, classes, "cross_entropy"), "");
  EXPECT_THAT(
      fit("of_vectors.pt", {{8}, torch::kLong}, classes, "cross_entropy"),
      HasSubstr("given int64 zeros of shape [2, 8]"));
  EXPECT_EQ(fit("of_tokens.pt", {{6}, torch::kLong}, classes, "cross_entropy"),
            "");
  const losses::TargetForm pixels = {.kind = losses::TargetForm::kPixelClasses,
                                     .outputs = 3 * 8 * 9,
                                     .classes = 3,
                                     .channels = 3,
                                     .height = 8,
                                     .width = 9};
  const models::InputForm image = {{3, 8, 9}, torch::kFloat};
  EXPECT_EQ(fit("of_pixels.pt", image, pixels, "cross_entropy"), "");
  EXPECT_EQ(fit("of_pixels.pt", image, pixels,
                "torchscript:" + testing::ModelFile("dice.pt")),
            "");
  losses::TargetForm larger = pixels;
  larger.height = 16;
  EXPECT_THAT(
      fit("of_pixels.pt", image, larger, "cross_entropy"),
      HasSubstr(
          "must return [2, 3, 16, 9], one number for each class and pixel"));
}

}  // namespace
}  // namespace millrace::trainer
