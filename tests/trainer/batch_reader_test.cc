#include "trainer/batch_reader.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/usage_error.h"
#include "trainer/class_loss.h"
#include "trainer/losses/loss.h"
#include "trainer/losses/target_form.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TensorSpec* Add(OpenResponse& plan, const std::string& name, DType dtype,
                std::vector<int64_t> shape, int64_t classes = 0) {
  TensorSpec* spec = plan.add_tensors();
  spec->set_name(name);
  spec->set_dtype(dtype);
  for (int64_t dim : shape) spec->add_sample_shape(dim);
  spec->set_num_classes(classes);
  return spec;
}

BatchReader Make(const OpenResponse& plan,
                 losses::LossKind loss = losses::LossKind::kCrossEntropy,
                 const std::string& target = "") {
  auto reader = BatchReader::Make(plan, {.target = target, .loss = loss});
  EXPECT_TRUE(reader.ok()) << reader.status();
  return *std::move(reader);
}

TEST(BatchReader, TakesClassesOfEveryWholeType) {
  for (DType dtype : {DTYPE_INT8, DTYPE_INT16, DTYPE_INT32, DTYPE_INT64,
                      DTYPE_UINT8, DTYPE_UINT16}) {
    OpenResponse plan;
    Add(plan, "x", DTYPE_UINT8, {4, 5, 3});
    Add(plan, "y", dtype, {}, 10);
    const BatchReader reader = Make(plan);
    EXPECT_EQ(reader.classes(), 10);
    Batch batch;
    batch.tensors.push_back({"y", torch::tensor({3, 9}, torch::kChar)});
    EXPECT_TRUE(torch::equal(reader.Target(batch),
                             torch::tensor({3, 9}, torch::kLong)));
  }
}

TEST(BatchReader, TakesSharesOfClasses) {
  OpenResponse plan;
  Add(plan, "x", DTYPE_UINT8, {4, 5, 3});
  Add(plan, "y", DTYPE_FLOAT32, {10}, 10);
  const BatchReader reader = Make(plan);
  Batch batch;
  batch.tensors.push_back({"y", torch::rand({2, 10})});
  EXPECT_TRUE(torch::equal(reader.Target(batch), batch.tensor("y")));
}

TEST(BatchReader, RefusesOtherTargets) {
  auto refusal = [](DType dtype, std::vector<int64_t> shape,
                    int64_t classes = 10) {
    OpenResponse plan;
    Add(plan, "x", DTYPE_UINT8, {4, 5, 3});
    Add(plan, "y", dtype, shape, classes);
    return std::string(BatchReader::Make(plan, {}).status().message());
  };
  EXPECT_THAT(refusal(DTYPE_FLOAT32, {}), HasSubstr("neither a class index"));
  EXPECT_THAT(refusal(DTYPE_FLOAT32, {9}), HasSubstr("neither a class index"));
  EXPECT_THAT(refusal(DTYPE_INT64, {10}), HasSubstr("neither a class index"));
  EXPECT_THAT(refusal(DTYPE_INT64, {}, 1), HasSubstr("has one class only"));
}

std::string InputOf(const OpenResponse& plan, const std::string& input = "") {
  const auto reader = BatchReader::Make(plan, {.input = input});
  return reader.ok() ? reader->input() : std::string(reader.status().message());
}

TEST(BatchReader, TakesTheOneTensorThatCanBeTheInput) {
  OpenResponse rows;
  Add(rows, "sample_index", DTYPE_INT64, {});
  Add(rows, "valid", DTYPE_BOOL, {});
  Add(rows, "x", DTYPE_FLOAT32, {4});
  Add(rows, "y", DTYPE_INT8, {}, 10);
  EXPECT_EQ(InputOf(rows), "x");
  EXPECT_EQ(Make(rows).target(), "y");
  // The one image, whatever else there is.
  OpenResponse images = rows;
  Add(images, "image", DTYPE_UINT8, {4, 5, 3});
  EXPECT_EQ(InputOf(images), "image");
  // What has classes is there to be learnt.
  OpenResponse labels = rows;
  Add(labels, "coarse", DTYPE_INT8, {}, 3);
  const auto fine = BatchReader::Make(labels, {.target = "y"});
  ASSERT_TRUE(fine.ok()) << fine.status();
  EXPECT_EQ(fine->input(), "x");
}

