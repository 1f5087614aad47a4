#include "trainer/batch_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "trainer/class_loss.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TensorSpec* Add(OpenResponse& plan, const std::string& name, DType dtype,
                std::vector<int64_t> shape, int64_t classes = 0) {
  TensorSpec* spec = plan.add_tensors();
  spec->set_name(name);
  spec->set_dtype(dtype);
  for (int64_t dim : shape) spec->add_sample_shape(dim);
  spec->set_num_classes(classes);
  return spec;
}

BatchReader Make(const OpenResponse& plan) {
  auto reader = BatchReader::Make(plan, "", "");
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
  auto refusal = [](DType dtype, std::vector<int64_t> shape) {
    OpenResponse plan;
    Add(plan, "x", DTYPE_UINT8, {4, 5, 3});
    Add(plan, "y", dtype, shape, 10);
    return std::string(BatchReader::Make(plan, "", "").status().message());
  };
  EXPECT_THAT(refusal(DTYPE_FLOAT32, {}), HasSubstr("neither a class index"));
  EXPECT_THAT(refusal(DTYPE_FLOAT32, {9}), HasSubstr("neither a class index"));
  EXPECT_THAT(refusal(DTYPE_INT64, {10}), HasSubstr("neither a class index"));
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

}  // namespace
}  // namespace millrace