TEST(BatchReader, RefusesToChooseAmongSeveralInputs) {
  OpenResponse plan;
  Add(plan, "a", DTYPE_FLOAT32, {4});
  Add(plan, "b", DTYPE_FLOAT32, {6});
  Add(plan, "y", DTYPE_INT8, {}, 10);
  EXPECT_THAT(InputOf(plan), HasSubstr("several tensors that may be the input: "
                                       "a, b; name one with --input=NAME"));
  EXPECT_EQ(InputOf(plan, "b"), "b");
  OpenResponse images;
  Add(images, "left", DTYPE_UINT8, {4, 5, 3});
  Add(images, "right", DTYPE_UINT8, {4, 5, 3});
  Add(images, "y", DTYPE_INT8, {}, 10);
  EXPECT_THAT(InputOf(images), HasSubstr("left, right; name one"));
}

TEST(BatchReader, SaysHowAWholeNumberBecomesAClass) {
  OpenResponse plan;
  Add(plan, "x", DTYPE_FLOAT32, {4});
  Add(plan, "y", DTYPE_INT64, {});
  EXPECT_THAT(InputOf(plan),
              HasSubstr("the number of its classes with --classes=N"));
  const auto named = BatchReader::Make(plan, {.target = "y"});
  EXPECT_THAT(
      std::string(named.status().message()),
      HasSubstr("the target y holds a whole number for each sample, but the "
                "data do not declare the number of classes; give --classes=N"));
  EXPECT_TRUE(BatchReader::Make(plan, {.target = "y", .classes = 10}).ok());
}

TEST(BatchReader, KnowsInWhichOrderImagesCome) {
  struct Case {
    TensorSpec::View view;
    Output::Layout layout;
    std::vector<int64_t> on_wire;
    std::vector<int64_t> given;
  };
  for (const Case& c : std::vector<Case>{
           {TensorSpec::VIEW_AS_STORED,
            Output::AS_STORED,
            {4, 5, 3},
            {4, 5, 3}},
           {TensorSpec::VIEW_DEFAULT, Output::AS_STORED, {4, 5, 3}, {4, 5, 3}},
           {TensorSpec::VIEW_CHANNELS_FIRST,
            Output::AS_STORED,
            {4, 5, 3},
            {3, 4, 5}},
           {TensorSpec::VIEW_AS_STORED, Output::NHWC, {4, 5, 3}, {4, 5, 3}},
           {TensorSpec::VIEW_AS_STORED, Output::NCHW, {3, 4, 5}, {3, 4, 5}}}) {
    OpenResponse plan;
    Add(plan, "x", DTYPE_FLOAT32, c.on_wire)->set_view(c.view);
    Add(plan, "y", DTYPE_INT8, {}, 10);
    Output* output = plan.mutable_resolved_spec()->add_outputs();
    output->set_name("x");
    output->set_layout(c.layout);
    const BatchReader reader = Make(plan);
    EXPECT_EQ(reader.shape().channels, 3);
    EXPECT_EQ(reader.shape().height, 4);
    EXPECT_EQ(reader.shape().width, 5);
    std::vector<int64_t> sizes = {2};
    sizes.insert(sizes.end(), c.given.begin(), c.given.end());
    Batch batch;
    batch.tensors.push_back({"x", torch::rand(sizes)});
    EXPECT_EQ(reader.Input(batch).sizes(), (std::vector<int64_t>{2, 3, 4, 5}));
  }
}

// A batch of 4 rows of which the second is empty.
Batch WithAnEmptyRow() {
  Batch batch;
  batch.rows = 4;
  batch.local_valid = 3;
  batch.tensors.push_back(
      {"valid", torch::tensor({true, false, true, true}, torch::kBool)});
  return batch;
}

TEST(ClassLoss, OfSharesIsTheMixtureOfTheLossesOfTheClasses) {
  torch::manual_seed(3);
  const torch::Tensor logits = torch::randn({4, 5});
  const torch::Tensor a = torch::tensor({0, 1, 2, 3}, torch::kLong);
  const torch::Tensor b = torch::tensor({4, 3, 2, 1}, torch::kLong);
  const torch::Tensor soft = 0.75 * torch::one_hot(a, 5).to(torch::kFloat) +
                             0.25 * torch::one_hot(b, 5).to(torch::kFloat);
  const Batch batch = WithAnEmptyRow();
  const torch::Tensor mixed = SumOfLosses(logits, Masked(soft, batch));
  const torch::Tensor expected = 0.75 * SumOfLosses(logits, Masked(a, batch)) +
                                 0.25 * SumOfLosses(logits, Masked(b, batch));
  EXPECT_TRUE(torch::allclose(mixed, expected, 1e-5, 1e-6));
  // The empty row took no part, whatever stood in it.
  torch::Tensor other = logits.clone();
  other[1].fill_(7);
  EXPECT_TRUE(torch::equal(SumOfLosses(other, Masked(soft, batch)), mixed));
}

TEST(ClassLoss, GivesEmptyRowsNoGradient) {
  torch::Tensor logits = torch::randn({4, 5}).requires_grad_(true);
  const torch::Tensor soft = torch::full({4, 5}, 0.2);
  SumOfLosses(logits, Masked(soft, WithAnEmptyRow())).backward();
  EXPECT_EQ(logits.grad()[1].abs().sum().item<float>(), 0);
  EXPECT_GT(logits.grad()[0].abs().sum().item<float>(), 0);
}

TEST(ClassLoss, CountsTheRightOnesAmongTheRowsThatCount) {
  const torch::Tensor classes = torch::tensor({0, 1, 2, 0}, torch::kLong);
  const torch::Tensor logits =
      torch::one_hot(torch::tensor({0, 1, 2, 1}, torch::kLong), 3)
          .to(torch::kFloat);
  const torch::Tensor soft =
      0.6 * torch::one_hot(classes, 3).to(torch::kFloat) + 0.1;
  const Batch batch = WithAnEmptyRow();
  EXPECT_EQ(CountCorrect(logits, classes).item<int64_t>(), 3);
  EXPECT_EQ(CountCorrect(logits, soft).item<int64_t>(), 3);
  EXPECT_EQ(CountCorrect(logits, Masked(classes, batch)).item<int64_t>(), 2);
  EXPECT_EQ(CountCorrect(logits, Masked(soft, batch)).item<int64_t>(), 2);
}

TEST(ClassLoss, CountsClassesAmongTheLikeliest) {
  const torch::Tensor logits =
      torch::tensor({{3.f, 2.f, 1.f}, {3.f, 2.f, 1.f}, {1.f, 2.f, 3.f}});
  const torch::Tensor classes = torch::tensor({1, 2, -100}, torch::kLong);
  EXPECT_EQ(CountCorrect(logits, classes).item<int64_t>(), 0);
  EXPECT_EQ(CountCorrect(logits, classes, 2).item<int64_t>(), 1);
  // More than there are: every row that counts.
  EXPECT_EQ(CountCorrect(logits, classes, 5).item<int64_t>(), 2);
  const torch::Tensor shares =
      torch::tensor({{0.2f, 0.8f, 0.f}, {0.f, 0.f, 0.f}, {0.f, 0.9f, 0.1f}});
  EXPECT_EQ(CountCorrect(logits, shares, 2).item<int64_t>(), 2);
}

Batch OfRows(int64_t rows) {
  Batch batch;
  batch.rows = batch.local_valid = static_cast<uint64_t>(rows);
  return batch;
}

TEST(TargetForm, IsWhatTheLossLearns) {
  const auto form = [](losses::LossKind loss, DType dtype,
                       std::vector<int64_t> shape, int64_t classes) {
    OpenResponse plan;
    Add(plan, "y", dtype, shape, classes);
    return losses::FormOf(plan.tensors(0), {.loss = loss});
  };
  const auto one_hot =
      form(losses::LossKind::kBceWithLogits, DTYPE_INT64, {}, 7);
  ASSERT_TRUE(one_hot.ok()) << one_hot.status();
  EXPECT_EQ(one_hot->kind, losses::TargetForm::kOneHot);
  EXPECT_EQ(one_hot->outputs, 7);
  EXPECT_TRUE(one_hot->judges_classes);
  const auto many =
      form(losses::LossKind::kBceWithLogits, DTYPE_UINT8, {12}, 0);
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(many->kind, losses::TargetForm::kValues);
  EXPECT_EQ(many->outputs, 12);
  EXPECT_FALSE(many->judges_classes);
  const auto numbers = form(losses::LossKind::kMse, DTYPE_FLOAT64, {2, 3}, 0);
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_EQ(numbers->outputs, 6);
  EXPECT_EQ(form(losses::LossKind::kMse, DTYPE_FLOAT32, {}, 0)->outputs, 1);
  const auto own = form(losses::LossKind::kTorchScript, DTYPE_INT32, {}, 7);
  EXPECT_EQ(own->kind, losses::TargetForm::kClasses);

  const auto refusal = [&](losses::LossKind loss, DType dtype,
                           std::vector<int64_t> shape, int64_t classes) {
    return std::string(form(loss, dtype, shape, classes).status().message());
  };
  EXPECT_THAT(refusal(losses::LossKind::kMse, DTYPE_INT64, {}, 10),
              HasSubstr("--loss=cross_entropy"));
  EXPECT_THAT(refusal(losses::LossKind::kMse, DTYPE_FLOAT32, {-1}, 0),
              HasSubstr("no fixed shape"));
  EXPECT_THAT(refusal(losses::LossKind::kMse, DTYPE_FLOAT32, {0}, 0),
              HasSubstr("no values"));
  EXPECT_THAT(
      refusal(losses::LossKind::kMse, DTYPE_FLOAT32, {1 << 20, 1 << 20}, 0),
      HasSubstr("more than"));
  EXPECT_THAT(refusal(losses::LossKind::kCrossEntropy, DTYPE_UINT8, {12}, 0),
              HasSubstr("--loss=bce_with_logits"));
}

TEST(BatchReader, GivesTargetsInTheFormOfTheLoss) {
  OpenResponse plan;
  Add(plan, "x", DTYPE_UINT8, {4, 5, 3});
  Add(plan, "y", DTYPE_UINT8, {}, 4);
  Add(plan, "z", DTYPE_FLOAT64, {2, 2});
  Add(plan, "w", DTYPE_INT16, {});
  Batch batch;
  batch.tensors.push_back({"y", torch::tensor({2, 0}, torch::kByte)});
  batch.tensors.push_back({"z", at::arange(8, torch::kDouble).view({2, 2, 2})});
  batch.tensors.push_back({"w", torch::tensor({5, -3}, torch::kShort)});
  EXPECT_TRUE(torch::equal(
      Make(plan, losses::LossKind::kBceWithLogits).Target(batch),
      torch::tensor({0, 0, 1, 0, 1, 0, 0, 0}, torch::kFloat).view({2, 4})));
  EXPECT_TRUE(
      torch::equal(Make(plan, losses::LossKind::kMse, "z").Target(batch),
                   at::arange(8, torch::kFloat).view({2, 1, 2, 2})));
  EXPECT_TRUE(
      torch::equal(Make(plan, losses::LossKind::kMse, "w").Target(batch),
                   torch::tensor({5, -3}, torch::kFloat).view({2, 1})));
  batch.tensors[0].tensor = torch::tensor({-100, 2}, torch::kLong);
  batch.tensors.push_back(
      {"valid", torch::tensor({false, true}, torch::kBool)});
  batch.rows = 2;
  batch.local_valid = 1;
  EXPECT_TRUE(torch::equal(
      Make(plan, losses::LossKind::kBceWithLogits).Target(batch),
      torch::tensor({0, 0, 0, 0, 0, 0, 1, 0}, torch::kFloat).view({2, 4})))
      << "a row without a sample";
}

// The refusal of labels of two samples; empty: they are accepted.
std::string RefusalOf(const std::vector<int64_t>& labels, losses::LossKind loss,
                      bool declared, std::vector<bool> valid = {}) {
  OpenResponse plan;
  Add(plan, "x", DTYPE_UINT8, {4, 5, 3});
  Add(plan, "y", DTYPE_INT64, {}, declared ? 4 : 0);
  const auto reader = BatchReader::Make(
      plan,
      {.target = "y", .loss = loss, .classes = declared ? int64_t{0} : 4});
  EXPECT_TRUE(reader.ok()) << reader.status();
  Batch batch;
  batch.rows = batch.local_valid = labels.size();
  batch.tensors.push_back({"y", torch::tensor(labels, torch::kLong)});
  batch.tensors.push_back(
      {"sample_index", torch::tensor({70, 71}, torch::kLong)});
  if (!valid.empty()) {
    torch::Tensor flags = at::zeros(2, torch::kBool);
    batch.local_valid = 0;
    for (int64_t i = 0; i < 2; ++i) {
      flags[i] = static_cast<bool>(valid[static_cast<size_t>(i)]);
      batch.local_valid += valid[static_cast<size_t>(i)] ? 1 : 0;
    }
    batch.tensors.push_back({"valid", flags});
  }
  try {
    reader->Target(batch);
  } catch (const LabelOutsideClasses& error) {
    const absl::Status status = reader->LabelError(error, "here");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(IsUsageError(status), !declared);
    return std::string(status.message());
  }
  return "";
}

// A label of -100 was taken for a row without a sample: its loss was 0 and its
// prediction counted as wrong. bce_with_logits named neither the target nor
// what to do.
TEST(BatchReader, RefusesLabelsOutsideOfTheClassesForEveryLoss) {
  for (const auto loss :
       {losses::LossKind::kCrossEntropy, losses::LossKind::kBceWithLogits}) {
    EXPECT_EQ(RefusalOf({0, 3}, loss, true), "");
    EXPECT_EQ(RefusalOf({0, -100}, loss, true, {true, false}), "");
    EXPECT_EQ(RefusalOf({255, 3}, loss, true, {false, true}), "");
    EXPECT_THAT(RefusalOf({0, -100}, loss, true),
                AllOf(HasSubstr("here: the target y has the label -100 in row "
                                "1 (sample 71), outside of its 4 classes, 0 "
                                "to 3; -100 marks only"),
                      HasSubstr("or correct their labels")));
    EXPECT_THAT(RefusalOf({-100, -100}, loss, false, {true, false}),
                HasSubstr("has the label -100 in row 0 (sample 70)"));
    // No number of classes would mend it.
    EXPECT_THAT(RefusalOf({0, -1}, loss, false),
                AllOf(HasSubstr("the label -1 in row 1"),
                      HasSubstr("begin with 0: correct the labels"),
                      Not(HasSubstr("--classes"))));
    EXPECT_THAT(RefusalOf({255, 0}, loss, false),
                AllOf(HasSubstr("the label 255 in row 0"),
                      HasSubstr("give --classes a number above the largest "
                                "label")));
    EXPECT_THAT(RefusalOf({4, 0}, loss, true),
                AllOf(HasSubstr("the label 4 in row 0"),
                      HasSubstr("declares 4 classes: correct its labels")));
  }
  // A user's loss may give such labels a meaning.
  EXPECT_EQ(RefusalOf({-100, 255}, losses::LossKind::kTorchScript, true), "");
}

std::unique_ptr<losses::Loss> Learn(const std::string& name) {
  const auto parsed = losses::ParseLossName(name);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  auto loss = losses::MakeLoss(*parsed, torch::kCPU);
  EXPECT_TRUE(loss.ok()) << loss.status();
  return *std::move(loss);
}

const char kLosses[] = "tests/testdata/trainer/models/";

// Outputs and target follow from sines; the numbers are of Python's torch:
// binary_cross_entropy_with_logits, mse_loss and smooth_l1_loss of the rows
// 0, 2 and 3, with reduction="mean", times 3.
TEST(Loss, IsThatOfPythonOverTheRowsThatCount) {
  const torch::Tensor outputs =
      at::sin(at::arange(20, torch::kFloat)).view({4, 5}) * 3;
  const torch::Tensor target =
      at::cos(at::arange(20, torch::kFloat)).view({4, 5}).abs();
  const Batch batch = WithAnEmptyRow();
  const Batch whole = OfRows(4);
  const std::pair<std::string, double> kExpected[] = {
      {"bce_with_logits", 3.304768},
      {"mse", 14.392578},
      {std::string("torchscript:") + kLosses + "huber_of_rows.pt", 4.487487},
      {std::string("torchscript:") + kLosses + "huber_mean.pt", 4.487487}};
  for (const auto& [name, expected] : kExpected) {
    SCOPED_TRACE(name);
    const auto loss = Learn(name);
    torch::Tensor x = outputs.clone();
    // What stands in the empty row, and be it no number, takes no part.
    x[1].fill_(std::nan(""));
    x.requires_grad_(true);
    const torch::Tensor sum = loss->Sum(x, target, batch, 0);
    EXPECT_EQ(sum.dim(), 0);
    EXPECT_NEAR(sum.item<double>(), expected, 1e-5 * expected);
    sum.backward();
    EXPECT_TRUE(x.grad()[1].eq(0).all().item<bool>());
    EXPECT_GT(x.grad()[0].abs().sum().item<float>(), 0);

    const torch::Tensor all = loss->Sum(outputs, target, whole, 0);
    EXPECT_NEAR(all.item<double>(),
                expected + loss->Sum(outputs.slice(0, 1, 2),
                                     target.slice(0, 1, 2), OfRows(1), 0)
                               .item<double>(),
                1e-4);
    // A rank that has nothing but empty rows still takes part in backward().
    torch::Tensor y = outputs.clone().requires_grad_(true);
    Batch hollow = WithAnEmptyRow();
    hollow.local_valid = 0;
    hollow.tensors[0].tensor = at::zeros(4, torch::kBool);
    const torch::Tensor none = loss->Sum(y, target, hollow, 0);
    EXPECT_EQ(none.item<double>(), 0);
    none.backward();
    EXPECT_TRUE(y.grad().eq(0).all().item<bool>());
  }
}

TEST(Loss, TakesOneNumberARowWithoutItsDimension) {
  const torch::Tensor target = torch::tensor({1., 2., 4.}, torch::kFloat);
  const torch::Tensor outputs = torch::tensor({0., 2., 1.}, torch::kFloat);
  EXPECT_EQ(Learn("mse")
                ->Sum(outputs, target.view({3, 1}), OfRows(3), 0)
                .item<float>(),
            10);
  EXPECT_ANY_THROW(Learn("mse")->Sum(
      outputs, target.slice(0, 0, 2).view({2, 1}), OfRows(2), 0));
}

TEST(Loss, RefusesFilesThatAreNoLosses) {
  const auto refusal = [](const std::string& file) {
    const auto loss = losses::MakeLoss(
        {.kind = losses::LossKind::kTorchScript, .file = file}, torch::kCPU);
    EXPECT_FALSE(loss.ok());
    return std::string(loss.status().message());
  };
  EXPECT_THAT(refusal(std::string(kLosses) + "weighted_loss.pt"),
              HasSubstr("weights of its own"));
  EXPECT_THAT(refusal("/no/such/loss.pt"), HasSubstr("/no/such/loss.pt"));
  EXPECT_FALSE(losses::ParseLossName("hinge").ok());
  EXPECT_FALSE(losses::ParseLossName("torchscript:").ok());
}

}  // namespace
}  // namespace millrace::trainer
